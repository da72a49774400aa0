"""Long work in batches, between which the loop runs other tasks."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

T = TypeVar("T")


async def batches(items: Sequence[T], size: int) -> AsyncIterator[Sequence[T]]:
    """Yield at most `size` items at a time, and let other tasks run before each batch."""
    for start in range(0, len(items), size):
        await asyncio.sleep(0)
        yield items[start : start + size]
