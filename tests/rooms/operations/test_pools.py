"""Pools are created once, updated and deleted, and share their operationIDs with units."""

import asyncio
from typing import Any

import pytest

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.pools import STOCK_POOLS
from gpuruntime.models.requests.pools import CreatePool, SeedStock
from gpuruntime.operations.errors import (
    NameTakenError,
    OperationConflictError,
    OperationFinishedError,
    OperationsError,
    PoolNotFoundError,
    SpecConflictError,
)
from gpuruntime.operations.requests import parse_create_pool, parse_seed_stock, parse_update_pool
from tests.faults import ANSWER_LOST, DROPPED, UNREACHABLE, Fault, landing_late, refused
from tests.rooms.operations.cluster import (
    NAMESPACES,
    STOCK,
    Cluster,
    Document,
    Replica,
    notes,
    replica,
)

pytestmark = pytest.mark.looptime

POOLS = STOCK_POOLS.path(namespace=STOCK)


def seed(operation: str = "one", **members: Any) -> SeedStock:
    body = {"operationID": operation, "specName": "g1.1", "gpu": 1, "replicas": 2, **members}
    return parse_seed_stock(body)


def pool(operation: str = "one", **members: Any) -> CreatePool:
    body = {"operationID": operation, "specName": "g1.1", "gpu": 1, "replicas": 2, **members}
    return parse_create_pool(body, NAMESPACES)


async def told(api: Replica, request: SeedStock | CreatePool) -> str:
    try:
        creation = await api.inventory.pools.create(request)
    except OperationsError as error:
        return error.code
    return "200" if creation.is_replay else "202"


def add_pool(cluster: Cluster, name: str, **members: object) -> None:
    """Create a pool without the API, as kubectl does."""
    body = {
        "apiVersion": STOCK_POOLS.api_version,
        "kind": STOCK_POOLS.kind,
        "metadata": {"name": name},
        "spec": {"specName": "g1.1", "memory": "16Gi", "gpu": 1, "replicas": 1, **members},
    }
    cluster.call("POST", POOLS, body)


def pools_of(cluster: Cluster) -> list[Document]:
    return cluster.objects(STOCK_POOLS, STOCK)


async def test_a_pool_restored_by_a_late_create_is_not_the_answer(
    cluster: Cluster,
) -> None:
    """A late create brings the pool back until the manager removes it again."""
    async with replica(cluster) as api:
        assert await told(api, pool(name="warm")) == "202"
        [made] = pools_of(cluster)
        await api.inventory.pools.delete("warm")
        kept = ("name", "namespace", "labels", "annotations")
        metadata = {name: made["metadata"][name] for name in kept}
        cluster.call("POST", POOLS, {**made, "metadata": metadata, "status": {}})
        await asyncio.sleep(1)
        assert await told(api, pool(name="warm")) == "operation_finished"


async def test_a_seeding_may_name_its_pool_and_its_job_is_found(cluster: Cluster) -> None:
    async with replica(cluster) as api, replica(cluster) as other:
        assert [await told(each, seed(name="warm")) for each in (api, other)] == ["202", "200"]
        assert await told(other, seed(name="cold")) == "operation_conflict"
        assert await told(other, seed("two", name="warm")) == "name_taken"
        job = await other.inventory.jobs.get("one")
    assert (job.objectName, job.type) == ("warm", "seed_stock_units")
    assert [each["metadata"]["name"] for each in pools_of(cluster)] == ["warm"]


async def test_seeding_creates_a_pool_that_never_refills(cluster: Cluster) -> None:
    async with replica(cluster) as api:
        assert await told(api, seed(memory="16Gi", cpu="4", gpuProduct="A100")) == "202"
        assert [each.split()[0] for each in api.transport.written()] == ["POST"]
    [made] = pools_of(cluster)
    assert made["metadata"]["name"].startswith("op-")
    assert made["spec"] == {
        "specName": "g1.1",
        "memory": "16Gi",
        "cpu": "4",
        "gpu": 1,
        "gpuProduct": "A100",
        "replicas": 2,
        "refill": "Never",
    }
    assert notes(made)[labels.OPERATION_ID] == "one"


async def test_a_pool_has_the_name_and_the_spec_that_its_caller_gave(cluster: Cluster) -> None:
    async with replica(cluster) as api:
        template = {"args": ["warm"]}
        await told(api, pool(name="mine", image="x", template=template, refill="Never"))
    [made] = pools_of(cluster)
    assert made["metadata"]["name"] == "mine"
    assert made["metadata"]["labels"][labels.SPEC] == "g1.1"
    assert made["spec"]["image"] == "x"
    assert made["spec"]["template"] == template
    assert made["spec"]["refill"] == "Never"


@pytest.mark.parametrize("request_", [seed(), pool(), pool(name="mine")])
async def test_the_same_request_is_a_replay_even_at_a_replica_that_lags(
    cluster: Cluster, request_: SeedStock | CreatePool
) -> None:
    async with replica(cluster) as api, replica(cluster, seed=2) as lagging:
        lagging.transport.hold_watches()
        assert await told(api, request_) == "202"
        assert await told(api, request_) == "200"
        assert await told(lagging, request_) == "200"
    assert len(pools_of(cluster)) == 1


