"""Units after their creation are read, updated and deleted."""

import asyncio

import pytest

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.units import GPU_UNITS, MOST_GENERATIONS
from gpuruntime.models.kubernetes.names import label_value_of
from gpuruntime.models.views.units import Lifecycle
from gpuruntime.operations.errors import (
    ClusterUnavailableError,
    NameTakenError,
    PreconditionFailedError,
    UnitNotFoundError,
    UnknownOutcomeError,
)
from gpuruntime.operations.requests import parse_update_unit
from gpuruntime.operations.units import MOST_AT_ONCE
from gpuruntime.operations.updates import etag_of
from gpuruntime.strict.structure import StrictError
from tests.faults import ANSWER_LOST, DROPPED, Fault, refused
from tests.rooms.operations.cluster import (
    INSTANCE,
    READY,
    STOCK,
    SYSTEM,
    Cluster,
    Document,
    Replica,
    notes,
    replica,
)

pytestmark = pytest.mark.looptime

DEMO = GPU_UNITS.path(namespace=INSTANCE, name="demo")
PORTS = [{"name": "http", "port": 80}]


@pytest.fixture
async def cluster() -> Cluster:
    made = Cluster()
    made.add_stock(6)
    return made


def demo_of(cluster: Cluster) -> Document:
    return cluster.call("GET", DEMO)


def tombstones(cluster: Cluster) -> list[Document]:
    items: list[Document] = cluster.call("GET", f"/api/v1/namespaces/{SYSTEM}/configmaps")["items"]
    return [each for each in items if each["metadata"]["name"].startswith("operation-")]


# Creates.


async def test_the_first_units_of_a_burst_exist_before_the_last_are_claimed() -> None:
    cluster = Cluster()
    cluster.add_stock(3 * MOST_AT_ONCE)
    async with replica(cluster) as api, asyncio.TaskGroup() as tasks:
        for number in range(3 * MOST_AT_ONCE):
            tasks.create_task(api.create(f"op.{number}"))
    begun, most = 0, 0
    for request in api.transport.sent:
        begun += {"PATCH": 1, "POST": -1}.get(request.method, 0)
        most = max(most, begun)
    assert (begun, most) == (0, MOST_AT_ONCE)


# Reads.


async def test_a_unit_that_the_cache_knows_is_read_without_a_request(cluster: Cluster) -> None:
    async with replica(cluster) as api:
        await api.create(name="demo")
        api.transport.sent.clear()
        assert (await api.inventory.units.get("demo")).metadata.name == "demo"
        assert api.transport.sent == []


async def test_a_unit_that_the_cache_does_not_know_yet_is_read_live(cluster: Cluster) -> None:
    async with replica(cluster) as lagging, replica(cluster, seed=2) as api:
        lagging.transport.hold_watches()
        await api.create(name="demo")
        assert (await lagging.inventory.units.get("demo")).metadata.name == "demo"


@pytest.mark.parametrize("name", ["missing", "A", "a.b", "..", "a/b", "", "x" * 64])
async def test_an_unknown_unit_is_not_found(cluster: Cluster, name: str) -> None:
    async with replica(cluster) as api:
        with pytest.raises(UnitNotFoundError):
            await api.inventory.units.get(name)


async def test_stock_and_active_units_are_read_separately(cluster: Cluster) -> None:
    async with replica(cluster) as api:
        assert (await api.inventory.units.get("p-1", Lifecycle.STOCK)).metadata.namespace == STOCK
        with pytest.raises(UnitNotFoundError):
            await api.inventory.units.get("p-1")


# Updates.


async def test_given_fields_replace_and_absent_fields_stay(cluster: Cluster) -> None:
    async with replica(cluster) as api:
        await api.create(name="demo", template={"args": ["a"], "ports": PORTS})
        request = parse_update_unit({"image": "new", "template": {"command": ["x"]}})
        updated = await api.inventory.units.update("demo", request)
        assert (await api.inventory.units.get("demo")).spec == updated.spec
    spec = demo_of(cluster)["spec"]
    assert spec["image"] == "new"
    assert spec["template"] == {"command": ["x"]}
    assert spec["memory"] == "16Gi"
    assert updated.metadata.generation == demo_of(cluster)["metadata"]["generation"] == 2


async def test_null_clears_a_field(cluster: Cluster) -> None:
    async with replica(cluster) as api:
        await api.create(name="demo", template={"args": ["a"]}, access={"scheme": "tcp"})
        request = parse_update_unit({"image": None, "template": None, "access": None})
        spec = (await api.inventory.units.update("demo", request)).spec
        assert (spec.image, spec.template.args, spec.access.scheme) == ("", (), "http")


