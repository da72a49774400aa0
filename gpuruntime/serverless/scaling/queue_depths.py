"""How many invocations each function has, and how long the first of them waits."""

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

# Of the oldest invocations, while some wait for their next attempt.
LOOKS: Final = 4
BUSY_SECONDS: Final = 2.0
IDLE_SECONDS: Final = 10.0
# However often somebody asks for a look.
APART_SECONDS: Final = 0.05
PAUSE_SECONDS: Final = 1.0


@attrs.frozen(kw_only=True, slots=True)
class Backlog:
    """`running` are those that workers have in hand; all others wait.

    `oldest_at` is when the first of those that wait came; None where there is none.
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
    """The broker tells at most `limit` subjects at a time; `total` is of all pages."""

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
    """Raises BusError: that nobody answers is not the same as that there is nothing."""

    def __init__(self, jetstream: JetStream, names: Names, records: Records) -> None:
        self._jetstream = jetstream
        self._names = names
        self._records = records

    async def read(self) -> dict[str, int]:
        """Of each function that has any: those queued and those running together.

        One request tells of 100,000 functions.
        """
        depths: dict[str, int] = {}
        while True:
            page = await self._page(len(depths))
            subjects = page.state.subjects
            depths |= {subject.rpartition(".")[2]: count for subject, count in subjects.items()}
            if len(subjects) < page.limit or not subjects:
                return depths

    async def dead_letters(self) -> int:
        """How many there are, of all functions."""
        answer = await self._jetstream.call(f"STREAM.INFO.{self._names.dead_letters}")
        return _told(answer, _StreamPage).state.messages

    async def backlog(self, function: str, *, busy: int) -> Backlog:
        """`busy`: how many its workers say that they have in hand.

        The broker counts as delivered what waits for its next attempt, too, and what a worker had
        that is lost. Without a consumer no worker was given anything yet.
        """
        consumer = await self._consumer(function)
        delivered = Backlog(running=busy)
        if consumer.num_ack_pending > busy:
            delivered = await self._look_at_delivered(function, consumer)
        oldest_at = delivered.oldest_at
        if oldest_at is None and consumer.num_pending:
            first = await self._first(function, consumer.delivered.stream_seq + 1)
            oldest_at = first.time if first else None
        running = min(max(busy, delivered.running), consumer.num_ack_pending)
        return Backlog(running=running, oldest_at=oldest_at)

    async def _page(self, offset: int) -> _StreamPage:
        asked: JsonObject = {"subjects_filter": f"{self._names.prefix}.invoke.*", "offset": offset}
        answer = await self._jetstream.call(f"STREAM.INFO.{self._names.invocations}", asked)
        return _told(answer, _StreamPage)

    async def _consumer(self, function: str) -> _Consumer:
        verb = f"CONSUMER.INFO.{self._names.invocations}.{function}"
        try:
            return _told(await self._jetstream.call(verb), _Consumer)
        except MissingError:
            return _Consumer(num_pending=1)

    async def _look_at_delivered(self, function: str, consumer: _Consumer) -> Backlog:
        """Of the oldest few, up to the first that waits: messages may be long.

        What runs is known here before its worker has told of it.
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
        """The first message from this sequence on."""
        asked: JsonObject = {"seq": sequence, "next_by_subj": self._names.invoke(function)}
        verb = f"STREAM.MSG.GET.{self._names.invocations}"
        try:
            return _told(await self._jetstream.call(verb, asked), _Found).message
        except MissingError:
            return None


def _told(answer: JsonObject, kind: type[T]) -> T:
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise OutcomeUnknownError(f"not a JetStream answer: {error}") from error


class Tell(Protocol):
    def __call__(self, function: str, *, is_urgent: bool) -> None:
        """Of a function that has work, or had some. What is urgent cannot wait for a second."""
        ...


class DepthPoller:
    """`tell_all` hears of the first reading after none."""

    def __init__(
        self,
        depths: Depths,
        *,
        tell: Tell,
        tell_all: Callable[[], None],
        meter: Meter = NullMeter(),
    ) -> None:
        self._source = depths
        self._tell = tell
        self._tell_all = tell_all
        self._meter = meter
        self._depths: dict[str, int] | None = None
        # Functions that were woken since the last reading began: it may not show why.
        self._woken: set[str] = set()
        self._due = asyncio.Event()

    def of(self, function: str) -> int | None:
        """None while nobody knows."""
        if self._depths is None:
            return None
        return max(self._depths.get(function, 0), int(function in self._woken))

    def adopt(self, depths: dict[str, int], *, woken: Collection[str] = ()) -> None:
        """What a reading found that began after these were woken. Tells whoever it concerns.

        Of one that was woken the work may be done before any reading has shown it.
        """
        before, self._depths = self._depths, depths
        self._woken.difference_update(woken)
        self._meter.gauge("serverless_depth", sum(depths.values()))
        if before is None:
            self._tell_all()
        known = before or {}
        for function in {*depths, *known, *woken}:
            is_jump = _is_jump(known.get(function, 0), depths.get(function, 0))
            self._tell(function, is_urgent=is_jump)

    def forget(self) -> None:
        """The broker is away: what was read is no longer so."""
        self._depths = None

    def wake(self, function: str) -> None:
        self._woken.add(function)
        self.look()

    def look(self) -> None:
        """Soon, and not only at the next turn."""
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
                self.look()
                continue
            self.adopt(depths, woken=woken)
            await asyncio.sleep(APART_SECONDS)

    async def _until_due(self) -> None:
        await is_set_within(self._due, BUSY_SECONDS if self._depths else IDLE_SECONDS)


def _is_jump(before: int, now: int) -> bool:
    """From nothing or to nothing, or to far more."""
    return now > 2 * before or (now == 0) != (before == 0)
