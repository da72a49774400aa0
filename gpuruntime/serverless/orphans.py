"""Ends invocations that no worker will run, and says why.

Either no unit declares their function any more, or another unit has taken it over.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final

import attrs
import structlog

from gpuruntime.bus.errors import BusError, MalformedMessageError, MissingError
from gpuruntime.bus.jetstream import JetStream, StoredMessage
from gpuruntime.bus.messages import Invocation, Record, read_invocation
from gpuruntime.bus.names import Names
from gpuruntime.bus.records import ConflictError, Records
from gpuruntime.meter import Meter, NullMeter
from gpuruntime.models.kinds.invocations import FailureClass, State
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.operations.lookup.caches import FUNCTION, Cache
from gpuruntime.serverless.scaling.consumers import Consumers
from gpuruntime.serverless.scaling.heartbeats import Heartbeats
from gpuruntime.serverless.scaling.workers import SERVING

log = structlog.get_logger()

# The most messages of one pass; the rest follows in the next one.
MOST_AT_ONCE: Final = 500
# The retry interval while an earlier declarer's workers end their calls, or without a broker.
AGAIN_SECONDS: Final = 5.0
CATCH_UP_SECONDS: Final = 30.0
REASON: Final = "the unit that declared the function is gone"


@attrs.frozen(kw_only=True, slots=True)
class QueueScan:
    """The result of one pass over a queue.

    `after` is the last sequence read, or None at the end of the queue. `is_clear` means that all
    messages in question were removed.
    """

    after: int | None
    is_clear: bool


class Orphans:
    """Ends invocations as workers do: it writes only over the record that it has read."""

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
        """End all invocations; return whether none is left. Raise BusError.

        While the function has workers, they end the running invocations themselves.
        """
        looked = await self._walk(function, lambda _: True, after=0, has_workers=has_workers)
        return looked.after is None and looked.is_clear

    async def end_of_others(
        self, function: str, declarer: str, *, after: int, has_workers: bool
    ) -> QueueScan:
        """End the invocations that were accepted for another declarer than this one.

        While there are other declarers' workers, running invocations are left to them. Raise
        BusError.
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
        """End the invocation of the message; return whether the message can be deleted."""
        try:
            invocation = read_invocation(message.data, function=function)
        except MalformedMessageError as error:
            log.warning("malformed message dropped", function=function, reason=str(error))
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


@attrs.define(kw_only=True, slots=True)
class _Walk:
    """The progress through one function's queue for one declarer; `met` foreign ones are known."""

    declarer: str
    met: int
    after: int = 0
    is_clear: bool = True
    is_over: bool = False


class Takeovers:
    """Ends what was accepted for an earlier declarer of a function when a new one takes over.

    The name of a deleted function may belong to another tenant now. Workers give back invocations
    of other declarers, so no later declarer receives them. Here they end as they would without a
    successor. The queue is walked when a declarer is new to this process, and whenever a worker
    reports that it has met such invocations.
    """

    def __init__(self, units: Cache[GPUUnit], orphans: Orphans, beats: Heartbeats) -> None:
        self._units = units
        self._orphans = orphans
        self._beats = beats
        self._walks: dict[str, _Walk] = {}

    async def advance(self, function: str, declarer: str, *, depth: int | None) -> float | None:
        """Walk on; return when to continue, or None if there is nothing to end.

        After a completed walk this costs nothing. If `depth` is None the queue's content is
        unknown, and the function is reconciled again once it is known.
        """
        walk = self._walk(function, declarer)
        if walk.is_over or depth is None:
            return None
        if not depth:
            walk.is_over = True
            return None
        try:
            return await self._continue(function, walk)
        except BusError as error:
            log.warning("invocations of an earlier declarer stay for now", reason=str(error))
            return AGAIN_SECONDS

    def forget(self, function: str) -> None:
        """Forget the walk, because no unit declares the function."""
        self._walks.pop(function, None)

    def _walk(self, function: str, declarer: str) -> _Walk:
        walk, met = self._walks.get(function), self._beats.foreign(function)
        if walk is None or walk.declarer != declarer or walk.met < met:
            walk = self._walks[function] = _Walk(declarer=declarer, met=met)
        walk.met = met
        return walk

    async def _continue(self, function: str, walk: _Walk) -> float | None:
        stretch = await self._orphans.end_of_others(
            function, walk.declarer, after=walk.after, has_workers=self._has_others(function, walk)
        )
        walk.is_clear = walk.is_clear and stretch.is_clear
        if stretch.after is not None:
            walk.after = stretch.after
            return 0.0
        walk.is_over = walk.is_clear
        walk.after, walk.is_clear = 0, True
        return None if walk.is_over else AGAIN_SECONDS

    def _has_others(self, function: str, walk: _Walk) -> bool:
        serving = self._units.store.by_index(SERVING, function)
        return any(_declarer_of(each) != walk.declarer for each in serving)


@attrs.frozen(kw_only=True, slots=True)
class UndeclaredFunctions:
    """Ends invocations of functions that no unit declares, and deletes their consumers.

    A function counts as undeclared only if the cluster itself shows it: a cache may lag.
    """

    units: Cache[GPUUnit]
    consumers: Consumers
    orphans: Orphans
    catch_up: Callable[[], Awaitable[None]]

    async def end(self, function: str) -> float | None:
        """End the function; return in how many seconds to retry, or None if nothing is left."""
        try:
            is_over = await self._is_gone(function) and await self._end(function)
        except BusError as error:
            log.warning("invocations without a function stay for now", reason=str(error))
            is_over = False
        return None if is_over else AGAIN_SECONDS

    async def _is_gone(self, function: str) -> bool:
        try:
            async with asyncio.timeout(CATCH_UP_SECONDS):
                await self.catch_up()
        except TimeoutError:
            return False
        return not self.units.store.by_index(FUNCTION, function)

    async def _end(self, function: str) -> bool:
        has_workers = bool(self.units.store.by_index(SERVING, function))
        if not await self.orphans.end(function, has_workers=has_workers):
            return False
        await self.consumers.remove(function)
        return True


def _is_of_another(message: StoredMessage, function: str, declarer: str) -> bool:
    """Return whether it is another declarer's; unreadable messages are left to the workers."""
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


def _declarer_of(worker: GPUUnit) -> str:
    made_by = worker.spec.serverless.workerOf if worker.spec.serverless else None
    return made_by.uid if made_by else ""