@pytest.mark.parametrize(
    ("access", "generation"),
    [
        (None, 3),
        ({"wake": True}, 3),
        ({"generation": 0}, 3),
        ({"generation": 3}, 3),
        ({"generation": 4}, 4),
    ],
    ids=["cleared", "left out", "as by default", "the same", "raised"],
)
async def test_a_new_access_keeps_the_generation_unless_it_raises_it(
    cluster: Cluster, access: object, generation: int
) -> None:
    async with replica(cluster) as api:
        await api.create(name="demo", access={"generation": 3})
        updated = await api.inventory.units.update("demo", parse_update_unit({"access": access}))
        assert updated.spec.access.generation == generation


@pytest.mark.parametrize("generation", [2, 5, MOST_GENERATIONS])
async def test_a_generation_never_falls_and_rises_by_one_at_a_time(
    cluster: Cluster, generation: int
) -> None:
    async with replica(cluster) as api:
        await api.create(name="demo", access={"generation": 3})
        request = parse_update_unit({"access": {"generation": generation}})
        with pytest.raises(StrictError) as caught:
            await api.inventory.units.update("demo", request)
        assert [problem.field for problem in caught.value.problems] == ["access.generation"]


async def test_a_revocation_at_the_last_generation_names_the_remedy(cluster: Cluster) -> None:
    async with replica(cluster) as api:
        await api.create(name="demo", access={"generation": MOST_GENERATIONS})
        with pytest.raises(StrictError, match="delete the unit") as caught:
            await api.inventory.units.revoke("demo")
        assert [problem.field for problem in caught.value.problems] == ["access.generation"]


async def test_an_update_that_changes_nothing_writes_nothing(cluster: Cluster) -> None:
    async with replica(cluster) as api:
        await api.create(name="demo")
        api.transport.sent.clear()
        request = parse_update_unit({"image": "python:3.12", "suspended": False})
        await api.inventory.units.update("demo", request)
        assert api.transport.written() == []


async def test_changes_by_others_are_kept(cluster: Cluster) -> None:
    async with replica(cluster) as api:
        await api.create(name="demo")

        def suspend() -> None:
            cluster.call("PATCH", DEMO, {"spec": {"suspended": True}})

        api.transport.on("GET", "demo", Fault(then=suspend))
        await api.inventory.units.update("demo", parse_update_unit({"image": "new"}))
    assert demo_of(cluster)["spec"]["image"] == "new"
    assert demo_of(cluster)["spec"]["suspended"] is True


@pytest.mark.parametrize("fault", [ANSWER_LOST, DROPPED], ids=["answer lost", "dropped"])
async def test_an_update_whose_answer_was_lost_is_read_back(
    cluster: Cluster, fault: Fault
) -> None:
    async with replica(cluster) as api:
        await api.create(name="demo")
        api.transport.on("PUT", "demo", fault)
        updated = await api.inventory.units.update("demo", parse_update_unit({"image": "new"}))
        assert updated.spec.image == demo_of(cluster)["spec"]["image"] == "new"
        assert updated.metadata.generation == 2


async def test_an_etag_changes_with_the_spec_and_not_with_the_status(cluster: Cluster) -> None:
    async with replica(cluster) as api:
        await api.create(name="demo")
        etag = etag_of(await api.inventory.units.get("demo"))
        cluster.make_ready(INSTANCE, "demo")
        units = api.inventory.units
        await units.update("demo", parse_update_unit({"image": "new"}), if_match=[etag])
        with pytest.raises(PreconditionFailedError):
            await units.update("demo", parse_update_unit({"image": "x"}), if_match=[etag])
    assert demo_of(cluster)["spec"]["image"] == "new"


async def test_an_etag_is_compared_with_the_live_unit(cluster: Cluster) -> None:
    async with replica(cluster) as api:
        await api.create(name="demo")
        etag = etag_of(await api.inventory.units.get("demo"))
        api.transport.hold_watches()
        cluster.call("PATCH", DEMO, {"spec": {"suspended": True}})
        with pytest.raises(PreconditionFailedError):
            await api.inventory.units.update(
                "demo", parse_update_unit({"image": "x"}), if_match=[etag]
            )


async def test_a_change_that_breaks_a_rule_names_the_field(cluster: Cluster) -> None:
    async with replica(cluster) as api:
        access = {"primaryPort": "http"}
        await api.create(name="demo", access=access, template={"ports": PORTS})
        request = parse_update_unit({"template": {"ports": [{"name": "other", "port": 1}]}})
        with pytest.raises(StrictError) as caught:
            await api.inventory.units.update("demo", request)
        assert [problem.field for problem in caught.value.problems] == ["access.primaryPort"]
        assert api.transport.written()[-1].startswith("POST")


