"""The interface of result stores, which keep results longer than the broker does.

Contract: function and invocation identify a record, and of two records the one with the higher
revision stays, in whatever order and however often they arrive. The exception is a record written
long after the other: it wins with a lower revision, because the broker has lost its stream and
counts from the beginning. A kept record can be read until it is swept.
"""

from collections.abc import AsyncIterable
from datetime import datetime
from typing import Protocol

from gpuruntime.bus.records import StoredRecord
from gpuruntime.errors import GpuRuntimeError


class ResultStoreError(GpuRuntimeError):
    """The base of errors of a result store."""


class StoreAwayError(ResultStoreError):
    """The store is unreachable: a later attempt may succeed, for every record."""


class StoreRefusedError(ResultStoreError):
    """This record cannot be kept; others can."""


class ResultReader(Protocol):
    async def read(self, function: str, invocation: str) -> StoredRecord | None: ...

    async def read_part(self, stored: StoredRecord, part: int) -> bytes:
        """Return one chunk of a body outside its record, or raise the bus's MissingError."""
        ...


class ResultStore(ResultReader, Protocol):
    async def prepare(self) -> None:
        """Return once the store can keep records, or raise StoreAwayError."""
        ...

    async def keep(
        self, stored: StoredRecord, parts: AsyncIterable[bytes], *, written_at: datetime
    ) -> bool:
        """Keep the result durably; return False if this or a newer one was kept already.

        `parts` yields the chunks of the body in order and is read only if needed. `written_at` is
        when the broker stored the record.
        """
        ...

    async def sweep(self, before: datetime) -> int:
        """Delete the records written before that moment and return their number."""
        ...
