"""Shared reads are as few as possible, and none begins before the call that it answers."""

import asyncio

import pytest

from gpuruntime.kube.errors import UnavailableError
from gpuruntime.operations.lookup.shared_reads import SharedReads

pytestmark = pytest.mark.looptime


class Reads:
    """A read that takes a second and returns the time at which it began."""

    def __init__(self) -> None:
        self.begun: list[float] = []
        self.fails = False

    async def __call__(self, subject: str) -> float:
        moment = asyncio.get_running_loop().time()
        self.begun.append(moment)
        await asyncio.sleep(1)
        if self.fails:
            raise UnavailableError(f"{subject} cannot be read")
        return moment


async def asked_after(shared: SharedReads[float], seconds: float) -> tuple[float, float]:
    """Return the time of the call, and the time at which its read began."""
    await asyncio.sleep(seconds)
    asked_at = asyncio.get_running_loop().time()
    return asked_at, await shared.get("g1")


async def test_no_caller_gets_a_read_that_began_before_its_call() -> None:
    reads = Reads()
    shared = SharedReads(reads)
    async with asyncio.TaskGroup() as tasks:
        calls = [tasks.create_task(asked_after(shared, 0.3 * number)) for number in range(20)]
    for call in calls:
        asked_at, begun_at = call.result()
        assert asked_at <= begun_at
    assert len(reads.begun) <= 8


async def test_all_callers_during_one_read_share_the_next_read() -> None:
    reads = Reads()
    shared = SharedReads(reads)
    async with asyncio.TaskGroup() as tasks:
        for seconds in (0.0, 0.1, 0.2, 0.9):
            tasks.create_task(asked_after(shared, seconds))
    assert len(reads.begun) == 2


async def test_each_subject_has_reads_of_its_own() -> None:
    reads = Reads()
    shared = SharedReads(reads)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(shared.get("g1"))
        tasks.create_task(shared.get("g2"))
    assert len(set(reads.begun)) == 1


async def test_callers_that_share_a_read_share_its_failure() -> None:
    reads = Reads()
    reads.fails = True
    shared = SharedReads(reads)
    failures = 0

    async def call(seconds: float) -> None:
        nonlocal failures
        with pytest.raises(UnavailableError):
            await asked_after(shared, seconds)
        failures += 1

    async with asyncio.TaskGroup() as tasks:
        for seconds in (0.0, 0.1, 0.2):
            tasks.create_task(call(seconds))
    assert failures == 3
    assert len(reads.begun) == 2


async def test_another_caller_reads_if_the_reader_is_cancelled() -> None:
    reads = Reads()
    shared = SharedReads(reads)
    async with asyncio.TaskGroup() as tasks:
        reader = tasks.create_task(shared.get("g1"))
        calls = [tasks.create_task(asked_after(shared, 0.1)) for _ in range(3)]
        await asyncio.sleep(0.5)
        reader.cancel()
    assert len(reads.begun) == 2
    assert all(call.result()[1] == reads.begun[1] for call in calls)
