"""Records as workers leave them, and stores to keep them in."""

from collections.abc import AsyncIterable, AsyncIterator
from datetime import UTC, datetime, timedelta

import attrs
import msgspec

from gpuruntime.bus.messages import Record
from gpuruntime.bus.records import StoredRecord
from gpuruntime.models.kinds.invocations import State
from gpuruntime.serverless.results.store import StoreAwayError, StoreRefusedError
from tests.rooms.bus.broker import FUNCTION

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


class Shelf:
    """A store in memory that can be unreachable, and that rejects records called `bad`."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], StoredRecord] = {}
        self.bodies: dict[tuple[str, str], list[bytes]] = {}
        self.written_at: dict[str, datetime] = {}
        self.away = ""
        self.prepared = 0
        self.asked = 0
        self.swept_before: list[datetime] = []

    async def prepare(self) -> None:
        self.prepared += 1
        self._demand()

    async def keep(
        self, stored: StoredRecord, parts: AsyncIterable[bytes], *, written_at: datetime
    ) -> bool:
        self.asked += 1
        self._demand()
        key = (stored.record.serverlessRequestID, stored.record.invocationID)
        if key[1] == "bad":
            raise StoreRefusedError("bad rows are not wanted")
        before = self.kept.get(key)
        if before and before.revision >= stored.revision:
            return False
        body = [part async for part in parts]
        self.kept[key], self.bodies[key], self.written_at[key[1]] = stored, body, written_at
        return True

    async def read(self, function: str, invocation: str) -> StoredRecord | None:
        self._demand()
        return self.kept.get((function, invocation))

    async def read_part(self, stored: StoredRecord, part: int) -> bytes:
        key = (stored.record.serverlessRequestID, stored.record.invocationID)
        return self.bodies[key][part]

    async def sweep(self, before: datetime) -> int:
        self._demand()
        self.swept_before.append(before)
        return 0

    def _demand(self) -> None:
        if self.away:
            raise StoreAwayError(self.away)
