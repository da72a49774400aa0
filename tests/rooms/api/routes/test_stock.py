"""Stock over HTTP: seeding, jobs and pools."""

from collections.abc import AsyncIterator

import pytest

from gpuruntime.models.kinds.pools import STOCK_POOLS
from tests.faults import ANSWER_LOST, DROPPED
from tests.rooms.api.service import JOBS, POOLS, STOCK_UNITS, Service, service
from tests.rooms.operations.cluster import STOCK, Cluster

pytestmark = pytest.mark.looptime

SEED = {
    "operationID": "stock-g1-demo-001",
    "specName": "g1.1",
    "memory": "16Gi",
    "gpu": 1,
    "replicas": 2,
}
POOL = {"operationID": "pool-1", "name": "warm", "specName": "g2", "memory": "8Gi", "replicas": 3}


@pytest.fixture
async def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
async def api(cluster: Cluster) -> AsyncIterator[Service]:
    async with service(cluster) as served:
        yield served


def seed_by_manager(cluster: Cluster, name: str, **status: object) -> None:
    path = STOCK_POOLS.path(namespace=STOCK, name=name, subresource="status")
    cluster.call("PATCH", path, {"status": {"observedGeneration": 1, **status}})


async def test_seeding_is_accepted_once_and_then_replayed(cluster: Cluster, api: Service) -> None:
    first = await api.call("POST", STOCK_UNITS, SEED)
    again = await api.call("POST", STOCK_UNITS, SEED)
    other = await api.call("POST", STOCK_UNITS, {**SEED, "replicas": 3})
    assert (first.status, again.status, other.status) == (202, 200, 409)
    assert again.headers["Idempotent-Replay"] == "true"
    assert other.code == "operation_conflict"
    assert (first.data["type"], first.data["status"]) == ("seed_stock_units", "pending")
    (pool,) = cluster.objects(STOCK_POOLS, STOCK)
    assert (pool["spec"]["refill"], pool["spec"]["replicas"]) == ("Never", 2)


async def test_a_job_shows_the_progress_of_its_pool(cluster: Cluster, api: Service) -> None:
    name = (await api.call("POST", STOCK_UNITS, SEED)).data["objectName"]
    seed_by_manager(cluster, name, seeded=2, available=1, progressing=1)
    # A new process reads the pool as the manager left it.
    async with service(cluster) as other:
        job = (await other.call("GET", f"{JOBS}/stock-g1-demo-001")).data
    assert (job["status"], job["requested"], job["created"], job["ready"]) == (
        "succeeded",
        2,
        2,
        1,
    )


async def test_an_unknown_job_is_404(api: Service) -> None:
    for operation in ("nobody", "a%20b", "x" * 200):
        answer = await api.call("GET", f"{JOBS}/{operation}")
        assert (answer.status, answer.code) == (404, "job_not_found")


async def test_a_seed_whose_answer_was_lost_is_accepted(cluster: Cluster, api: Service) -> None:
    api.replica.transport.on("POST", "stockpools", ANSWER_LOST)
    answer = await api.call("POST", STOCK_UNITS, SEED)
    assert answer.status == 202
    assert len(cluster.objects(STOCK_POOLS, STOCK)) == 1


async def test_a_seed_with_an_uncertain_outcome_is_504_and_repeatable(
    cluster: Cluster, api: Service
) -> None:
    api.replica.transport.on("POST", "stockpools", DROPPED)
    unknown = await api.call("POST", STOCK_UNITS, SEED)
    assert (unknown.status, unknown.code) == (504, "timeout")
    assert (await api.call("POST", STOCK_UNITS, SEED)).status == 202
    assert len(cluster.objects(STOCK_POOLS, STOCK)) == 1


async def test_a_pool_is_created_read_changed_and_deleted(api: Service) -> None:
    created = await api.call("POST", POOLS, POOL)
    assert (created.status, created.data["refill"]) == (202, "Always")
    assert (await api.call("POST", POOLS, POOL)).status == 200
    changed = await api.call(
        "PUT", f"{POOLS}/warm", {"replicas": 5, "image": "python:3.12", "refill": "Never"}
    )
    assert changed.status == 200
    read = await api.call("GET", f"{POOLS}/warm")
    assert (read.data["replicas"], read.data["image"]) == (5, "python:3.12")
    assert (read.data["refill"], read.data["generation"]) == ("Never", 2)
    assert (await api.call("DELETE", f"{POOLS}/warm")).status == 204
    assert (await api.call("GET", f"{POOLS}/warm")).code == "stockpool_not_found"
    assert (await api.call("POST", POOLS, POOL)).code == "operation_finished"


async def test_a_pools_envelope_cannot_change(api: Service) -> None:
    await api.call("POST", POOLS, POOL)
    answer = await api.call("PUT", f"{POOLS}/warm", {"memory": "1Gi", "replicas": -1})
    assert (answer.status, sorted(answer.fields)) == (400, ["memory", "replicas"])


async def test_a_change_of_a_pool_needs_the_version_in_if_match(
    api: Service,
) -> None:
    made = await api.call("POST", POOLS, POOL)
    again = await api.call("POST", POOLS, POOL)
    path = f"{POOLS}/warm"
    stale = {"If-Match": made.headers["ETag"]}
    assert again.headers["ETag"] == (await api.call("GET", path)).headers["ETag"]
    assert again.headers["ETag"] == made.headers["ETag"]
    changed = await api.call("PUT", path, {"replicas": 5}, headers=stale)
    assert changed.status == 200
    refused = await api.call("PUT", path, {"replicas": 6}, headers=stale)
    assert (refused.status, refused.code) == (412, "precondition_failed")
    read = await api.call("GET", path)
    assert (read.data["replicas"], read.headers["ETag"]) == (5, changed.headers["ETag"])


async def test_a_deletion_of_a_pool_needs_the_version_in_if_match(
    cluster: Cluster, api: Service
) -> None:
    etag = (await api.call("POST", POOLS, POOL)).headers["ETag"]
    written = api.replica.transport.written()
    refused = await api.call("DELETE", f"{POOLS}/warm", headers={"If-Match": '"nope"'})
    assert (refused.status, refused.code) == (412, "precondition_failed")
    assert api.replica.transport.written() == written
    assert (await api.call("DELETE", f"{POOLS}/warm", headers={"If-Match": etag})).status == 204
    assert cluster.objects(STOCK_POOLS, STOCK) == []


async def test_a_missing_pool_is_404(api: Service) -> None:
    for method, body in (("GET", None), ("PUT", {"replicas": 1}), ("DELETE", None)):
        answer = await api.call(method, f"{POOLS}/nobody", body)
        assert (answer.status, answer.code) == (404, "stockpool_not_found")


async def test_a_spec_name_has_one_envelope_at_a_time(api: Service) -> None:
    await api.call("POST", POOLS, POOL)
    other = {**POOL, "operationID": "pool-2", "name": "cold", "memory": "9Gi"}
    answer = await api.call("POST", POOLS, other)
    assert (answer.status, answer.code) == (409, "spec_conflict")
