"""How many invocations each function has, and how long the oldest one waits.

One task polls the broker and keeps the last reading.
"""

import asyncio
from collections.abc import Callable, Collection
from datetime import datetime
from typing import Final, Protocol, TypeVar

import attrs
import msgspec
import structlog

from gpuruntime.bus.errors import (
    BadNameError,
    BusError,
    MalformedMessageError,
    MissingError,
    OutcomeUnknownError,
)
from gpuruntime.bus.jetstream import JetStream
from gpuruntime.bus.messages import Invocation, read
from gpuruntime.bus.names import Names
from gpuruntime.bus.records import Records
from gpuruntime.concurrency.waiting import is_set_within
from gpuruntime.meter import Meter, NullMeter
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds.invocations import State

log = structlog.get_logger()

T = TypeVar("T")

# How many of the oldest invocations are read while some wait for their next attempt.
LOOKS: Final = 4
BUSY_SECONDS: Final = 2.0
IDLE_SECONDS: Final = 10.0
# The shortest time between two readings, however often one is requested.
APART_SECONDS: Final = 0.05
PAUSE_SECONDS: Final = 1.0


@attrs.frozen(kw_only=True, slots=True)
class Backlog:
    """`running` counts the invocations that workers hold; all others wait.

    `oldest_at` is when the oldest waiting one was stored, or None if none waits.
    """

    running: int = 0
    oldest_at: datetime | None = None

    def oldest_wait_seconds(self, now: datetime) -> float:
        return max((now - self.oldest_at).total_seconds(), 0.0) if self.oldest_at else 0.0


@attrs.frozen(kw_only=True, slots=True)
class _State:
    messages: int = 0
    subjects: dict[str, int] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True, slots=True)
class _StreamPage:
    """The broker lists at most `limit` subjects at a time; `total` counts all pages."""

    total: int = 0
    limit: int = 0
    state: _State = _State()


@attrs.frozen(kw_only=True, slots=True)
class _Delivered:
    stream_seq: int = 0


@attrs.frozen(kw_only=True, slots=True)
class _Consumer:
    delivered: _Delivered = _Delivered()
    ack_floor: _Delivered = _Delivered()
    num_pending: int = 0
    num_ack_pending: int = 0


@attrs.frozen(kw_only=True, slots=True)
class _Message:
    time: datetime
    seq: int
    data: bytes = b""


@attrs.frozen(kw_only=True, slots=True)
class _Found:
    message: _Message


class Depths:
    """Reads depths from the broker. Raises BusError, since no answer does not mean no work."""

    def __init__(self, jetstream: JetStream, names: Names, records: Records) -> None:
        self._jetstream = jetstream
        self._names = names
        self._records = records

    async def read(self) -> dict[str, int]:
        """Return queued plus running invocations of each function that has any.

        One request returns up to 100,000 functions.
        """
        depths: dict[str, int] = {}
        while True:
            page = await self._page(len(depths), f"{self._names.prefix}.invoke.*")
            subjects = page.state.subjects
            depths |= {subject.rpartition(".")[2]: count for subject, count in subjects.items()}
            if len(subjects) < page.limit or not subjects:
                return depths

    async def of(self, function: str) -> int:
        """Return queued plus running invocations of one function."""
        subject = self._names.invoke(function)
        return (await self._page(0, subject)).state.subjects.get(subject, 0)

    async def dead_letters(self) -> int:
        """Return the number of dead letters of all functions."""
        answer = await self._jetstream.call(f"STREAM.INFO.{self._names.dead_letters}")
        return _converted(answer, _StreamPage).state.messages

    async def backlog(self, function: str, *, busy: int) -> Backlog:
        """Return the function's backlog; its workers report `busy` invocations.

        The broker's count of delivered messages includes those waiting for their next attempt, and
        those of lost workers. Without a consumer nothing was delivered yet.
        """
        consumer = await self._consumer(function)
        delivered = Backlog(running=busy)
        if consumer.num_ack_pending > busy:
            delivered = await self._read_delivered(function, consumer)
        oldest_at = delivered.oldest_at
        if oldest_at is None and consumer.num_pending:
            first = await self._first(function, consumer.delivered.stream_seq + 1)
            oldest_at = first.time if first else None
        running = min(max(busy, delivered.running), consumer.num_ack_pending)
        return Backlog(running=running, oldest_at=oldest_at)

    async def _page(self, offset: int, subjects: str) -> _StreamPage:
        asked: JsonObject = {"subjects_filter": subjects, "offset": offset}
        answer = await self._jetstream.call(f"STREAM.INFO.{self._names.invocations}", asked)
        return _converted(answer, _StreamPage)

    async def _consumer(self, function: str) -> _Consumer:
        verb = f"CONSUMER.INFO.{self._names.invocations}.{function}"
        try:
            return _converted(await self._jetstream.call(verb), _Consumer)
        except MissingError:
            return _Consumer(num_pending=1)

    async def _read_delivered(self, function: str, consumer: _Consumer) -> Backlog:
        """Read the oldest few messages up to the first that waits, since messages may be long.

        This shows a running invocation before its worker's heartbeat does.
        """
        sequence, running = consumer.ack_floor.stream_seq, 0
        for _ in range(LOOKS):
            found = await self._first(function, sequence + 1)
            if found is None or found.seq > consumer.delivered.stream_seq:
                break
            state = await self._state_of(function, found)
            if state is State.QUEUED:
                return Backlog(running=running, oldest_at=found.time)
            running += state is State.RUNNING
            sequence = found.seq
        return Backlog(running=running)

    async def _state_of(self, function: str, message: _Message) -> State | None:
        try:
            invocation = read(message.data, Invocation).invocationID
            stored = await self._records.read(function, invocation)
        except (BadNameError, MalformedMessageError):
            return None
        return stored.record.state if stored else None

    async def _first(self, function: str, sequence: int) -> _Message | None:
        """Return the first message from this sequence on, or None."""
        asked: JsonObject = {"seq": sequence, "next_by_subj": self._names.invoke(function)}
        verb = f"STREAM.MSG.GET.{self._names.invocations}"
        try:
            return _converted(await self._jetstream.call(verb, asked), _Found).message
        except MissingError:
            return None


