"""The clock of delays and deadlines; virtual in tests."""

import asyncio


def loop_time() -> float:
    """Return the seconds of the running loop's monotonic clock."""
    return asyncio.get_running_loop().time()
