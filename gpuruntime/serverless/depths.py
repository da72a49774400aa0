"""How many invocations each function has, and how long the first of them waits."""

from datetime import datetime
from typing import TypeVar

import attrs
import msgspec

from gpuruntime.bus.errors import MissingError, OutcomeUnknownError
from gpuruntime.bus.jetstream import JetStream
from gpuruntime.bus.names import Names
from gpuruntime.models.json import JsonObject

T = TypeVar("T")


@attrs.frozen(kw_only=True, slots=True)
class Backlog:
    """`in_hand` were delivered to workers and are not answered yet.

    `oldest_at` is when the first that no worker was given came; None where there is none.
    """

    in_hand: int = 0
    oldest_at: datetime | None = None

    def oldest_wait_seconds(self, now: datetime) -> float:
        return max((now - self.oldest_at).total_seconds(), 0.0) if self.oldest_at else 0.0


@attrs.frozen(kw_only=True, slots=True)
class _State:
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
    num_pending: int = 0
    num_ack_pending: int = 0


@attrs.frozen(kw_only=True, slots=True)
class _Message:
    time: datetime


@attrs.frozen(kw_only=True, slots=True)
class _Found:
    message: _Message


class Depths:
    """Raises BusError: that nobody answers is not the same as that there is nothing."""

    def __init__(self, jetstream: JetStream, names: Names) -> None:
        self._jetstream = jetstream
        self._names = names

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

    async def backlog(self, function: str) -> Backlog:
        """Without a consumer no worker was given anything yet."""
        consumer = await self._consumer(function)
        oldest_at = None
        if consumer.num_pending:
            oldest_at = await self._first_at(function, consumer.delivered.stream_seq + 1)
        return Backlog(in_hand=consumer.num_ack_pending, oldest_at=oldest_at)

    async def _page(self, offset: int) -> _StreamPage:
        asked: JsonObject = {"subjects_filter": f"{self._names.prefix}.invoke.*", "offset": offset}
        answer = await self._jetstream.call(f"STREAM.INFO.{self._names.invocations}", asked)
        return _read(answer, _StreamPage)

    async def _consumer(self, function: str) -> _Consumer:
        verb = f"CONSUMER.INFO.{self._names.invocations}.{function}"
        try:
            return _read(await self._jetstream.call(verb), _Consumer)
        except MissingError:
            return _Consumer(num_pending=1)

    async def _first_at(self, function: str, sequence: int) -> datetime | None:
        """When the first message from this sequence on was stored."""
        asked: JsonObject = {"seq": sequence, "next_by_subj": self._names.invoke(function)}
        verb = f"STREAM.MSG.GET.{self._names.invocations}"
        try:
            return _read(await self._jetstream.call(verb, asked), _Found).message.time
        except MissingError:
            return None


def _read(answer: JsonObject, kind: type[T]) -> T:
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise OutcomeUnknownError(f"an answer that is none of JetStream's: {error}") from error
