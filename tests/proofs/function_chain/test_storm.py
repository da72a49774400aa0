"""The whole chain while everything in it is killed, paused or lost; nothing is lost or doubled.

GPURUNTIME_CHAIN_INVOCATIONS is the number of invocations; the nox session uses 10,000.
"""

import asyncio
import os
from random import Random
from typing import Any

import pytest

from tests.eventually import equals, eventually
from tests.proofs.function_chain.bus import Onlooker, onlooker
from tests.proofs.function_chain.calls import Ask, Calls, assert_right, calls, payload
from tests.proofs.function_chain.chain import Chain, chain
from tests.proofs.function_chain.storm import Storm
from tests.rooms.serverless.results.database import asking

pytestmark = pytest.mark.serverless

INVOCATIONS = int(os.environ.get("GPURUNTIME_CHAIN_INVOCATIONS", "3000"))
ACCEPTED_PER_SECOND = 50
WORKERS = 8
FUNCTION = "counted"
ROLES = ("api-1", "api-2", "manager-1", "activator-1", "activator-2", "results-1")


async def test_every_invocation_ends_once_and_correctly_and_no_attempt_runs_twice() -> None:
    rng = Random(11)
    with chain(*ROLES, with_database=True) as made:
        made.declare(
            FUNCTION,
            minAvailableCount=WORKERS,
            maxWorkers=WORKERS,
            concurrency=4,
            maxAttempts=100,
            timeoutSeconds=30,
        )
        made.until_ready(FUNCTION, WORKERS)
        asks = list(wanted(rng))
        async with (
            calls(lambda: made.addresses, rng) as caller,
            onlooker(made.broker.url) as seen_by,
        ):
            storm = Storm(made, seen_by, FUNCTION, rng)
            views = await through(storm, caller, asks, rng)
            for ask in asks:
                assert_right(ask, views[ask.name])
            await seen_by.until_empty()
            await assert_replays_change_nothing(made, caller, seen_by, asks[::30], views)
            twice = made.started_twice()
            assert not twice, (twice, [seen_by.course_of(line[0]) for line in twice])
            assert all(len(tokens) == 1 for tokens in seen_by.ends().values())
            assert {name for name, _ in made.started()} == views.keys()
            await assert_kept(made, seen_by, views)
    assert len(storm.seen) == 9, storm.seen


def wanted(rng: Random) -> Any:
    for number in range(INVOCATIONS):
        yield Ask(
            function=FUNCTION,
            name=f"i{number}",
            payload=payload(number, rng, seconds=rng.choice([0.0, 0.0, 0.01, 0.05, 0.3])),
            mode="sync" if number % 4 == 0 else "async",
        )


async def through(storm: Storm, caller: Calls, asks: list[Ask], rng: Random) -> dict[str, Any]:
    """Return each end as its caller received it; some callers send everything twice."""
    over = asyncio.Event()
    accepted: list[asyncio.Task[Any]] = []
    views: dict[str, Any] = {}
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(storm.run(over))
        for ask in asks:
            accepted.append(tasks.create_task(caller.accept(ask)))
            if rng.random() < 0.3:
                tasks.create_task(say_again(caller, ask, rng))
            await asyncio.sleep(1 / ACCEPTED_PER_SECOND)
        for ask, task in zip(asks, accepted, strict=True):
            told = await task
            views[ask.name] = await caller.ended(ask.function, ask.name, within_seconds=240)
            if "state" in told and told["state"] == "succeeded":
                assert told == views[ask.name]
        over.set()
    return views


async def say_again(caller: Calls, ask: Ask, rng: Random) -> None:
    """Repeat an invocation while it is new, runs, waits for a retry, or has just ended."""
    await asyncio.sleep(rng.choice([0, rng.uniform(0, 2)]))
    await caller.accept(ask)


async def assert_replays_change_nothing(
    made: Chain, caller: Calls, seen_by: Onlooker, asks: list[Ask], views: dict[str, Any]
) -> None:
    """Repeat all requests, and messages under new ids, and check that nothing changes."""
    before = made.started()
    for ask in asks:
        await caller.accept(ask)
    for message in seen_by.sent[::10]:
        await seen_by.send_again(message)
    await seen_by.until_empty()
    assert made.started() == before
    for ask in asks:
        assert await caller.read(ask.function, ask.name) == views[ask.name]


async def assert_kept(made: Chain, seen_by: Onlooker, views: dict[str, Any]) -> None:
    """Check that the database holds exactly what the stream does."""
    assert await seen_by.messages_in(seen_by.names.states) == len(views)
    stream = {}
    for name in views:
        stored = await seen_by.read(FUNCTION, name)
        stream[name] = (stored.revision, stored.record.state.value)
    assert made.database
    async with asking(made.database.url, "gpuruntime") as database:
        await eventually(
            lambda: kept(database), equals(stream), within_seconds=90, poll_seconds=0.5
        )


async def kept(database: Any) -> dict[str, tuple[int, str]]:
    rows = await database.fetch("SELECT invocation, revision, state FROM results")
    return {row["invocation"]: (row["revision"], row["state"]) for row in rows}
