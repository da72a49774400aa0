"""Writes the outcome of an attempt: a long body first, then a dead letter, then the record.

The record is written last, and only over the record that the writer read. If another write came
first, none of this becomes the invocation's result. If that write was another end, the dead letter
is withdrawn.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Final

import attrs
import msgspec

from gpuruntime.bus.chunks import Bodies, parts_of
from gpuruntime.bus.delivery import Delivery
from gpuruntime.bus.errors import BusError, TooLargeError
from gpuruntime.bus.jetstream import SHORTEST_TTL_SECONDS, JetStream
from gpuruntime.bus.messages import NULL, DeadLetter, Record, encode
from gpuruntime.bus.names import Names, dead_letter_id, unreadable_letter_id
from gpuruntime.bus.records import ConflictError, Records, StoredRecord
from gpuruntime.models.kinds.invocations import FailureClass, State

# How much is kept of a message that is not JSON; a person reads no more.
MOST_UNREADABLE_BYTES: Final = 64 * 1024


class OutcomeWriter:
    def __init__(
        self,
        jetstream: JetStream,
        records: Records,
        names: Names,
        *,
        retention_seconds: float,
        now: Callable[[], datetime],
    ) -> None:
        self._jetstream = jetstream
        self._records = records
        self._names = names
        self._bodies = Bodies(jetstream, names)
        self._retention_seconds = retention_seconds
        self._now = now

    async def write(self, record: Record, delivery: Delivery, *, expected: int) -> StoredRecord:
        """Write the outcome, or raise ConflictError if the record was replaced meanwhile."""
        if record.state is State.DEAD_LETTERED:
            await self._write_dead_letter(record, delivery)
        ttl = self._retention_seconds if record.state.is_terminal else None
        shortened = await self._with_parts(record)
        try:
            return await self._records.write(shortened, expected=expected, ttl_seconds=ttl)
        except ConflictError as conflict:
            if record.state is State.DEAD_LETTERED and _ended_otherwise(record, conflict.current):
                await self._withdraw(record)
            raise

    async def write_unreadable(self, function: str, delivery: Delivery, error: str) -> None:
        await self._publish(
            DeadLetter(
                deadLetterID=unreadable_letter_id(function, delivery.sequence),
                serverlessRequestID=function,
                failureClass=FailureClass.MALFORMED_MESSAGE,
                error=error,
                unreadable=delivery.data[:MOST_UNREADABLE_BYTES],
                deadAt=self._now(),
            )
        )

    async def _with_parts(self, record: Record) -> Record:
        body = bytes(record.body)
        if not parts_of(body):
            return record
        parts = await self._bodies.write(record, body, ttl_seconds=self._retention_seconds)
        return attrs.evolve(record, body=NULL, bodyParts=parts)

    async def _write_dead_letter(self, record: Record, delivery: Delivery) -> None:
        letter = DeadLetter(
            deadLetterID=_letter_id(record),
            serverlessRequestID=record.serverlessRequestID,
            invocationID=record.invocationID,
            series=record.series,
            attempt=record.attempt,
            failureClass=record.failureClass or FailureClass.RETRY_EXHAUSTED,
            error=record.error,
            invocation=msgspec.Raw(delivery.data),
            deadAt=self._now(),
        )
        try:
            await self._publish(letter)
        except TooLargeError:
            await self._publish(attrs.evolve(letter, invocation=NULL))

    async def _withdraw(self, record: Record) -> None:
        """Replace the dead letter by an empty message that expires soon; workers may not delete.

        If this fails, the dead letter is dropped when a caller asks for its redrive.
        """
        letter = _letter_id(record)
        subject = self._names.dead_letter(record.serverlessRequestID, letter)
        with suppress(BusError):
            await self._jetstream.publish(
                subject, b"", message_id=f"{letter}:withdrawn", ttl_seconds=SHORTEST_TTL_SECONDS
            )

    async def _publish(self, letter: DeadLetter) -> None:
        subject = self._names.dead_letter(letter.serverlessRequestID, letter.deadLetterID)
        await self._jetstream.publish(subject, encode(letter), message_id=letter.deadLetterID)


def _letter_id(record: Record) -> str:
    return dead_letter_id(record.serverlessRequestID, record.invocationID, record.series)


def _ended_otherwise(dead: Record, current: StoredRecord | None) -> bool:
    """Return whether the series has ended otherwise, so that it can never be dead-lettered."""
    if current is None or current.record.series != dead.series:
        return False
    state = current.record.state
    return state.is_terminal and state is not State.DEAD_LETTERED