async def test_a_function_of_another_unit_cannot_be_taken_over(cluster: Cluster) -> None:
    async with replica(cluster) as api:
        await api.create("one", name="owner", serverless={"requestID": "fn"})
        await api.create("two", name="demo")
        request = parse_update_unit({"serverless": {"requestID": "fn"}})
        with pytest.raises(NameTakenError):
            await api.inventory.units.update("demo", request)
        owned = await api.inventory.units.update("owner", request)
        assert owned.spec.serverless


async def test_one_of_several_simultaneous_updates_gets_the_function(cluster: Cluster) -> None:
    request = parse_update_unit({"serverless": {"requestID": "fn"}})

    async def change(api: Replica, name: str) -> str:
        try:
            await api.inventory.units.update(name, request)
        except NameTakenError as error:
            return error.code
        return "200"

    async with replica(cluster) as api:
        for name in ("a", "b", "c"):
            await api.create(f"of.{name}", name=name)
        async with asyncio.TaskGroup() as tasks:
            calls = [tasks.create_task(change(api, name)) for name in ("a", "b", "c")]
            made = tasks.create_task(api.create("d", serverless={"requestID": "fn"}))
    assert sorted(call.result() for call in calls) == ["200", "name_taken", "name_taken"]
    assert made.result() == "name_taken"


async def test_a_template_has_the_label_of_the_function_that_it_declares(
    cluster: Cluster,
) -> None:
    async with replica(cluster) as api:
        await api.create("one", name="demo", serverless={"requestID": "_odd_"})
        (unit,) = cluster.units
        assert unit["metadata"]["labels"][labels.FUNCTION] == label_value_of("_odd_")
        await api.inventory.units.update(
            "demo", parse_update_unit({"serverless": {"requestID": "fn"}})
        )
        (unit,) = cluster.units
        assert unit["metadata"]["labels"][labels.FUNCTION] == "fn"


async def test_a_unit_with_stock_can_become_a_template_and_a_unit_again(
    cluster: Cluster,
) -> None:
    async with replica(cluster) as api:
        await api.create("one", name="demo")
        for function in ({"requestID": "fn"}, None):
            request = parse_update_unit({"serverless": function})
            await api.inventory.units.update("demo", request)
            (unit,) = cluster.units
            assert (labels.FUNCTION in unit["metadata"]["labels"]) == (function is not None)


async def test_a_template_without_stock_stays_a_template(cluster: Cluster) -> None:
    """It would run without an envelope, on capacity that belongs to others."""
    async with replica(cluster) as api:
        await api.create("one", name="demo", serverless={"requestID": "fn"})
        request = parse_update_unit({"serverless": None, "image": "new"})
        with pytest.raises(StrictError, match="delete the unit") as caught:
            await api.inventory.units.update("demo", request)
        assert [problem.field for problem in caught.value.problems] == ["serverless"]
        await api.inventory.units.update("demo", parse_update_unit({"image": "new"}))
    assert demo_of(cluster)["spec"]["serverless"]["requestID"] == "fn"


async def test_a_template_that_kubectl_wrote_may_become_a_unit(cluster: Cluster) -> None:
    body = {
        "apiVersion": GPU_UNITS.api_version,
        "kind": "GPUUnit",
        "metadata": {"name": "demo"},
        "spec": {"specName": "g1.1", "serverless": {"requestID": "fn"}},
    }
    cluster.call("POST", GPU_UNITS.path(namespace=INSTANCE), body)
    async with replica(cluster) as api:
        request = parse_update_unit({"serverless": None})
        assert (await api.inventory.units.update("demo", request)).spec.serverless is None


async def test_an_updated_worker_keeps_its_function(cluster: Cluster) -> None:
    function = {"requestID": "fn", "workerOf": {"name": "owner", "uid": "u"}}
    body = {
        "apiVersion": GPU_UNITS.api_version,
        "kind": "GPUUnit",
        "metadata": {"name": "demo"},
        "spec": {"specName": "g1.1", "serverless": function},
    }
    cluster.call("POST", GPU_UNITS.path(namespace=INSTANCE), body)
    async with replica(cluster) as api:
        request = parse_update_unit({"serverless": {"requestID": "fn", "concurrency": 2}})
        updated = await api.inventory.units.update("demo", request)
        assert updated.spec.serverless
        assert updated.spec.serverless.workerOf
        with pytest.raises(StrictError) as caught:
            await api.inventory.units.update("demo", parse_update_unit({"serverless": None}))
        assert [problem.field for problem in caught.value.problems] == ["serverless.workerOf"]


