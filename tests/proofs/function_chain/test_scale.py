"""Workers start when a function is called and end when it is idle; no call is lost.

GPURUNTIME_CHAIN_SCHEDULES is the number of arrival schedules; the nox session uses 20.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from random import Random
from statistics import median
from typing import Any

import pytest

from tests.eventually import eventually_blocking
from tests.proofs.function_chain.calls import Ask, Calls, assert_right, calls, payload
from tests.proofs.function_chain.chain import Chain, chain

pytestmark = pytest.mark.serverless

SCHEDULES = int(os.environ.get("GPURUNTIME_CHAIN_SCHEDULES", "4"))
AT_ONCE = 4
ROUNDS = 4
IDLE_SECONDS = 1
FOREVER = "import time; time.sleep(1e6)"


@pytest.fixture(scope="module")
def made() -> Iterator[Chain]:
    with chain("api-1", "manager-1", "activator-1", "activator-2", "results-1") as started:
        yield started


@asynccontextmanager
async def calling(made: Chain, seed: int) -> AsyncIterator[tuple[Calls, Random]]:
    rng = Random(seed)
    async with calls(lambda: made.addresses, rng) as caller:
        yield caller, rng


def asks(function: str, count: int, rng: Random, **options: Any) -> list[Ask]:
    return [
        Ask(
            function=function,
            name=f"{function}-{rng.randrange(2**40)}",
            payload=payload(number, rng, **options),
            mode=rng.choice(["sync", "async"]),
        )
        for number in range(count)
    ]


async def all_right(caller: Calls, wanted: list[Ask]) -> None:
    async with asyncio.TaskGroup() as tasks:
        for ask in wanted:
            tasks.create_task(_right(caller, ask))


async def _right(caller: Calls, ask: Ask) -> None:
    assert_right(ask, await caller.call(ask))


class Watch:
    """Records the largest number of worker units that a function had."""

    def __init__(self, made: Chain, function: str) -> None:
        self.most = 0
        self._made = made
        self._function = function

    async def run(self) -> None:
        while True:
            workers = await asyncio.to_thread(self._made.workers, self._function)
            self.most = max(self.most, len(workers))
            await asyncio.sleep(0.3)


@asynccontextmanager
async def watching(made: Chain, function: str) -> AsyncIterator[Watch]:
    watch = Watch(made, function)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(watch.run())
        yield watch
        task.cancel()


async def test_a_burst_starts_all_allowed_workers_and_idleness_ends_them(
    made: Chain,
) -> None:
    made.declare("burst", maxWorkers=4, idleTimeoutSeconds=IDLE_SECONDS)
    async with calling(made, 1) as (caller, rng), watching(made, "burst") as watch:
        await all_right(caller, asks("burst", 1, rng))
        assert watch.most == 1
        await all_right(caller, asks("burst", 60, rng, seconds=0.5))
        assert watch.most == 4
        await asyncio.to_thread(made.until_none, "burst")
        await all_right(caller, asks("burst", 1, rng))
    assert not made.started_twice()


@pytest.mark.parametrize("first", range(0, SCHEDULES, AT_ONCE))
async def test_calls_that_arrive_while_workers_end_are_answered(made: Chain, first: int) -> None:
    """Several functions run at once, each with its own schedule."""
    async with asyncio.TaskGroup() as tasks:
        for seed in range(first, min(first + AT_ONCE, SCHEDULES)):
            tasks.create_task(schedule(made, seed))
    assert not made.started_twice()


async def schedule(made: Chain, seed: int) -> None:
    """Send calls at about the times when workers drain, are deleted, or have just ended."""
    name = f"schedule-{seed}"
    async with calling(made, seed) as (caller, rng):
        most, concurrency = rng.randint(1, 3), rng.randint(1, 2)
        made.declare(
            name, maxWorkers=most, concurrency=concurrency, idleTimeoutSeconds=IDLE_SECONDS
        )
        async with watching(made, name) as watch:
            for _ in range(ROUNDS):
                seconds = rng.choice([0.0, 0.3, 1.0])
                await all_right(caller, asks(name, rng.randint(1, 6), rng, seconds=seconds))
                await asyncio.sleep(IDLE_SECONDS + rng.uniform(-0.5, 4.0))
            await asyncio.to_thread(made.until_none, name)
        assert 1 <= watch.most <= most, seed


async def test_a_function_whose_workers_never_start_delays_no_other(made: Chain) -> None:
    made.declare("stuck", program="-c", told=FOREVER, maxWorkers=2)
    made.declare("free", maxWorkers=1)
    async with calling(made, 2) as (caller, rng):
        waiting = [
            Ask(function="stuck", name=f"w{number}", payload=None, life_seconds=20)
            for number in range(10)
        ]
        for ask in waiting:
            await caller.accept(ask)
        await all_right(caller, asks("free", 1, rng))
        seconds = []
        for ask in asks("free", 40, rng):
            began_at = time.monotonic()
            assert_right(ask, await caller.call(ask))
            if not ask.payload["failures"] and ask.mode == "sync":
                seconds.append(time.monotonic() - began_at)
        assert median(seconds) < 0.5
        ends = [await caller.ended("stuck", ask.name) for ask in waiting]
    assert {(view["state"], view["failureClass"]) for view in ends} == {("expired", "expired")}
    assert made.caller.delete("/gpu-units/stuck").status == 204


async def test_a_suspended_function_keeps_its_queue_until_it_is_resumed(made: Chain) -> None:
    made.declare("held", maxWorkers=2)
    async with calling(made, 3) as (caller, rng):
        wanted = asks("held", 30, rng, seconds=0.3)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(all_right(caller, wanted))
            await asyncio.to_thread(made.until_ready, "held", 1)
            await change(made, "held", suspended=True)
            await asyncio.to_thread(made.until_none, "held")
            begun = made.started()
            await asyncio.sleep(2)
            assert made.started() == begun
            await change(made, "held", suspended=False)


async def test_workers_are_replaced_one_at_a_time_when_a_template_changes(made: Chain) -> None:
    made.declare("changed", maxWorkers=2, minAvailableCount=2, concurrency=2)
    made.until_ready("changed", 2)
    before = uids(made, "changed")
    async with calling(made, 4) as (caller, rng):
        over = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(keep_calling(caller, "changed", rng, over))
            unit = made.caller.get("/gpu-units/changed").data
            envs = [{"name": "ANOTHER", "value": "version"}]
            await change(made, "changed", template={**unit["template"], "envs": envs})
            await asyncio.to_thread(
                eventually_blocking,
                lambda: uids(made, "changed"),
                lambda now: len(now) == 2 and not now & before,
                within_seconds=90,
            )
            await asyncio.to_thread(made.until_ready, "changed", 2)
            over.set()


async def test_queued_invocations_end_when_no_unit_declares_their_function(
    made: Chain,
) -> None:
    made.declare("gone", maxWorkers=1)
    async with calling(made, 5) as (caller, rng):
        wanted = asks("gone", 30, rng, seconds=0.5)
        for ask in wanted:
            await caller.accept(Ask(function="gone", name=ask.name, payload=ask.payload))
        await caller.ended("gone", wanted[2].name)
        assert (await caller.once("DELETE", "/api/v1/gpu-units/gone")).status == 204
        views = [await caller.ended("gone", ask.name) for ask in wanted]
    ends = {(view["state"], view["failureClass"]) for view in views}
    assert ends == {("succeeded", None), ("failed", "no_worker_template")}
    await asyncio.to_thread(made.until_none, "gone")


async def keep_calling(caller: Calls, function: str, rng: Random, over: asyncio.Event) -> None:
    while not over.is_set():
        await all_right(caller, asks(function, 4, rng, seconds=0.1))


async def change(made: Chain, unit: str, **fields: Any) -> None:
    answer = await asyncio.to_thread(made.caller.put, f"/gpu-units/{unit}", fields)
    assert answer.status == 200, answer.document


def uids(made: Chain, function: str) -> set[str]:
    """Return the operationIDs of the workers; each worker has its own."""
    units = made.caller.get("/gpu-units?limit=200").data
    return {each["operationID"] for each in units if each["name"].startswith(f"{function}-w-")}