@pytest.mark.parametrize(
    "other",
    [seed(replicas=3), seed(gpu=2), pool(), pool(refill="Never"), pool(name="mine")],
    ids=["replicas", "gpu", "pool", "pool that never refills", "named pool"],
)
async def test_another_body_is_a_conflict(cluster: Cluster, other: SeedStock | CreatePool) -> None:
    async with replica(cluster) as api:
        await told(api, seed())
        assert await told(api, other) == OperationConflictError.code
        await asyncio.sleep(1)
        assert await told(api, other) == OperationConflictError.code
    assert len(pools_of(cluster)) == 1


async def test_another_body_is_a_conflict_at_a_replica_that_lags(cluster: Cluster) -> None:
    async with replica(cluster) as api, replica(cluster, seed=2) as lagging:
        lagging.transport.hold_watches()
        await told(api, seed())
        assert await told(lagging, seed(replicas=3)) == OperationConflictError.code


async def test_a_name_of_another_operation_is_taken(cluster: Cluster) -> None:
    async with replica(cluster) as api:
        await told(api, pool("one", name="mine"))
        assert await told(api, pool("two", name="mine")) == NameTakenError.code


async def test_an_operation_of_a_unit_is_a_conflict_for_a_pool(cluster: Cluster) -> None:
    cluster.add_stock(1)
    async with replica(cluster) as api:
        await api.create("one")
        assert await told(api, seed("one")) == OperationConflictError.code
    assert pools_of(cluster) == []


async def test_an_operation_that_claimed_stock_is_a_conflict_for_a_pool(cluster: Cluster) -> None:
    cluster.add_stock(1)
    async with replica(cluster) as crashed, replica(cluster, seed=2) as api:
        crashed.transport.on("PATCH", "", Fault(then=crashed.transport.cut))
        await crashed.create("one")
        await asyncio.sleep(1)
        assert await told(api, seed("one")) == OperationConflictError.code


@pytest.mark.parametrize(
    "fault", [ANSWER_LOST, refused(409, "AlreadyExists")], ids=["answer lost", "already exists"]
)
async def test_a_pool_whose_create_lost_its_answer_is_found(
    cluster: Cluster, fault: Fault
) -> None:
    async with replica(cluster) as api:
        api.transport.on("POST", "stockpools", fault)
        assert await told(api, seed()) == "202"
    assert len(pools_of(cluster)) == 1


@pytest.mark.parametrize("fault", [DROPPED, landing_late(1)], ids=["dropped", "late"])
async def test_a_pool_that_may_still_be_created_has_an_unknown_outcome_and_can_be_retried(
    cluster: Cluster, fault: Fault
) -> None:
    async with replica(cluster) as api:
        api.transport.on("POST", "stockpools", fault)
        assert await told(api, seed()) == "timeout"
        await asyncio.sleep(2)
        assert await told(api, seed()) in {"200", "202"}
    assert len(pools_of(cluster)) == 1


async def test_an_unreachable_cluster_is_reported_as_unavailable(cluster: Cluster) -> None:
    async with replica(cluster) as api:
        api.transport.on("POST", "stockpools", UNREACHABLE)
        assert await told(api, seed()) == "service_unavailable"


@pytest.mark.parametrize(
    "members",
    [{"gpu": 2}, {"memory": "1Gi"}, {"gpuProduct": "A100", "memory": ""}],
    ids=["gpu", "memory", "product"],
)
async def test_a_spec_name_has_one_envelope_at_a_time(
    cluster: Cluster, members: dict[str, Any]
) -> None:
    envelope = {"memory": "2Gi", "gpuProduct": "H100"}
    other = {name: value for name, value in {**envelope, **members}.items() if value}
    async with replica(cluster) as api:
        await told(api, seed("one", **envelope))
        assert await told(api, seed("two", **other)) == SpecConflictError.code
        assert await told(api, seed("two", specName="g2", **other)) == "202"
        assert await told(api, seed("three", **envelope)) == "202"


@pytest.mark.parametrize(
    ("first", "second"),
    [({}, {"gpuProduct": "H100"}), ({"gpuProduct": "H100"}, {})],
    ids=["any product first", "one product first"],
)
async def test_any_product_and_one_product_are_two_envelopes(
    cluster: Cluster, first: dict[str, Any], second: dict[str, Any]
) -> None:
    async with replica(cluster) as api:
        assert await told(api, seed("one", **first)) == "202"
        assert await told(api, seed("two", **second)) == SpecConflictError.code


async def test_one_of_several_simultaneous_envelopes_wins_and_the_others_conflict(
    cluster: Cluster,
) -> None:
    async with replica(cluster) as api, asyncio.TaskGroup() as tasks:
        calls = [
            tasks.create_task(told(api, seed(f"s.{number}", gpu=number))) for number in range(1, 9)
        ]
    assert sorted(call.result() for call in calls) == ["202"] + 7 * [SpecConflictError.code]
    assert len(pools_of(cluster)) == 1


