"""Cancellations, which the broker's library may keep to itself."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept_cancellation() -> Iterator[None]:
    """What is cancelled in the block ends as cancelled, whatever the block makes of it.

    The library waits by `asyncio.wait_for`, which before Python 3.12 answers as if nothing had
    happened when what it waits for is there in the moment of the cancellation.
    """
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    try:
        yield
    finally:
        if task.cancelling() > before:
            raise asyncio.CancelledError
