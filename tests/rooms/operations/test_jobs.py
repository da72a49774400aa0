"""Jobs as derived from the pools that operations created."""

import asyncio
from datetime import timedelta
from typing import Any

import attrs
import pytest

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.pools import STOCK_POOLS, StockPool, StockPoolSpec, StockPoolStatus
from gpuruntime.models.kinds.reasons import PoolReason
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.views.operators import JobStatus
from gpuruntime.operations.errors import JobNotFoundError
from gpuruntime.operations.jobs import highest_ordinal, job_of
from gpuruntime.operations.objects import OPERATION_TYPE, SEED_STOCK_UNITS
from tests.rooms.operations.cluster import STOCK, Cluster, replica
from tests.rooms.operations.test_pools import pool as pool_request
from tests.rooms.operations.test_pools import seed
from tests.rooms.operations.units import MOMENT, stock


def pool(reason: str = "", message: str = "", **status: Any) -> StockPool:
    later = MOMENT + timedelta(seconds=5)
    condition = Condition(type="Ready", reason=reason, message=message, lastTransitionTime=later)
    return StockPool(
        metadata=ObjectMeta(
            name="p",
            namespace="runtime-stock",
            creationTimestamp=MOMENT,
            annotations={labels.OPERATION_ID: "one", OPERATION_TYPE: SEED_STOCK_UNITS},
        ),
        spec=StockPoolSpec(specName="g1.1", replicas=3),
        status=StockPoolStatus(conditions=(condition,) if reason else (), **status),
    )


@pytest.mark.parametrize(
    ("made", "living", "status"),
    [
        (pool(), 0, JobStatus.PENDING),
        (pool(observedGeneration=1), 0, JobStatus.RUNNING),
        (pool(), 1, JobStatus.RUNNING),
        (pool(seeded=2, observedGeneration=1), 1, JobStatus.RUNNING),
        (pool(observedGeneration=1), 3, JobStatus.SUCCEEDED),
        (pool(seeded=3, observedGeneration=1), 0, JobStatus.SUCCEEDED),
        (pool(PoolReason.STOCK_FAILED, "image", seeded=3), 0, JobStatus.SUCCEEDED),
        (pool(PoolReason.STOCK_FAILED, "image", seeded=1), 0, JobStatus.RUNNING),
        (pool(PoolReason.INVALID_SPEC, "memory", observedGeneration=1), 0, JobStatus.FAILED),
        (pool(PoolReason.SPEC_CONFLICT, "other", observedGeneration=1), 0, JobStatus.FAILED),
    ],
    ids=[
        "new",
        "observed",
        "first unit",
        "some seeded",
        "all units",
        "all seeded",
        "all seeded but failed",
        "some failed",
        "invalid spec",
        "spec conflict",
    ],
)
def test_the_status_follows_from_the_pool(made: StockPool, living: int, status: JobStatus) -> None:
    assert job_of(made, living).status is status


def test_counts_names_and_times_are_those_of_the_pool() -> None:
    made = pool(PoolReason.STOCK_PROGRESSING, "on their way", seeded=2, available=1, consumed=1)
    job = job_of(made, 3)
    assert (job.requested, job.created, job.ready, job.consumed) == (3, 3, 1, 1)
    assert (job.operationID, job.type, job.objectName) == ("one", SEED_STOCK_UNITS, "p")
    assert (job.createdAt, job.updatedAt) == (MOMENT, MOMENT + timedelta(seconds=5))
    assert job.error == ""
    assert job_of(attrs.evolve(made, metadata=ObjectMeta()), 0).updatedAt is not None


def test_the_error_is_the_message_of_the_pools_failure() -> None:
    assert job_of(pool(PoolReason.SPEC_CONFLICT, "another envelope"), 0).error
    assert job_of(pool(PoolReason.STOCK_FAILED, "ImagePullBackOff"), 0).error == "ImagePullBackOff"


def test_the_highest_ordinal_is_read_from_the_names() -> None:
    assert highest_ordinal([stock("p-2"), stock("p-10"), stock("odd"), stock("p-9")]) == 10
    assert highest_ordinal([]) == 0


@pytest.mark.looptime
@pytest.mark.parametrize("request_", [seed(), pool_request(name="mine")])
async def test_any_replica_answers_for_a_job_even_if_its_cache_lags(
    cluster: Cluster, request_: Any
) -> None:
    async with replica(cluster) as api, replica(cluster, seed=2) as lagging:
        lagging.transport.hold_watches()
        await api.inventory.pools.create(request_)
        first = await api.inventory.jobs.get("one")
        assert first.status is JobStatus.PENDING
        assert await lagging.inventory.jobs.get("one") == first


@pytest.mark.looptime
async def test_a_job_succeeds_with_its_units_before_the_status_is_written(
    cluster: Cluster,
) -> None:
    async with replica(cluster) as api:
        await api.inventory.pools.create(pool_request(name="mine"))
        cluster.add_stock(2, pool="mine", memory="")
        await asyncio.sleep(1)
        job = await api.inventory.jobs.get("one")
        assert (job.status, job.created) == (JobStatus.SUCCEEDED, 2)


@pytest.mark.looptime
async def test_an_unknown_or_deleted_job_is_not_found(cluster: Cluster) -> None:
    async with replica(cluster) as api:
        await api.inventory.pools.create(pool_request(name="mine"))
        await api.inventory.pools.delete("mine")
        for operation in ("one", "never"):
            with pytest.raises(JobNotFoundError):
                await api.inventory.jobs.get(operation)


@pytest.mark.looptime
async def test_pages_of_jobs_are_sorted_by_operation_and_leave_out_other_pools(
    cluster: Cluster,
) -> None:
    body = {
        "apiVersion": STOCK_POOLS.api_version,
        "kind": "StockPool",
        "metadata": {"name": "by-hand"},
        "spec": {"specName": "g1.1", "gpu": 1, "replicas": 1},
    }
    cluster.call("POST", STOCK_POOLS.path(namespace=STOCK), body)
    async with replica(cluster) as api:
        for operation in ("c", "a", "b"):
            await api.inventory.pools.create(seed(operation))
        first = api.inventory.jobs.page(limit=2)
        assert [job.operationID for job in first.jobs] == ["a", "b"]
        second = api.inventory.jobs.page(limit=2, after=first.next)
        assert [job.operationID for job in second.jobs] == ["c"]
        assert second.next == ""
