"""Jobs while a manager creates their stock: what they count, and which refusals they report."""

import asyncio

import pytest

from gpuruntime.models.kinds.pools import Refill
from gpuruntime.models.requests.pools import UpdatePool
from gpuruntime.models.views.operators import Job, JobStatus
from tests.eventually import equals
from tests.faults import FaultyTransport, refused, slow
from tests.rooms.operations.cluster import Replica, replica
from tests.rooms.operations.test_pools import pool, seed
from tests.rooms.reconcilers.world import World, living, managing, until

pytestmark = pytest.mark.looptime

FORBIDDEN = refused(403, "Forbidden")


async def job_of(api: Replica) -> Job:
    return await api.inventory.jobs.get("one")


async def seeds(api: Replica, replicas: int) -> None:
    await api.inventory.pools.create(seed(replicas=replicas))


async def test_a_job_counts_no_unit_before_it_exists() -> None:
    world = World()

    def first_ones_last(transport: FaultyTransport) -> None:
        transport.on("POST", "gpuunits", slow(before=2.0), times=32)

    async with living(world), managing(world, prepare=first_ones_last), replica(world) as api:
        await seeds(api, 64)
        job = await job_of(api)
        while job.status != JobStatus.SUCCEEDED:
            assert job.created <= len(world.stock_names)
            await asyncio.sleep(0.1)
            job = await job_of(api)
        assert (job.created, len(world.stock_names)) == (64, 64)


async def test_units_that_a_quota_refuses_are_not_created_and_are_the_error_of_the_job() -> None:
    world = World()

    def second_and_third_and_all_retries(transport: FaultyTransport) -> None:
        transport.on("POST", "gpuunits", FORBIDDEN, skip=1, times=2)
        transport.on("POST", "gpuunits", FORBIDDEN, skip=2, times=1_000)

    async with (
        living(world),
        managing(world, prepare=second_and_third_and_all_retries) as manager,
        replica(world) as api,
    ):
        await seeds(api, 4)
        await until(lambda: len(world.stock_names), equals(2))
        await asyncio.sleep(120)
        job = await job_of(api)
        assert (job.status, job.created, job.ready) == (JobStatus.RUNNING, 2, 2)
        assert "Forbidden" in job.error
        manager.transport.clear()
        await until(lambda: len(world.stock_names), equals(4), seconds=30)
        await asyncio.sleep(5)
        job = await job_of(api)
        assert (job.status, job.created, job.error) == (JobStatus.SUCCEEDED, 4, "")


@pytest.mark.parametrize(
    ("refill", "left", "consumed"),
    [(Refill.NEVER, 2, 0), (Refill.ALWAYS, 1, 1)],
    ids=["made once: both stay", "kept up: the surplus goes"],
)
async def test_lowered_replicas_count_no_unit_that_was_refused(
    refill: Refill, left: int, consumed: int
) -> None:
    """Two of four ordinals are refused, and then two units fewer are wanted."""
    world = World()

    def second_and_third_and_all_retries(transport: FaultyTransport) -> None:
        transport.on("POST", "gpuunits", FORBIDDEN, skip=1, times=2)
        transport.on("POST", "gpuunits", FORBIDDEN, skip=2, times=1_000)

    async with (
        living(world),
        managing(world, prepare=second_and_third_and_all_retries) as manager,
        replica(world) as api,
    ):
        await api.inventory.pools.create(pool(replicas=4, refill=refill.value, name="p"))
        await until(lambda: len(world.stock_names), equals(2))
        await asyncio.sleep(120)
        await api.inventory.pools.update("p", UpdatePool(replicas=left))
        manager.transport.clear()
        await asyncio.sleep(60)
        status = world.pool()["status"]
        assert (len(world.stock_names), status["seeded"]) == (left, 4)
        assert (status["consumed"], status["skipped"]) == (consumed, 2)
        job = await job_of(api)
        assert (job.status, job.created, job.error) == (JobStatus.SUCCEEDED, 2, "")
        await api.inventory.pools.update("p", UpdatePool(replicas=4))
        await until(lambda: len(world.stock_names), equals(4), seconds=60)
        await asyncio.sleep(10)
        job = await job_of(api)
        assert (job.status, job.created, job.ready) == (JobStatus.SUCCEEDED, 4 + consumed, 4)
        assert {"p-2", "p-3"}.isdisjoint(world.stock_names)
