"""Groups of tasks whose errors stay what they are."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def task_group() -> AsyncIterator[asyncio.TaskGroup]:
    """Yield a TaskGroup, and raise its first error as it is instead of a group of errors."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None


async def first_of(*works: Coroutine[Any, Any, None]) -> None:
    """Return when the first work ends, and cancel the others; raise its error as it is."""
    async with task_group() as group:
        tasks = [group.create_task(each) for each in works]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
