"""Invocations of a function that nobody declares any more: they end, and say why."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

import attrs
import structlog

from gpuruntime.bus.errors import MalformedMessageError, MissingError
from gpuruntime.bus.jetstream import JetStream, StoredMessage
from gpuruntime.bus.messages import Invocation, Record, read_invocation
from gpuruntime.bus.names import Names
from gpuruntime.bus.records import ConflictError, Records
from gpuruntime.meter import Meter, NullMeter
from gpuruntime.models.kinds.invocations import FailureClass, State

log = structlog.get_logger()

# At one go; what is left then is looked at again.
MOST_AT_ONCE: Final = 500
REASON: Final = "the unit that declared the function is gone"


@attrs.frozen(kw_only=True, slots=True)
class QueueScan:
    """What was looked at of a queue: `after` is the last message, None at the queue's end."""

    after: int | None
    is_clear: bool


class Orphans:
    """Ends and messages are written as workers do it: only over the record that was seen."""

    def __init__(
        self,
        jetstream: JetStream,
        records: Records,
        names: Names,
        *,
        retention_seconds: float,
        now: Callable[[], datetime],
        meter: Meter = NullMeter(),
    ) -> None:
        self._jetstream = jetstream
        self._records = records
        self._names = names
        self._retention_seconds = retention_seconds
        self._now = now
        self._meter = meter

    async def end(self, function: str, *, has_workers: bool) -> bool:
        """Whether nothing of it is left. While workers end, what runs is theirs to end.

        Raises BusError.
        """
        looked = await self._walk(function, lambda _: True, after=0, has_workers=has_workers)
        return looked.after is None and looked.is_clear

    async def end_of_others(
        self, function: str, declarer: str, *, after: int, has_workers: bool
    ) -> QueueScan:
        """What was not accepted for this declarer, as above; all else is left as it is.

        Raises BusError.
        """

        def is_meant(message: StoredMessage) -> bool:
            return _is_of_another(message, function, declarer)

        return await self._walk(function, is_meant, after=after, has_workers=has_workers)

    async def _walk(
        self,
        function: str,
        is_meant: Callable[[StoredMessage], bool],
        *,
        after: int,
        has_workers: bool,
    ) -> QueueScan:
        is_clear = True
        for _ in range(MOST_AT_ONCE):
            message = await self._jetstream.following(
                self._names.invocations, self._names.invoke(function), after=after
            )
            if message is None:
                return QueueScan(after=None, is_clear=is_clear)
            after = message.sequence
            if not is_meant(message):
                continue
            if await self._end(function, message, has_workers=has_workers):
                await self._discard(message)
            else:
                is_clear = False
        return QueueScan(after=after, is_clear=is_clear)

    async def _end(self, function: str, message: StoredMessage, *, has_workers: bool) -> bool:
        """Whether the message is of no more use."""
        try:
            invocation = read_invocation(message.data, function=function)
        except MalformedMessageError as error:
            log.warning("message of no function dropped", function=function, reason=str(error))
            return True
        stored = await self._records.read_latest(function, invocation.invocationID)
        if stored is None or not _is_open(stored.record, invocation):
            return True
        if has_workers and stored.record.state is State.RUNNING:
            return False
        try:
            await self._records.write(
                _ended(stored.record, self._now()),
                expected=stored.revision,
                ttl_seconds=self._retention_seconds,
            )
        except ConflictError:
            return False
        self._meter.count("serverless_orphans_total")
        return True

    async def _discard(self, message: StoredMessage) -> None:
        try:
            await self._jetstream.delete(self._names.invocations, message.sequence)
        except MissingError:
            return


def _is_of_another(message: StoredMessage, function: str, declarer: str) -> bool:
    """What cannot be read is for the workers to bury."""
    try:
        invocation = read_invocation(message.data, function=function)
    except MalformedMessageError:
        return False
    return invocation.declarer not in ("", declarer)


def _is_open(record: Record, invocation: Invocation) -> bool:
    return not record.state.is_terminal and record.series == invocation.series


def _ended(record: Record, now: datetime) -> Record:
    return attrs.evolve(
        record,
        state=State.FAILED,
        failureClass=FailureClass.NO_WORKER_TEMPLATE,
        error=REASON,
        completedAt=now,
    )
