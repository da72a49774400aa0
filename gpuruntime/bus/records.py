"""The records of invocations: read one, or replace it unless another write came first.

Each write carries its own token. After a refusal or a lost answer the record is read: if it holds
the token, the write has succeeded.
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
# How often, and at what interval, a replica that lags is read again.
READS: Final = 5
READ_PAUSE_SECONDS: Final = 0.05
# There is no responder, or the replica cannot answer.
_UNREAD: Final = (UnavailableError, RefusedError)


@attrs.frozen(slots=True)
class StoredRecord:
    record: Record
    revision: int


class ConflictError(BusError):
    """Another write came first; `current` is the record now, or None if there is none."""

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
        """Return the record from the stream's leader; `read` may return an older one."""
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
        """Replace the revision `expected`, or create the record if `expected` is 0.

        Raise ConflictError with the current record if another write came first. After an
        OutcomeUnknownError the write may have been stored, or may still be.
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
        """Return our own write, or raise the error again if it cannot be read or is not there."""
        try:
            current = await self.read(own.serverlessRequestID, own.invocationID)
        except _UNREAD:
            raise unknown from None
        if current is None or current.record.token != own.token:
            raise unknown
        return current

    async def _settle(self, own: Record, subject: str, last: int | None) -> StoredRecord:
        """Decide a refusal: it may answer the repetition of a write that was already stored.

        While the current record cannot be read, the outcome is unknown.
        """
        if last == 0:
            raise ConflictError(f"{subject}: is gone", None)
        try:
            current = await self._read_since(own, last or 0)
        except _UNREAD as error:
            raise OutcomeUnknownError(
                f"{subject}: cannot tell which write is stored: {error}"
            ) from error
        if current is not None and current.record.token == own.token:
            return current
        raise ConflictError(f"{subject}: another write came first", current)

    async def _read_since(self, own: Record, last: int) -> StoredRecord | None:
        """Return the record from a replica that has reached the revision of the refusal."""
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
    """Return the record, or raise MalformedMessageError if it names another invocation.

    A writer is permitted by subject, so a record must match the subject it is under.
    """
    record = messages.read(data, Record)
    if (record.serverlessRequestID, record.invocationID) != names.record_of(subject):
        raise MalformedMessageError(f"{subject}: the record names another invocation")
    return record


def _stored(found: StoredMessage | None, names: Names) -> StoredRecord | None:
    if found is None:
        return None
    return StoredRecord(record_of(found.subject, found.data, names), found.sequence)
