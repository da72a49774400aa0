import asyncio

import pytest

from gpuruntime.concurrency.waiting import is_set_within

pytestmark = pytest.mark.looptime


async def test_a_wait_ends_as_soon_as_the_event_is_set() -> None:
    loop, event = asyncio.get_running_loop(), asyncio.Event()
    started = loop.time()
    loop.call_later(2, event.set)
    assert await is_set_within(event, 5)
    assert loop.time() - started == pytest.approx(2)


async def test_a_wait_ends_after_its_seconds() -> None:
    loop, event = asyncio.get_running_loop(), asyncio.Event()
    started = loop.time()
    assert not await is_set_within(event, 5)
    assert loop.time() - started == pytest.approx(5)


async def test_an_event_that_is_set_already_takes_no_time() -> None:
    event = asyncio.Event()
    event.set()
    assert await is_set_within(event, 0)


async def test_a_cancelled_wait_is_not_taken_for_a_timeout() -> None:
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(is_set_within(asyncio.Event(), 5))
        await asyncio.sleep(1)
        waiting.cancel()
    assert waiting.cancelled()
