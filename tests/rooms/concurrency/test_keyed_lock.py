"""A lock excludes tasks of the same key and is forgotten when it is not in use."""

import asyncio
import gc
import itertools

import pytest

from gpuruntime.concurrency.keyed_lock import KeyedLock

pytestmark = pytest.mark.looptime


async def work(turns: KeyedLock[str], name: str, spans: list[tuple[float, float]]) -> None:
    async with turns.of(name):
        started = asyncio.get_running_loop().time()
        await asyncio.sleep(1)
        spans.append((started, asyncio.get_running_loop().time()))


async def test_tasks_of_one_key_never_overlap() -> None:
    turns, spans = KeyedLock[str](), list[tuple[float, float]]()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(4):
            tasks.create_task(work(turns, "a", spans))
            gc.collect()
    assert len(spans) == 4
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))


async def test_keys_do_not_wait_for_each_other() -> None:
    turns, started = KeyedLock[str](), asyncio.get_running_loop().time()
    async with asyncio.TaskGroup() as tasks:
        for name in "abcd":
            tasks.create_task(work(turns, name, []))
    assert asyncio.get_running_loop().time() - started == pytest.approx(1)


async def test_a_cancelled_waiter_does_not_block_the_next_one() -> None:
    turns, spans = KeyedLock[str](), list[tuple[float, float]]()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(work(turns, "a", spans))
        waiting = tasks.create_task(work(turns, "a", spans))
        tasks.create_task(work(turns, "a", spans))
        await asyncio.sleep(0.5)
        waiting.cancel()
    assert len(spans) == 2


async def test_a_lock_that_is_not_in_use_is_forgotten() -> None:
    turns = KeyedLock[str]()
    async with turns.of("a"), turns.of("b"):
        assert len(turns) == 2
    gc.collect()
    assert len(turns) == 0
