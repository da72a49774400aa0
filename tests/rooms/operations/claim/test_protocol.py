"""The claim protocol on the embedded server: its answers, and the objects left behind."""

import asyncio
from contextlib import AbstractAsyncContextManager

import attrs
import pytest

from gpuruntime.kube.transport import Request, Response, Socket, StreamResponse, Transport
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.requests.pools import SeedStock
from gpuruntime.operations.operations import tombstones_of
from tests.faults import DROPPED, Fault, refused, slow
from tests.rooms.operations.cluster import (
    INSTANCE,
    STOCK,
    Cluster,
    Document,
    notes,
    order,
    replica,
)

pytestmark = pytest.mark.looptime

UNITS = GPU_UNITS.path(namespace=INSTANCE)
CONFLICT = refused(409, "Conflict")
P1 = GPU_UNITS.path(namespace=STOCK, name="p-1")
FUNCTION = {"requestID": "fn"}


def foreign_unit(name: str, **annotations: str) -> Document:
    return {
        "apiVersion": GPU_UNITS.api_version,
        "kind": "GPUUnit",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"specName": "g1.1"},
    }


# The protocol without failures.


async def test_two_writes_happen_before_the_answer(cluster: Cluster) -> None:
    cluster.add_stock(2)
    async with replica(cluster) as api:
        assert await api.create(name="demo") == "201 demo"
        assert [each.split()[0] for each in api.transport.written()] == ["PATCH", "POST"]
    cluster.assert_sound()


