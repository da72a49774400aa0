"""Where results are kept beyond the time that the broker keeps their records.

Contract: a record is named by function and invocation, and of two the one with the higher revision
stays, in whatever order they come and however often. Only one that was written long after the
other wins with a lower one: the broker lost its stream meanwhile, and counts from the beginning.
What was kept can be read until it is swept.
"""

from collections.abc import AsyncIterable
from datetime import datetime
from typing import Protocol

from gpuruntime.bus.records import StoredRecord
from gpuruntime.errors import GpuRuntimeError


class ResultStoreError(GpuRuntimeError):
    """The base of what a store of results raises."""


class StoreAwayError(ResultStoreError):
    """Nobody there who can answer: the same may go well in a while, for every record."""


class StoreRefusedError(ResultStoreError):
    """This one record cannot be kept; others can."""


class ResultReader(Protocol):
    async def read(self, function: str, invocation: str) -> StoredRecord | None: ...

    async def read_part(self, stored: StoredRecord, part: int) -> bytes:
        """One chunk of a body that is not in the record; raises MissingError of the bus."""
        ...


class ResultStore(ResultReader, Protocol):
    async def prepare(self) -> None:
        """Returns when the store can keep records; raises StoreAwayError as long as it cannot."""
        ...

    async def keep(
        self, stored: StoredRecord, parts: AsyncIterable[bytes], *, written_at: datetime
    ) -> bool:
        """Kept for good when this returns; False where it was there already, or a newer one.

        `parts` are the chunks of the body in order, and not asked for where there is no need;
        `written_at` is when the broker took the record.
        """
        ...

    async def sweep(self, before: datetime) -> int:
        """The number of records that were written before then, which are gone now."""
        ...