async def test_simultaneous_pools_of_one_envelope_are_all_created(cluster: Cluster) -> None:
    async with replica(cluster) as api, asyncio.TaskGroup() as tasks:
        calls = [tasks.create_task(told(api, seed(f"s.{number}"))) for number in range(8)]
    assert [call.result() for call in calls] == 8 * ["202"]


async def test_a_pool_may_give_members_that_another_pool_left_out(cluster: Cluster) -> None:
    async with replica(cluster) as api:
        assert await told(api, seed("one", cpu="1")) == "202"
        assert await told(api, seed("two", memory="1Gi")) == "202"
        assert await told(api, seed("three", cpu="2")) == SpecConflictError.code


@pytest.mark.parametrize(
    "written",
    [{"invalid": {"memory": "not-a-quantity"}, "first": {}}, {"first": {}, "second": {"gpu": 2}}],
    ids=["invalid", "another envelope"],
)
async def test_a_pool_that_seeds_nothing_does_not_hold_its_spec_name(
    cluster: Cluster, written: dict[str, Any]
) -> None:
    """kubectl may write an invalid pool, or one with another envelope than the first."""
    for name, members in written.items():
        add_pool(cluster, name, **members)
        await asyncio.sleep(1)
    async with replica(cluster) as api:
        assert await told(api, seed("one", memory="16Gi")) == "202"
        assert await told(api, seed("two", gpu=2)) == SpecConflictError.code


async def test_stock_without_a_pool_holds_its_spec_name_too(cluster: Cluster) -> None:
    cluster.add_stock(1, memory="16Gi", cpu="2")
    async with replica(cluster) as api:
        assert await told(api, seed(memory="8Gi")) == SpecConflictError.code
        assert await told(api, seed(memory="16384Mi")) == "202"


async def test_a_deleted_pool_finishes_its_operation(cluster: Cluster) -> None:
    async with replica(cluster) as api, replica(cluster, seed=2) as other:
        await told(api, pool(name="mine"))
        await api.inventory.pools.delete("mine")
        assert await told(api, pool(name="mine")) == OperationFinishedError.code
        assert await told(other, seed()) == OperationFinishedError.code
        cluster.add_stock(1)
        assert await other.create("one") == OperationFinishedError.code
        with pytest.raises(PoolNotFoundError):
            await api.inventory.pools.delete("mine")
    assert pools_of(cluster) == []
    assert not cluster.claimed


async def test_a_replay_goes_on_if_the_cache_receives_the_deletion_meanwhile(
    cluster: Cluster,
) -> None:
    async with replica(cluster) as api, replica(cluster, seed=2) as lagging:
        await told(api, pool(name="mine"))
        await asyncio.sleep(1)
        lagging.transport.hold_watches()
        await api.inventory.pools.delete("mine")
        slowly = Fault(after_seconds=1, then=lagging.transport.release_watches)
        lagging.transport.on("GET", "stockpools/mine", slowly)
        assert await told(lagging, pool(name="mine")) == OperationFinishedError.code


async def test_a_terminating_pool_finishes_its_operation(cluster: Cluster) -> None:
    async with replica(cluster) as api:
        await told(api, pool(name="mine"))
        path = STOCK_POOLS.path(namespace=STOCK, name="mine")
        cluster.call("PATCH", path, {"metadata": {"finalizers": ["x.y/z"]}})
        await api.inventory.pools.delete("mine")
        assert await told(api, pool(name="mine")) == OperationFinishedError.code


async def test_a_pool_that_the_cache_does_not_know_is_read_live(cluster: Cluster) -> None:
    async with replica(cluster) as api, replica(cluster, seed=2) as lagging:
        lagging.transport.hold_watches()
        await told(api, pool(name="mine"))
        assert (await lagging.inventory.pools.get("mine")).spec.replicas == 2
        for name in ("missing", "A", ""):
            with pytest.raises(PoolNotFoundError):
                await lagging.inventory.pools.get(name)


async def test_pages_of_pools_are_sorted_by_name_and_end(cluster: Cluster) -> None:
    async with replica(cluster) as api:
        for name in ("c", "a", "b"):
            await told(api, pool(name, name=name))
        first = api.inventory.pools.page(limit=2)
        assert [each.metadata.name for each in first.pools] == ["a", "b"]
        second = api.inventory.pools.page(limit=2, after=first.next)
        assert [each.metadata.name for each in second.pools] == ["c"]
        assert second.next is None


async def test_only_the_mutable_fields_of_a_pool_can_be_updated(cluster: Cluster) -> None:
    async with replica(cluster) as api:
        await told(api, pool(name="mine", image="x"))
        request = parse_update_pool({"replicas": 5, "image": None, "refill": "Never"})
        updated = await api.inventory.pools.update("mine", request)
        assert (await api.inventory.pools.get("mine")).spec == updated.spec
        assert await told(api, pool(name="mine", image="x")) == "200"
        with pytest.raises(PoolNotFoundError):
            await api.inventory.pools.update("missing", request)
    spec = pools_of(cluster)[0]["spec"]
    assert (spec["replicas"], spec["refill"], spec.get("image", "")) == (5, "Never", "")
    assert spec["gpu"] == 1
