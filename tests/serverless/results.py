"""Records as workers leave them behind, and stores to keep them in."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import attrs
import msgspec

from gpuruntime.bus.messages import Record, State
from gpuruntime.bus.records import StoredRecord
from tests.bus.broker import FUNCTION

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def ended(name: str = "one", revision: int = 7, **changes: object) -> StoredRecord:
    made = Record(
        invocationID=name,
        serverlessRequestID=FUNCTION,
        state=State.SUCCEEDED,
        attempt=1,
        statusCode=200,
        contentType="application/json",
        headers={"x": "1"},
        body=msgspec.Raw(b'{"nul":"\\u0000"}'),
        acceptedAt=NOW,
        deadlineAt=NOW + timedelta(hours=1),
        startedAt=NOW,
        completedAt=NOW + timedelta(seconds=3),
    )
    changed = attrs.evolve(made, **changes)  # type: ignore[arg-type]  # whatever the test says
    return StoredRecord(changed, revision)


async def parts(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
