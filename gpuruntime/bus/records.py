"""The records of invocations: read one, and replace one only if nobody else did meanwhile.

Each write carries a token of its own. A refusal, or an answer that was lost, is told from success
by reading the record: what holds the token is what was written here.
"""

import asyncio
from random import Random
from typing import Final

import attrs

from gpuruntime.bus import messages
from gpuruntime.bus.errors import (
    BusError,
    MalformedMessageError,
    OutcomeUnknownError,
    RefusedError,
    UnavailableError,
    WrongSequenceError,
)
from gpuruntime.bus.jetstream import PUBLISH_SECONDS, JetStream, StoredMessage
from gpuruntime.bus.messages import Record
from gpuruntime.bus.names import Names

TOKEN_BYTES: Final = 8
# How often, and how far apart, a replica that lags is asked again.
READS: Final = 5
READ_PAUSE_SECONDS: Final = 0.05
# Nobody answers, or a replica that cannot say.
_UNREAD: Final = (UnavailableError, RefusedError)


@attrs.frozen(slots=True)
class StoredRecord:
    record: Record
    revision: int


class ConflictError(BusError):
    """Another write came first; `current` is what it left, None where that is nothing."""

    def __init__(self, message: str, current: StoredRecord | None) -> None:
        super().__init__(message)
        self.current = current


class Records:
    def __init__(self, jetstream: JetStream, names: Names, *, rng: Random) -> None:
        self._jetstream = jetstream
        self._names = names
        self._rng = rng

    async def read(self, function: str, invocation: str) -> StoredRecord | None:
        subject = self._names.state(function, invocation)
        return _stored(await self._jetstream.last(self._names.states, subject), self._names)

    async def read_latest(self, function: str, invocation: str) -> StoredRecord | None:
        """What `read` may not show yet where a replica lags; asked of the leader alone."""
        subject = self._names.state(function, invocation)
        return _stored(await self._jetstream.latest(self._names.states, subject), self._names)

    async def write(
        self,
        record: Record,
        *,
        expected: int,
        ttl_seconds: float | None = None,
        within_seconds: float = PUBLISH_SECONDS,
    ) -> StoredRecord:
        """Over the revision `expected`, where 0 is none; raises ConflictError with what is there.

        After an OutcomeUnknownError it may be there, or come to be there.
        """
        own = attrs.evolve(record, token=self._rng.randbytes(TOKEN_BYTES).hex())
        subject = self._names.state(own.serverlessRequestID, own.invocationID)
        try:
            stored = await self._jetstream.publish(
                subject,
                messages.encode(own),
                expected_sequence=expected,
                ttl_seconds=ttl_seconds,
                within_seconds=within_seconds,
            )
        except WrongSequenceError as refusal:
            return await self._settle(own, subject, refusal.last_sequence)
        except OutcomeUnknownError as unknown:
            return await self._find(own, unknown)
        return StoredRecord(own, stored.sequence)

    async def delete(self, stored: StoredRecord) -> None:
        await self._jetstream.delete(self._names.states, stored.revision)

    async def _find(self, own: Record, unknown: OutcomeUnknownError) -> StoredRecord:
        """What cannot be read either stays unknown."""
        try:
            current = await self.read(own.serverlessRequestID, own.invocationID)
        except _UNREAD:
            raise unknown from None
        if current is None or current.record.token != own.token:
            raise unknown
        return current

    async def _settle(self, own: Record, subject: str, last: int | None) -> StoredRecord:
        """The refusal may be the answer to a repetition of what was stored already.

        As long as nobody can read what stands there, that is unknown.
        """
        if last == 0:
            raise ConflictError(f"{subject}: is gone", None)
        try:
            current = await self._read_since(own, last or 0)
        except _UNREAD as error:
            raise OutcomeUnknownError(f"{subject}: who wrote it is not known: {error}") from error
        if current is not None and current.record.token == own.token:
            return current
        raise ConflictError(f"{subject}: another write came first", current)

    async def _read_since(self, own: Record, last: int) -> StoredRecord | None:
        """What a replica shows that has come as far as the refusal."""
        for _ in range(READS):
            current = await self.read(own.serverlessRequestID, own.invocationID)
            if current is not None and current.revision >= last:
                return current
            if last == 0:
                return current
            await asyncio.sleep(READ_PAUSE_SECONDS)
        raise UnavailableError(
            f"{own.serverlessRequestID}/{own.invocationID}: no replica shows revision {last}"
        )


def record_of(subject: str, data: bytes, names: Names) -> Record:
    """Whoever may write under one subject may not speak of another's invocation there."""
    record = messages.read(data, Record)
    if (record.serverlessRequestID, record.invocationID) != names.record_of(subject):
        raise MalformedMessageError(f"{subject}: a record that speaks of another invocation")
    return record


def _stored(found: StoredMessage | None, names: Names) -> StoredRecord | None:
    if found is None:
        return None
    return StoredRecord(record_of(found.subject, found.data, names), found.sequence)