async def test_an_unknown_unit_cannot_be_updated(cluster: Cluster) -> None:
    async with replica(cluster) as api:
        with pytest.raises(UnitNotFoundError):
            await api.inventory.units.update("missing", parse_update_unit({"image": "x"}))


# Deletions.


async def test_the_tombstone_exists_before_the_unit_is_deleted(cluster: Cluster) -> None:
    async with replica(cluster) as api:
        await api.create(name="demo")
        api.transport.on("DELETE", "demo", Fault(then=lambda: None, is_dropped=True), times=1)
        uid = demo_of(cluster)["metadata"]["uid"]
        await api.inventory.units.delete("demo")
        written = [each.split()[0] for each in api.transport.written()[2:]]
        assert written == ["POST", "DELETE", "DELETE"]
    [tombstone] = tombstones(cluster)
    assert uid in tombstone["data"]
    assert notes(tombstone)[labels.OPERATION_ID] == "one"
    assert cluster.units == []


async def test_this_replica_no_longer_finds_a_unit_that_it_deleted(cluster: Cluster) -> None:
    async with replica(cluster) as api:
        await api.create(name="demo")
        await asyncio.sleep(1)
        api.transport.hold_watches()
        await api.inventory.units.delete("demo")
        with pytest.raises(UnitNotFoundError):
            await api.inventory.units.get("demo")
        with pytest.raises(UnitNotFoundError):
            await api.inventory.units.delete("demo")


async def test_a_deletion_whose_answer_was_lost_is_completed(cluster: Cluster) -> None:
    async with replica(cluster) as api:
        await api.create(name="demo")
        api.transport.on("DELETE", "demo", ANSWER_LOST)
        await api.inventory.units.delete("demo")
    assert cluster.units == []


async def test_a_unit_that_a_conflict_left_undeleted_is_not_reported_as_deleted(
    cluster: Cluster,
) -> None:
    async with replica(cluster) as api:
        await api.create(name="demo")
        api.transport.on("DELETE", "demo", refused(409, "Conflict"))
        with pytest.raises(ClusterUnavailableError):
            await api.inventory.units.delete("demo")
        await api.inventory.units.delete("demo")
    assert cluster.units == []


async def test_a_later_unit_of_the_same_name_is_not_deleted(cluster: Cluster) -> None:
    async with replica(cluster) as api:
        await api.create(name="demo")
        body = {**demo_of(cluster), "metadata": {"name": "demo"}}

        def replace() -> None:
            cluster.call("DELETE", DEMO)
            cluster.call("POST", GPU_UNITS.path(namespace=INSTANCE), body)

        api.transport.on("POST", "configmaps", Fault(then=replace))
        await api.inventory.units.delete("demo")
    assert len(cluster.units) == 1


async def test_a_unit_without_an_operation_leaves_no_tombstone(cluster: Cluster) -> None:
    body = {
        "apiVersion": GPU_UNITS.api_version,
        "kind": "GPUUnit",
        "metadata": {"name": "demo"},
        "spec": {"specName": "g1.1"},
    }
    cluster.call("POST", GPU_UNITS.path(namespace=INSTANCE), body)
    async with replica(cluster) as api:
        await api.inventory.units.delete("demo")
    assert tombstones(cluster) == cluster.units == []


async def test_a_unit_that_lost_its_operation_leaves_no_tombstone(cluster: Cluster) -> None:
    async with replica(cluster) as api:
        await api.create(name="demo")
        lost = READY | {"status": "False", "reason": "OperationConflict"}
        cluster.call("PATCH", f"{DEMO}/status", {"status": {"conditions": [lost]}})
        await api.inventory.units.delete("demo")
    assert tombstones(cluster) == cluster.units == []


async def test_a_terminating_unit_still_gets_its_tombstone(cluster: Cluster) -> None:
    async with replica(cluster) as api:
        await api.create(name="demo")
        cluster.call("PATCH", DEMO, {"metadata": {"finalizers": ["x.y/z"]}})
        cluster.call("DELETE", DEMO)
        await api.inventory.units.delete("demo")
        assert len(tombstones(cluster)) == 1
        assert "DELETE" not in {each.method for each in api.transport.sent}


async def test_a_unit_is_not_deleted_without_its_tombstone(cluster: Cluster) -> None:
    async with replica(cluster) as api:
        await api.create(name="demo")
        api.transport.on("POST", "configmaps", refused(500, "InternalError"))
        with pytest.raises(UnknownOutcomeError):
            await api.inventory.units.delete("demo")
    assert len(cluster.units) == 1
