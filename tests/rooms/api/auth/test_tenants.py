"""Two tenants at one API: each sees and changes its own objects, and none of the other's."""

import hashlib
from collections.abc import AsyncIterator, Iterator

import pytest

from gpuruntime.api.auth.access import Principal, Role
from gpuruntime.api.auth.tokens import TokenGuard
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.labels import STORAGE_UIDS
from gpuruntime.models.kinds.storages import GPU_STORAGES
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.pods import PODS
from tests.rooms.api.routes.test_events import add_event
from tests.rooms.api.service import (
    INVOCATIONS,
    STORAGES,
    UNITS,
    Answer,
    Service,
    service,
    unit_order,
)
from tests.rooms.operations.cluster import INSTANCE, Cluster
from tests.row_ids import in_words

pytestmark = pytest.mark.looptime

FUNCTIONS = "/api/v1/serverless/functions"
LETTERS = "/api/v1/serverless/dead-letters"


def principals() -> Iterator[Principal]:
    yield Principal(name="root", role=Role.OPERATOR)
    yield Principal(name="a", role=Role.TENANT, tenants=frozenset({"a"}))
    yield Principal(name="b", role=Role.TENANT, tenants=frozenset({"b"}))
    yield Principal(name="both", role=Role.TENANT, tenants=frozenset({"a", "b"}))
    yield Principal(name="screen-a", role=Role.VIEWER, tenants=frozenset({"a"}))


TABLE = {hashlib.sha256(who.name.encode()).digest(): who for who in principals()}


class Callers:
    def __init__(self, api: Service, cluster: Cluster) -> None:
        self.api = api
        self.cluster = cluster

    async def call(self, who: str, method: str, path: str, body: object = None) -> Answer:
        """Call the API as `who`, whose token is its name."""
        headers = {"Authorization": f"Bearer {who}"}
        return await self.api.call(method, path, body, headers=headers)

    async def unit(self, who: str, name: str, **members: object) -> Answer:
        order = unit_order(f"op {name}".replace(" ", "-"), name=name, **members)
        return await self.call(who, "POST", UNITS, order)

    async def names(self, who: str, path: str) -> list[str]:
        answer = await self.call(who, "GET", path)
        assert answer.status == 200
        return [each["name"] for each in answer.data]


@pytest.fixture
async def callers() -> AsyncIterator[Callers]:
    cluster = Cluster()
    cluster.add_stock(8)
    async with service(cluster, guard=TokenGuard(lambda: TABLE)) as served:
        yield Callers(served, cluster)


async def test_a_tenants_objects_get_its_name_given_or_not(callers: Callers) -> None:
    assert (await callers.unit("a", "silent")).data["tenant"] == "a"
    assert (await callers.unit("a", "said", tenant="a")).data["tenant"] == "a"
    storage = await callers.call("a", "POST", STORAGES, {"name": "models", "size": "1Gi"})
    assert storage.data["tenant"] == "a"


async def test_a_tenant_cannot_create_for_another_tenant(callers: Callers) -> None:
    unit = await callers.unit("a", "foreign", tenant="b")
    body = {"name": "models", "size": "1Gi", "tenant": "b"}
    storage = await callers.call("a", "POST", STORAGES, body)
    assert [unit.code, storage.code] == ["forbidden", "forbidden"]
    assert callers.cluster.units == []


async def test_a_caller_with_several_tenants_has_to_name_one(callers: Callers) -> None:
    assert (await callers.unit("both", "which")).fields == ["tenant"]
    assert (await callers.unit("both", "this", tenant="b")).data["tenant"] == "b"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", f"{UNITS}/mine", None),
        ("GET", f"{UNITS}/mine/events", None),
        ("GET", f"{UNITS}/mine/logs", None),
        ("PUT", f"{UNITS}/mine", {"suspended": True}),
        ("DELETE", f"{UNITS}/mine", None),
        ("GET", f"{STORAGES}/mine", None),
        ("PUT", f"{STORAGES}/mine", {"size": "2Gi"}),
        ("DELETE", f"{STORAGES}/mine", None),
        ("POST", f"{STORAGES}/mine/recover", None),
        ("GET", f"{STORAGES}/mine/files/", None),
        ("PUT", f"{STORAGES}/mine/files/a", None),
        ("POST", INVOCATIONS, {"serverlessRequestID": "mine"}),
        ("GET", f"{INVOCATIONS}/one?serverlessRequestID=mine", None),
        ("DELETE", f"{INVOCATIONS}/one?serverlessRequestID=mine", None),
    ],
    ids=in_words,
)
async def test_another_tenants_object_looks_like_a_missing_one(
    callers: Callers, method: str, path: str, body: object
) -> None:
    await callers.unit("a", "mine", serverless={"requestID": "mine"})
    storage = {"name": "mine", "size": "1Gi", "accessor": {"enabled": True, "writable": True}}
    await callers.call("a", "POST", STORAGES, storage)
    foreign = await callers.call("b", method, path, body)
    unknown = await callers.call("b", method, path.replace("mine", "gone"), _renamed(body))
    assert foreign.status == 404
    assert foreign.body["error"]["code"] == unknown.body["error"]["code"]
    said = foreign.body["error"]["message"].replace("mine", "gone")
    assert said == unknown.body["error"]["message"]
    assert (await callers.call("a", method, path, body)).status != 404 or "logs" in path


