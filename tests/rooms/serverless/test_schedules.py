"""Calls around the moments of scaling, one schedule at a time.

The seed determines the whole schedule and is its id: `-k "bounds[37]"` runs that one.
GPURUNTIME_SCALING_SEEDS is the number of seeds; the nox session `simulate` tries 500.
"""

import asyncio
import math
import os
from random import Random

import pytest

from tests.faults import around
from tests.rooms.operations.cluster import Cluster
from tests.rooms.serverless.scaling.scaled import Wire, scaled
from tests.rooms.serverless.schedules import World, schedule_of

# There is no external input, so virtual time need not wait for any.
pytestmark = pytest.mark.looptime(noop_cycles=0)

SEEDS = range(int(os.environ.get("GPURUNTIME_SCALING_SEEDS", "100")))
STOCK = 6
# The last drain and deletion, including lost heartbeats and orders.
SETTLED_SECONDS = 60
# A withdrawn worker is replaced after two minutes.
REPLACED_SECONDS = 200
# How far readings, heartbeats and their effects may lag when some are lost.
LAG_SECONDS = 45
REST_SECONDS = 30


async def settled(world: World, seconds: float) -> bool:
    for _ in range(math.ceil(seconds)):
        if world.is_settled:
            break
        await asyncio.sleep(1)
    return world.is_settled


@pytest.mark.parametrize("seed", SEEDS)
async def test_calls_around_scaling_all_end_and_workers_stay_within_their_bounds(
    seed: int,
) -> None:
    rng = Random(seed)
    schedule, cluster = schedule_of(rng), Cluster()
    cluster.add_stock(STOCK)
    wire = Wire(latency=around(rng, 0.02), watch_lag=around(rng, 0.05))
    async with scaled(cluster, seed=seed, wire=wire) as made, asyncio.TaskGroup() as tasks:
        world = World(made, schedule, rng)
        reading = tasks.create_task(made.activator.depth_poller.run())
        world.begin()
        patience = SETTLED_SECONDS + (REPLACED_SECONDS if schedule.withdrawn else 0)
        assert await settled(world, schedule.ends_at + patience), (seed, world.depth, made.workers)
        await asyncio.sleep(LAG_SECONDS)
        assert world.is_settled, (seed, "it did not stay so")
        made.transport.sent.clear()
        await asyncio.sleep(REST_SECONDS)
        assert (made.transport.written(), world.faults) == ([], []), seed
        assert made.status() == {
            "desiredWorkers": schedule.least,
            "readyWorkers": schedule.least,
            "busyWorkers": 0,
            "drainingWorkers": 0,
            "outdatedWorkers": 0,
            "depth": 0,
            "oldestWaitSeconds": 0,
            "reason": "",
            "message": "",
        }, seed
        reading.cancel()