class BodiesLater:
    """Send head and body from a task of its own, as aiohttp does below Python 3.12."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def request(self, request: Request) -> Response:
        if request.body is not None:
            await asyncio.sleep(0)
        return await self._inner.request(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        return self._inner.stream(request)

    def socket(
        self, request: Request, protocol: str
    ) -> AbstractAsyncContextManager[Socket | Response]:
        return self._inner.socket(request, protocol)


async def test_the_claim_is_sent_before_the_tombstone_is_read(cluster: Cluster) -> None:
    cluster.add_stock(1)
    async with replica(cluster) as api:
        api.context.client.transport = BodiesLater(api.transport)
        assert await api.create(name="demo") == "201 demo"
        assert [each.method for each in api.transport.sent] == ["PATCH", "GET", "POST"]


async def test_the_tombstone_is_read_while_the_claim_is_made(cluster: Cluster) -> None:
    cluster.add_stock(1)
    async with replica(cluster, latency=lambda: 1.0) as api:
        started = asyncio.get_running_loop().time()
        await api.create()
        assert asyncio.get_running_loop().time() - started == pytest.approx(4.0)


async def test_the_unit_has_the_envelope_of_its_stock_and_the_rest_of_its_caller(
    cluster: Cluster,
) -> None:
    cluster.add_stock(1, cpu="4", gpuProduct="A100", image="stock:1")
    async with replica(cluster) as api:
        await api.create(
            name="demo", tenant="t1", template={"ports": [{"name": "http", "port": 80}]}
        )
    [unit], [stock] = cluster.units, cluster.claimed
    assert unit["spec"] == {
        "suspended": False,
        "specName": "g1.1",
        "cpu": "4",
        "memory": "16Gi",
        "gpu": 1,
        "gpuProduct": "A100",
        "image": "python:3.12",
        "template": {"ports": [{"name": "http", "port": 80, "protocol": "TCP"}]},
    }
    assert unit["metadata"]["labels"] == {
        labels.APP_NAME: labels.UNIT_APP,
        labels.MANAGED_BY: labels.MANAGER,
        labels.UNIT: "demo",
        labels.SPEC: "g1.1",
        labels.TENANT: "t1",
    }
    assert notes(unit)[labels.SOURCE_STOCK] == f"{STOCK}/p-1"
    assert notes(unit)[labels.SOURCE_STOCK_UID] == stock["metadata"]["uid"]
    for name in (labels.OPERATION_ID, labels.REQUEST_HASH, labels.CLAIMED_AT):
        assert notes(unit)[name] == notes(stock)[name]
    assert notes(unit)[labels.ACCEPTED_AT] <= notes(unit)[labels.CLAIMED_AT]
    assert notes(stock)[labels.CLAIMED_BY] == f"{INSTANCE}/demo"
    assert notes(stock)[labels.CLAIM_ATTEMPT]


async def test_a_unit_without_a_name_is_named_after_its_operation(cluster: Cluster) -> None:
    cluster.add_stock(2)
    async with replica(cluster) as api:
        first, second = await api.create("one"), await api.create("two")
        assert first.startswith("201 op-")
        assert first != second
        assert await api.create("one") == first.replace("201", "200")


async def test_the_same_request_again_is_answered_with_its_unit(cluster: Cluster) -> None:
    cluster.add_stock(2)
    async with replica(cluster) as api:
        await api.create(name="demo")
        api.transport.sent.clear()
        assert await api.create(name="demo") == "200 demo"
        paths = [each.path.rpartition("/")[0] for each in api.transport.sent]
        assert [path.rpartition("/")[2] for path in paths] == ["gpuunits", "configmaps"]
    cluster.assert_sound()


async def test_another_request_under_the_operation_is_a_conflict(cluster: Cluster) -> None:
    cluster.add_stock(2)
    async with replica(cluster) as api:
        await api.create(name="demo")
        assert await api.create(name="demo", image="other") == "operation_conflict"
        assert await api.create(name="other") == "operation_conflict"
    cluster.assert_sound()


async def test_an_operation_of_a_pool_is_a_conflict_for_a_unit(cluster: Cluster) -> None:
    cluster.add_stock(1)
    async with replica(cluster) as api:
        await api.inventory.pools.create(SeedStock(operationID="one", specName="x", replicas=1))
        assert await api.create("one") == "operation_conflict"
    assert not cluster.claimed


async def test_callers_of_one_operation_run_one_after_the_other(cluster: Cluster) -> None:
    cluster.add_stock(5)
    async with replica(cluster) as api, asyncio.TaskGroup() as tasks:
        calls = [tasks.create_task(api.create(name="demo")) for _ in range(5)]
    assert sorted(call.result() for call in calls) == ["200 demo"] * 4 + ["201 demo"]
    cluster.assert_sound()


async def test_the_time_of_each_step_is_measured(cluster: Cluster) -> None:
    cluster.add_stock(1)
    async with replica(cluster, latency=lambda: 0.5) as api:
        timings = (await api.inventory.units.create(order("one"))).timings
        assert timings.replay == 0
        assert timings.claim == pytest.approx(1.0)
        assert timings.create == pytest.approx(1.0)
        replay = (await api.inventory.units.create(order("one"))).timings
        assert replay.replay == pytest.approx(2.0)
        assert replay.claim == replay.create == 0


# No stock is left.


async def test_a_failure_for_lack_of_stock_leaves_nothing_behind(cluster: Cluster) -> None:
    async with replica(cluster) as api:
        assert await api.create() == "insufficient_capacity"
        assert api.transport.written() == []


async def test_stock_that_the_cache_does_not_know_yet_is_found(cluster: Cluster) -> None:
    async with replica(cluster) as api:
        api.transport.hold_watches()
        cluster.add_stock(1)
        assert await api.create(name="demo") == "201 demo"
    cluster.assert_sound()


async def test_a_unit_that_the_cache_does_not_know_yet_is_found_before_capacity_is_denied(
    cluster: Cluster,
) -> None:
    cluster.add_stock(1)
    async with replica(cluster) as lagging, replica(cluster, seed=2) as api:
        lagging.transport.hold_watches()
        await api.create(name="demo")
        cluster.call("DELETE", GPU_UNITS.path(namespace=STOCK, name="p-1"))
        assert await lagging.create(name="demo") == "200 demo"


async def test_all_waiting_callers_share_one_list(cluster: Cluster) -> None:
    async with replica(cluster) as api:
        async with asyncio.TaskGroup() as tasks:
            calls = [tasks.create_task(api.create(str(number))) for number in range(20)]
        assert {call.result() for call in calls} == {"insufficient_capacity"}
        lists = [each for each in api.transport.sent if each.path.endswith("/gpuunits")]
        assert len(lists) == 2  # the first list began before the other callers asked


async def test_capacity_is_not_denied_while_a_write_of_our_own_is_in_flight(
    cluster: Cluster,
) -> None:
    cluster.add_stock(1)
    async with replica(cluster) as api:
        api.transport.on("PATCH", "gpuunits", attrs.evolve(CONFLICT, before_seconds=5))
        api.transport.on("GET", "gpuunits/p-1", refused(503, "ServiceUnavailable"))
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(api.create("one"))
            await asyncio.sleep(1)
            second = tasks.create_task(api.create("two", name="demo"))
        assert (first.result(), second.result()) == ("service_unavailable", "201 demo")
    cluster.assert_sound()


async def test_capacity_is_not_denied_while_stock_is_being_released(cluster: Cluster) -> None:
    cluster.add_stock(1)
    async with replica(cluster) as api:
        api.transport.on("POST", UNITS, refused(403, "Forbidden"))
        api.transport.on("PATCH", "", slow(before=5), skip=1)
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(api.create("one"))
            await asyncio.sleep(1)
            second = tasks.create_task(api.create("two", name="demo"))
        assert (first.result(), second.result()) == ("forbidden", "201 demo")
    cluster.assert_sound()


async def test_the_last_stock_claimed_by_our_own_operation_is_used_although_no_cache_shows_it(
    cluster: Cluster,
) -> None:
    cluster.add_stock(1)
    async with replica(cluster) as crashed, replica(cluster, seed=2) as api:
        api.transport.hold_watches()
        crashed.transport.on("PATCH", "", Fault(then=crashed.transport.cut))
        await crashed.create(name="demo")
        api.transport.on("PATCH", "p-1", refused(409, "Conflict"))
        api.transport.on("GET", "p-1", refused(404, "NotFound"))
        assert await api.create(name="demo") == "201 demo"
    cluster.assert_sound()


async def test_stock_that_a_unit_names_is_not_claimed_although_it_looks_free(
    cluster: Cluster,
) -> None:
    stock = cluster.add_stock_unit("p-1")
    named = {labels.SOURCE_STOCK_UID: stock["metadata"]["uid"]}
    cluster.call("POST", UNITS, foreign_unit("holder", **named))
    async with replica(cluster) as api:
        assert await api.create() == "insufficient_capacity"
        assert api.transport.written() == []


# Other claimants.


async def test_a_claim_lost_to_another_operation_goes_on_to_the_next_stock(
    cluster: Cluster,
) -> None:
    cluster.add_stock(2)
    async with replica(cluster) as lagging, replica(cluster, seed=2) as api:
        lagging.transport.hold_watches()
        await api.create("one")
        await api.create("two")
        cluster.add_stock(1)
        assert await lagging.create("three", name="demo") == "201 demo"
    cluster.assert_sound()


async def test_a_stock_unit_that_only_changed_is_claimed_at_its_new_version(
    cluster: Cluster,
) -> None:
    cluster.add_stock(1)
    async with replica(cluster) as api:
        api.transport.hold_watches()
        cluster.make_ready(STOCK, "p-1")
        cluster.call("PATCH", P1, {"metadata": {"labels": {"touched": "yes"}}})
        assert await api.create(name="demo") == "201 demo"
        assert len(api.transport.written()) == 3
        assert not any(each.path.endswith("gpuunits") for each in api.transport.sent[:-1])
    cluster.assert_sound()


async def test_the_claim_of_another_attempt_is_restamped_and_used(cluster: Cluster) -> None:
    cluster.add_stock(3)
    async with replica(cluster) as crashed, replica(cluster, seed=2) as api:
        crashed.transport.on("PATCH", "", Fault(then=crashed.transport.cut))
        assert await crashed.create(name="demo") == "timeout"
        [before] = cluster.claimed
        await asyncio.sleep(1)
        assert await api.create(name="demo") == "201 demo"
        [after] = cluster.claimed
        assert after["metadata"]["name"] == before["metadata"]["name"]
        assert notes(after)[labels.CLAIM_ATTEMPT] != notes(before)[labels.CLAIM_ATTEMPT]
        assert notes(after)[labels.CLAIMED_AT] > notes(before)[labels.CLAIMED_AT]
    cluster.assert_sound()


async def test_the_claim_of_another_request_under_the_operation_is_a_conflict(
    cluster: Cluster,
) -> None:
    cluster.add_stock(3)
    async with replica(cluster) as crashed, replica(cluster, seed=2) as api:
        crashed.transport.on("PATCH", "", Fault(then=crashed.transport.cut))
        await crashed.create(name="demo")
        await asyncio.sleep(1)
        assert await api.create(name="other") == "operation_conflict"
    assert len(cluster.claimed) == 1


async def test_a_claim_that_was_released_before_it_was_restamped_is_made_again(
    cluster: Cluster,
) -> None:
    cluster.add_stock(1)
    async with replica(cluster) as crashed, replica(cluster, seed=2) as api:
        crashed.transport.on("PATCH", "", Fault(then=crashed.transport.cut))
        await crashed.create(name="demo")
        await asyncio.sleep(1)
        api.transport.hold_watches()
        marks = dict.fromkeys(notes(cluster.claimed[0]))
        cluster.call("PATCH", P1, {"metadata": {"annotations": marks}})
        assert await api.create(name="demo") == "201 demo"
    cluster.assert_sound()


async def test_a_claim_whose_stock_is_gone_is_made_again(cluster: Cluster) -> None:
    cluster.add_stock(1)
    async with replica(cluster) as crashed, replica(cluster, seed=2) as api:
        crashed.transport.on("PATCH", "", Fault(then=crashed.transport.cut))
        await crashed.create(name="demo")
        await asyncio.sleep(1)
        api.transport.hold_watches()
        cluster.call("DELETE", P1)
        cluster.add_stock_unit("p-2")
        assert await api.create(name="demo") == "201 demo"
    cluster.assert_sound()


async def test_a_claim_that_another_replica_has_used_is_answered_with_its_unit(
    cluster: Cluster,
) -> None:
    cluster.add_stock(2)
    async with replica(cluster) as one, replica(cluster, seed=2) as lagging:
        one.transport.on("POST", UNITS, DROPPED)
        await one.create(name="demo")
        await asyncio.sleep(1)
        lagging.transport.hold_watches()
        await one.create(name="demo")
        consumed = cluster.claimed[0]["metadata"]["name"]
        cluster.call("DELETE", GPU_UNITS.path(namespace=STOCK, name=consumed))
        assert await lagging.create(name="demo") == "200 demo"
        assert len(lagging.transport.written()) == 1
    assert not cluster.claimed


async def test_a_unit_that_uses_other_stock_releases_the_claim(
    cluster: Cluster,
) -> None:
    cluster.add_stock_unit("p-1")
    async with replica(cluster) as api:
        cluster.add_stock_unit("p-2", is_ready=False)
        await asyncio.sleep(1)
        async with replica(cluster, seed=2) as lagging:
            lagging.transport.hold_watches()
            await api.create(name="demo")
            cluster.make_ready(STOCK, "p-2")
            lagging.transport.on("PATCH", "p-1", CONFLICT)
            lagging.transport.on("GET", "stock/gpuunits/p-1", refused(404, "NotFound"))
            assert await lagging.create(name="demo") == "200 demo"
    cluster.assert_sound()


# Taken names.


async def test_a_name_of_another_operation_is_taken_and_costs_no_stock(cluster: Cluster) -> None:
    cluster.add_stock(2)
    async with replica(cluster) as api:
        await api.create("one", name="demo")
        written = len(api.transport.written())
        assert await api.create("two", name="demo") == "name_taken"
        assert len(api.transport.written()) == written
    cluster.assert_sound()


async def test_a_taken_name_that_the_cache_does_not_show_releases_the_claim(
    cluster: Cluster,
) -> None:
    cluster.add_stock(1)
    async with replica(cluster) as api:
        api.transport.hold_watches()
        cluster.call("POST", UNITS, foreign_unit("demo"))
        assert await api.create(name="demo") == "name_taken"
    assert not cluster.claimed


async def test_a_used_operation_that_the_cache_does_not_show_releases_the_claim(
    cluster: Cluster,
) -> None:
    cluster.add_stock(1)
    async with replica(cluster) as api:
        api.transport.hold_watches()
        cluster.call("POST", UNITS, foreign_unit("demo", **{labels.OPERATION_ID: "one"}))
        assert await api.create("one", name="demo") == "operation_conflict"
    assert not cluster.claimed


async def test_our_unit_that_is_being_deleted_finishes_the_operation(cluster: Cluster) -> None:
    cluster.add_stock(2)
    async with replica(cluster) as api:
        await api.create(name="demo")
        path = GPU_UNITS.path(namespace=INSTANCE, name="demo")
        cluster.call("PATCH", path, {"metadata": {"finalizers": ["x.y/z"]}})
        cluster.call("DELETE", path)
        async with replica(cluster, seed=2) as other:
            assert await other.create(name="demo") == "operation_finished"
            other.transport.hold_watches()
    assert len(cluster.claimed) == 1


@pytest.mark.parametrize(
    ("has_started", "answer"),
    [(True, "200 demo"), (False, "operation_finished")],
    ids=["started", "perhaps brought back by a late create"],
)
async def test_the_tombstone_of_another_unit_does_not_end_the_operation_of_a_started_unit(
    cluster: Cluster, has_started: bool, answer: str
) -> None:
    cluster.add_stock(1)
    path = GPU_UNITS.path(namespace=INSTANCE, name="demo")
    async with replica(cluster) as api:
        await api.create(name="demo")
        demo = await api.context.client.get(GPU_UNITS, Key(INSTANCE, "demo"))
        other = attrs.evolve(demo.metadata, name="other", uid="uid-other")
        await tombstones_of(api.context).write("GPUUnit", attrs.evolve(demo, metadata=other))
        if has_started:
            timeline = {"createdAt": "2025-01-01T00:00:00.000000Z"}
            cluster.call("PATCH", f"{path}/status", {"status": {"timeline": timeline}})
        async with replica(cluster, seed=2) as later:
            assert await later.create(name="demo") == answer


async def test_a_name_that_became_free_is_tried_again(cluster: Cluster) -> None:
    cluster.add_stock(1)
    async with replica(cluster) as api:
        api.transport.on("POST", UNITS, refused(409, "AlreadyExists"))
        assert await api.create(name="demo") == "201 demo"
    cluster.assert_sound()


async def test_names_with_a_common_prefix_are_different_names(cluster: Cluster) -> None:
    cluster.add_stock(2)
    names = ["n" * 58 + "-a", "n" * 58 + "-b"]
    async with replica(cluster) as api:
        assert [await api.create(name, name=name) for name in names] == [
            f"201 {name}" for name in names
        ]
    cluster.assert_sound()


# Functions.


async def test_a_unit_that_declares_a_function_takes_no_stock(cluster: Cluster) -> None:
    cluster.add_stock(1)
    async with replica(cluster) as api:
        assert await api.create(name="demo", serverless=FUNCTION) == "201 demo"
        assert await api.create(name="demo", serverless=FUNCTION) == "200 demo"
    assert not cluster.claimed
    assert labels.SOURCE_STOCK not in notes(cluster.units[0])


async def test_a_function_that_another_unit_declares_is_taken(cluster: Cluster) -> None:
    async with replica(cluster) as api:
        await api.create("one", serverless=FUNCTION)
        assert await api.create("two", serverless=FUNCTION) == "name_taken"
    assert len(cluster.units) == 1


async def test_one_of_several_simultaneous_declarations_gets_the_function(
    cluster: Cluster,
) -> None:
    async with replica(cluster) as api, asyncio.TaskGroup() as tasks:
        calls = [
            tasks.create_task(api.create(f"f.{number}", serverless=FUNCTION))
            for number in range(6)
        ]
    assert sorted(call.result().split()[0] for call in calls) == ["201"] + 5 * ["name_taken"]
    assert len(cluster.units) == 1


async def test_a_finished_function_is_not_created_again(cluster: Cluster) -> None:
    async with replica(cluster) as api:
        await api.create("one", name="demo", serverless=FUNCTION)
        await api.inventory.units.delete("demo")
    async with replica(cluster, seed=2) as fresh:
        assert await fresh.create("one", name="demo", serverless=FUNCTION) == "operation_finished"
    assert cluster.units == []
