"""Flavours: what every caller may ask for, and whether it is full."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping

import pytest

from gpuruntime.api.auth.access import Principal, Role
from gpuruntime.api.auth.authentication import Guard
from gpuruntime.api.auth.kubernetes import KubernetesGuard
from gpuruntime.api.auth.tokens import TokenGuard
from gpuruntime.kube.client import Client
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.units import GPU_UNITS
from tests.rooms.api.auth.reviews import Reviews
from tests.rooms.api.service import POOLS, Service, service
from tests.rooms.operations.cluster import NAMESPACES, STOCK, Cluster

pytestmark = pytest.mark.looptime

FLAVOURS = "/api/v1/flavours"
VIEWER = Principal(name="screen", role=Role.VIEWER)
TENANT = Principal(name="ann", role=Role.TENANT, tenants=frozenset({"a"}))
TABLE = {hashlib.sha256(who.name.encode()).digest(): who for who in (VIEWER, TENANT)}


@pytest.fixture
async def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
async def api(cluster: Cluster) -> AsyncIterator[Service]:
    async with service(cluster) as served:
        yield served


async def make_pool(api: Service, name: str, spec_name: str, **members: object) -> str:
    """Create a pool and return its uid."""
    body = {"operationID": f"pool-{name}", "name": name, "specName": spec_name, "replicas": 1}
    assert (await api.call("POST", POOLS, {**body, **members})).status == 202
    pool = api.replica.pools.store.values()
    return next(each.metadata.uid for each in pool if each.metadata.name == name)


async def test_a_flavour_has_its_envelope_and_the_units_that_are_ready_now(
    cluster: Cluster, api: Service
) -> None:
    uid = await make_pool(api, "p", "g1.1", gpu=1, gpuProduct="H100")
    cluster.add_stock(2, cpu="4", gpuProduct="H100")
    cluster.add_stock_unit("p-9", is_ready=False)
    for name in ("p-1", "p-2"):
        marks = {"metadata": {"annotations": {labels.POOL_UID: uid}}}
        cluster.call("PATCH", GPU_UNITS.path(namespace=STOCK, name=name), marks)
    await asyncio.sleep(1)
    flavour = {"specName": "g1.1", "cpu": "4", "memory": "16Gi", "gpu": 1, "gpuProduct": "H100"}
    ready = {**flavour, "available": 2, "units": 0, "full": False}
    assert (await api.call("GET", FLAVOURS)).data == [ready]
    for name in ("one", "two"):
        assert (await api.create(name, name=name)).status == 201
    full = {**flavour, "available": 0, "units": 2, "full": True}
    assert (await api.call("GET", FLAVOURS)).data == [full]


async def test_flavours_are_sorted_and_two_pools_of_one_flavour_are_one(api: Service) -> None:
    for name, spec_name in (("a", "g2"), ("b", "g1"), ("c", "g2"), ("d", "g3")):
        await make_pool(api, name, spec_name, memory="1Gi")
    first = (await api.call("GET", f"{FLAVOURS}?limit=2")).body
    assert [each["specName"] for each in first["data"]] == ["g1", "g2"]
    second = (await api.call("GET", f"{FLAVOURS}?limit=2&cursor={first['next']}")).body
    assert [each["specName"] for each in second["data"]] == ["g3"]
    assert second["next"] == ""
    assert all(each["full"] for each in (*first["data"], *second["data"]))


def kubernetes_guard() -> KubernetesGuard:
    """Return a guard in whose cluster the caller is known and has no right at all."""
    reviews = Reviews(tokens={("ann", "gpuruntime"): "ann"}, rights=set())
    return KubernetesGuard(Client(reviews), audience="gpuruntime", namespaces=NAMESPACES)


CALLERS: Mapping[str, tuple[Guard, str]] = {
    "a tenant": (TokenGuard(lambda: TABLE), "ann"),
    "a viewer": (TokenGuard(lambda: TABLE), "screen"),
    "a user of the cluster without rights": (kubernetes_guard(), "ann"),
}


@pytest.mark.parametrize("caller", CALLERS)
async def test_every_known_caller_sees_flavours_and_no_other(
    cluster: Cluster, caller: str
) -> None:
    guard, token = CALLERS[caller]
    async with service(cluster, guard=guard) as served:
        known = {"Authorization": f"Bearer {token}"}
        assert (await served.call("GET", FLAVOURS, headers=known)).status == 200
        assert (await served.call("GET", FLAVOURS)).status == 401


async def test_a_caller_without_stock_is_sent_to_the_flavours_and_not_to_the_operators_work(
    api: Service,
) -> None:
    answer = await api.create()
    assert (answer.status, answer.code) == (409, "insufficient_capacity")
    message = answer.body["error"]["message"]
    assert FLAVOURS in message
    assert "seed" not in message