def _renamed(body: object) -> object:
    return {"serverlessRequestID": "gone"} if body == {"serverlessRequestID": "mine"} else body


async def test_lists_and_their_cursors_cover_a_callers_own_objects(callers: Callers) -> None:
    for name, tenant in (("u1", "a"), ("u2", "b"), ("u3", ""), ("u4", "a"), ("u5", "b")):
        await callers.unit("root", name, tenant=tenant)
        body = {"name": name, "size": "1Gi", "tenant": tenant}
        await callers.call("root", "POST", STORAGES, body)
    for path in (UNITS, STORAGES):
        assert await callers.names("root", path) == ["u1", "u2", "u3", "u4", "u5"]
        assert await callers.names("screen-a", path) == ["u1", "u4"]
        assert await callers.names("both", path) == ["u1", "u2", "u4", "u5"]
        first = await callers.call("both", "GET", f"{path}?limit=3")
        assert [each["name"] for each in first.data] == ["u1", "u2", "u4"]
        following = f"{path}?limit=3&cursor={first.body['next']}"
        assert await callers.names("both", following) == ["u5"]
        assert await callers.names("b", following) == ["u5"]
    assert await callers.names("a", f"{UNITS}?tenant=b") == []
    assert await callers.names("both", f"{UNITS}?tenant=b") == ["u2", "u5"]
    assert await callers.names("a", f"{UNITS}?lifecycle=all") == ["u1", "u4"]
    assert await callers.names("a", f"{UNITS}?lifecycle=stock") == []


async def test_only_the_operator_reads_stock(callers: Callers) -> None:
    (stock, *_) = await callers.names("root", f"{UNITS}?lifecycle=stock")
    path = f"{UNITS}/{stock}?lifecycle=stock"
    assert (await callers.call("root", "GET", path)).status == 200
    assert (await callers.call("a", "GET", path)).code == "gpuunit_not_found"


async def test_a_tenant_mounts_and_copies_only_its_own_storages(callers: Callers) -> None:
    await callers.call("a", "POST", STORAGES, {"name": "mine", "size": "1Gi"})
    mounts = [{"name": "mine", "mountPath": "/data"}]
    copy = {"name": "copy", "size": "1Gi", "prepare": {"fromStorageName": "mine"}}
    assert (await callers.unit("b", "thief", storageMounts=mounts)).code == "gpustorage_not_found"
    assert (await callers.call("b", "POST", STORAGES, copy)).code == "gpustorage_not_found"
    await callers.unit("b", "thief")
    later = await callers.call("b", "PUT", f"{UNITS}/thief", {"storageMounts": mounts})
    assert later.code == "gpustorage_not_found"
    assert (await callers.unit("a", "owner", storageMounts=mounts)).status == 201
    assert (await callers.call("a", "POST", STORAGES, copy)).status == 201