def _converted(answer: JsonObject, kind: type[T]) -> T:
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise OutcomeUnknownError(f"not a JetStream answer: {error}") from error


class Tell(Protocol):
    def __call__(self, function: str, *, is_urgent: bool) -> None:
        """Report a function that has work or had some; urgent reports cannot wait a second."""
        ...


class DepthPoller:
    """Polls the depths of all functions. It calls `report_all` on the first reading after none."""

    def __init__(
        self,
        depths: Depths,
        *,
        tell: Tell,
        report_all: Callable[[], None],
        meter: Meter = NullMeter(),
    ) -> None:
        self._source = depths
        self._tell = tell
        self._report_all = report_all
        self._meter = meter
        self._depths: dict[str, int] | None = None
        # Functions woken since the last reading began, which may not show their work.
        self._woken: set[str] = set()
        self._due = asyncio.Event()

    def of(self, function: str) -> int | None:
        """Return None before the first reading and while the broker is unreachable."""
        if self._depths is None:
            return None
        return max(self._depths.get(function, 0), int(function in self._woken))

    def adopt(self, depths: dict[str, int], *, woken: Collection[str] = ()) -> None:
        """Adopt a reading that began after the functions `woken` were woken, and report changes.

        A woken function is reported even if its work was done before any reading showed it.
        """
        before, self._depths = self._depths, depths
        self._woken.difference_update(woken)
        self._meter.gauge("serverless_depth", sum(depths.values()))
        if before is None:
            self._report_all()
        known = before or {}
        for function in {*depths, *known, *woken}:
            is_jump = _is_jump(known.get(function, 0), depths.get(function, 0))
            self._tell(function, is_urgent=is_jump)

    def forget(self) -> None:
        """Drop the reading, because the broker is unreachable."""
        self._depths = None

    def wake(self, function: str) -> None:
        self._woken.add(function)
        self.request_poll()

    def request_poll(self) -> None:
        """Request a reading now instead of at the next interval."""
        self._due.set()

    async def run(self) -> None:
        while True:
            await self._until_due()
            self._due.clear()
            woken = set(self._woken)
            try:
                depths = await self._source.read()
            except BusError as error:
                if self._depths is not None:
                    log.warning("depths unknown", reason=str(error))
                self.forget()
                await asyncio.sleep(PAUSE_SECONDS)
                self.request_poll()
                continue
            self.adopt(depths, woken=woken)
            await asyncio.sleep(APART_SECONDS)

    async def _until_due(self) -> None:
        await is_set_within(self._due, BUSY_SECONDS if self._depths else IDLE_SECONDS)


def _is_jump(before: int, now: int) -> bool:
    """Return whether it starts from nothing, falls to nothing, or more than doubles."""
    return now > 2 * before or (now == 0) != (before == 0)
