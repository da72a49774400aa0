"""Jobs as derived from the pools that operations created."""

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
from gpuruntime.operations.jobs import job_of
from gpuruntime.operations.objects import OPERATION_TYPE, SEED_STOCK_UNITS
from tests.rooms.operations.cluster import STOCK, Cluster, replica
from tests.rooms.operations.test_pools import pool as pool_request
from tests.rooms.operations.test_pools import seed
from tests.rooms.operations.units import MOMENT


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


def reported(reason: str = PoolReason.STOCK_PROGRESSING, **status: Any) -> StockPool:
    return pool(reason, "words", observedGeneration=1, **status)


@pytest.mark.parametrize(
    ("made", "status", "created"),
    [
        (pool(), JobStatus.PENDING, 0),
        (reported(), JobStatus.RUNNING, 0),
        (reported(progressing=1), JobStatus.RUNNING, 1),
        (reported(available=1, progressing=1, seeded=3, consumed=0), JobStatus.RUNNING, 2),
        (reported(progressing=3), JobStatus.SUCCEEDED, 3),
        (reported(available=1, claimed=1, consumed=1, seeded=2), JobStatus.SUCCEEDED, 3),
        (reported(PoolReason.STOCK_FAILED, failed=3, seeded=3), JobStatus.SUCCEEDED, 3),
        (reported(PoolReason.STOCK_FAILED, failed=1, seeded=1), JobStatus.RUNNING, 1),
        (reported(PoolReason.STOCK_SYNC_FAILED, available=2, seeded=1), JobStatus.RUNNING, 2),
        (reported(PoolReason.INVALID_SPEC), JobStatus.FAILED, 0),
        (reported(PoolReason.SPEC_CONFLICT), JobStatus.FAILED, 0),
    ],
    ids=[
        "new",
        "observed",
        "first unit",
        "highest ordinal recorded, one unit missing",
        "all units, none recorded",
        "all units, some claimed and consumed",
        "all failed",
        "some failed",
        "some refused",
        "invalid spec",
        "spec conflict",
    ],
)
def test_status_and_created_follow_from_the_units_that_the_pool_reports(
    made: StockPool, status: JobStatus, created: int
) -> None:
    job = job_of(made)
    assert (job.status, job.created) == (status, created)


def test_counts_names_and_times_are_those_of_the_pool() -> None:
    made = pool(PoolReason.STOCK_PROGRESSING, "on their way", seeded=2, available=1, consumed=1)
    job = job_of(made)
    assert (job.requested, job.created, job.ready, job.consumed) == (3, 2, 1, 1)
    assert (job.operationID, job.type, job.objectName) == ("one", SEED_STOCK_UNITS, "p")
    assert (job.createdAt, job.updatedAt) == (MOMENT, MOMENT + timedelta(seconds=5))
    assert job.error == ""
    assert job_of(attrs.evolve(made, metadata=ObjectMeta())).updatedAt is not None


@pytest.mark.parametrize(
    ("reason", "error"),
    [
        (PoolReason.INVALID_SPEC, "words"),
        (PoolReason.SPEC_CONFLICT, "words"),
        (PoolReason.STOCK_FAILED, "words"),
        (PoolReason.STOCK_SYNC_FAILED, "words"),
        (PoolReason.STOCK_PROGRESSING, ""),
        (PoolReason.STOCK_READY, ""),
        (PoolReason.STOCK_CONSUMED, ""),
    ],
)
def test_the_error_is_the_message_of_a_failure_or_refusal(reason: str, error: str) -> None:
    assert job_of(pool(reason, "words")).error == error


@pytest.mark.parametrize("reason", [PoolReason.STOCK_UNSCHEDULABLE, PoolReason.STOCK_PROGRESSING])
def test_the_message_says_why_not_all_units_are_ready(reason: str) -> None:
    job = job_of(pool(reason, "no node", progressing=3))
    assert (job.status, job.error, job.message) == (JobStatus.SUCCEEDED, "", "no node")


def test_a_job_whose_pool_is_ready_has_no_message() -> None:
    made = pool(PoolReason.STOCK_READY, "3 units are ready", available=3)
    (condition,) = made.status.conditions
    status = attrs.evolve(made.status, conditions=(attrs.evolve(condition, status="True"),))
    assert job_of(attrs.evolve(made, status=status)).message == ""


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
