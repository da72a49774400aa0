"""Waits with a time limit."""

import asyncio
from contextlib import suppress


async def is_set_within(event: asyncio.Event, seconds: float) -> bool:
    """Wait at most `seconds` for the event. Return whether it is set then."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()