async def test_mounted_and_copied_storages_are_recorded_by_uid(callers: Callers) -> None:
    """Later the name may belong to another tenant's storage."""
    await callers.call("a", "POST", STORAGES, {"name": "mine", "size": "1Gi"})
    mounts = [{"name": "mine", "mountPath": "/data"}]
    copy = {"name": "copy", "size": "1Gi", "prepare": {"fromStorageName": "mine"}}
    await callers.call("a", "POST", STORAGES, copy)
    await callers.unit("a", "made", storageMounts=mounts)
    await callers.unit("a", "changed")
    await callers.call("a", "PUT", f"{UNITS}/changed", {"storageMounts": mounts})
    mine, copied = callers.cluster.objects(GPU_STORAGES, INSTANCE)[::-1]
    known = f"mine={mine['metadata']['uid']}"
    for each in (copied, *callers.cluster.units):
        assert each["metadata"]["annotations"][STORAGE_UIDS] == known

    await callers.call("a", "PUT", f"{UNITS}/changed", {"image": "other:1"})
    await callers.call("a", "PUT", f"{UNITS}/made", {"storageMounts": None})
    changed, made = callers.cluster.units
    assert changed["metadata"]["annotations"][STORAGE_UIDS] == known
    assert STORAGE_UIDS not in made["metadata"]["annotations"]


async def test_a_mount_of_an_earlier_storage_does_not_prevent_deletion(
    callers: Callers,
) -> None:
    path = GPU_STORAGES.path(namespace=INSTANCE, name="name")
    await callers.call("a", "POST", STORAGES, {"name": "name", "size": "1Gi"})
    await callers.unit("a", "unit", storageMounts=[{"name": "name", "mountPath": "/data"}])
    refused = await callers.call("a", "DELETE", f"{STORAGES}/name")
    assert refused.code == "storage_in_use"
    callers.cluster.call("DELETE", path)
    await callers.call("b", "POST", STORAGES, {"name": "name", "size": "1Gi"})
    assert (await callers.call("b", "DELETE", f"{STORAGES}/name")).status == 204


async def test_only_the_same_tenant_gets_a_replay(callers: Callers) -> None:
    order = unit_order("once")
    made = await callers.call("a", "POST", UNITS, order)
    again = await callers.call("a", "POST", UNITS, order)
    by_operator = await callers.call("root", "POST", UNITS, {**order, "tenant": "a"})
    foreign = await callers.call("b", "POST", UNITS, order)
    assert [made.status, again.status, by_operator.status] == [201, 200, 200]
    assert foreign.code == "operation_conflict"


async def test_a_unit_that_changed_tenants_belongs_to_the_new_one(callers: Callers) -> None:
    await callers.unit("a", "name")
    cluster = callers.cluster
    path = GPU_UNITS.path(namespace=INSTANCE, name="name")
    held = cluster.call("GET", path)
    held["metadata"]["labels"]["runtime.lokiwager.io/tenant"] = "b"
    cluster.call("PUT", path, held)
    assert (await callers.call("a", "PUT", f"{UNITS}/name", {"suspended": True})).status == 404
    assert (await callers.call("a", "DELETE", f"{UNITS}/name")).status == 404
    assert (await callers.call("b", "DELETE", f"{UNITS}/name")).status == 204


async def test_a_pod_of_an_earlier_unit_is_not_shown(callers: Callers) -> None:
    """The Pod terminates while another unit has the name: its log and Events stay hidden."""
    await callers.unit("b", "name")
    for name, marks in (
        ("own", {labels.TENANT: "b", labels.UNIT_UID: "of-an-earlier-unit"}),
        ("old", {labels.TENANT: "a"}),
        ("older", dict[str, str]()),
    ):
        labelled = {labels.UNIT: "name", **marks}
        pod = {"metadata": {"name": name, "labels": labelled}, "spec": {"containers": []}}
        pod["spec"] = {"containers": [{"name": "runtime", "image": "x"}]}
        made = callers.cluster.call("POST", PODS.path(namespace=INSTANCE), pod)
        add_event(callers.cluster, f"of-{name}", made["metadata"]["uid"], seconds=1, kind="Pod")
    log = await callers.call("b", "GET", f"{UNITS}/name/logs")
    assert log.code == "not_found"
    assert "has no Pod" in log.body["error"]["message"]
    assert (await callers.call("b", "GET", f"{UNITS}/name/events")).data == []


async def test_a_tenant_lists_dead_letters_by_function_only(callers: Callers) -> None:
    assert (await callers.call("a", "GET", LETTERS)).fields == ["serverlessRequestID"]
    foreign = await callers.call("a", "GET", f"{LETTERS}?serverlessRequestID=nobodys")
    assert foreign.data == []


@pytest.mark.parametrize("path", ["operator/stockpools", "operator/inventory", "operator/audit"])
async def test_the_operators_routes_are_closed_to_tenants(callers: Callers, path: str) -> None:
    for who in ("a", "screen-a"):
        assert (await callers.call(who, "GET", f"/api/v1/{path}")).code == "forbidden"
