"""Long work in short steps: in between the loop serves everybody else."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

T = TypeVar("T")


async def batches(items: Sequence[T], size: int) -> AsyncIterator[Sequence[T]]:
    """A pause before each batch."""
    for start in range(0, len(items), size):
        await asyncio.sleep(0)
        yield items[start : start + size]
