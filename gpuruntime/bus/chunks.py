"""Bodies that are too long for a record are stored as chunks, one message each."""

from typing import Final

from gpuruntime.bus.errors import MissingError
from gpuruntime.bus.jetstream import JetStream
from gpuruntime.bus.messages import Record
from gpuruntime.bus.names import Names

CHUNK_BYTES: Final = 256 * 1024


def parts_of(body: bytes) -> int:
    """Return the number of chunks, or 0 if the body stays in the record."""
    return -(-len(body) // CHUNK_BYTES) if len(body) > CHUNK_BYTES else 0


class Bodies:
    def __init__(self, jetstream: JetStream, names: Names) -> None:
        self._jetstream = jetstream
        self._names = names

    async def write(self, record: Record, body: bytes, *, ttl_seconds: float) -> int:
        """Store the chunks and return their number; call this before writing the record."""
        parts = parts_of(body)
        for part in range(parts):
            subject = self._subject(record, part)
            chunk = body[part * CHUNK_BYTES : (part + 1) * CHUNK_BYTES]
            await self._jetstream.publish(
                subject, chunk, message_id=subject, ttl_seconds=ttl_seconds
            )
        return parts

    async def read_part(self, record: Record, part: int) -> bytes:
        subject = self._subject(record, part)
        found = await self._jetstream.last(self._names.bodies, subject)
        if found is None:
            raise MissingError(f"{subject}: this part of the body is gone")
        return found.data

    def _subject(self, record: Record, part: int) -> str:
        return self._names.body(
            record.serverlessRequestID,
            record.invocationID,
            series=record.series,
            attempt=record.attempt,
            part=part,
        )
