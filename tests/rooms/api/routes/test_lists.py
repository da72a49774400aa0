"""Lists: pages that neither repeat nor lose units, and filters that must all match."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.pools import STOCK_POOLS
from gpuruntime.models.kinds.units import GPU_UNITS
from tests.rooms.api.service import JOBS, POOLS, STOCK_UNITS, UNITS, Service, service
from tests.rooms.operations.cluster import INSTANCE, STOCK, Cluster

pytestmark = pytest.mark.looptime


@pytest.fixture
async def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
async def api(cluster: Cluster) -> AsyncIterator[Service]:
    async with service(cluster) as served:
        yield served


def add_unit(cluster: Cluster, name: str, *, spec_name: str = "g1.1", tenant: str = "") -> None:
    marks = {labels.TENANT: tenant} if tenant else {}
    body = {
        "apiVersion": GPU_UNITS.api_version,
        "kind": "GPUUnit",
        "metadata": {"name": name, "labels": marks},
        "spec": {"specName": spec_name},
    }
    cluster.call("POST", GPU_UNITS.path(namespace=INSTANCE), body)


def remove_unit(cluster: Cluster, name: str) -> None:
    cluster.call("DELETE", GPU_UNITS.path(namespace=INSTANCE, name=name))


async def names(api: Service, query: str = "") -> list[str]:
    answer = await api.call("GET", f"{UNITS}{query}")
    return [unit["name"] for unit in answer.data]


async def test_units_come_sorted_by_name_in_pages_that_end(cluster: Cluster, api: Service) -> None:
    for number in (4, 1, 3, 0, 2):
        add_unit(cluster, f"u-{number}")
    await asyncio.sleep(1)
    seen, cursor = [], ""
    for _ in range(3):
        page = await api.call("GET", f"{UNITS}?limit=2{cursor}")
        seen.append([unit["name"] for unit in page.data])
        cursor = f"&cursor={page.body['next']}"
    assert seen == [["u-0", "u-1"], ["u-2", "u-3"], ["u-4"]]
    assert cursor == "&cursor="


async def test_a_page_that_takes_the_rest_exactly_is_the_last(
    cluster: Cluster, api: Service
) -> None:
    for number in range(2):
        add_unit(cluster, f"u-{number}")
    await asyncio.sleep(1)
    page = await api.call("GET", f"{UNITS}?limit=2")
    assert (len(page.data), page.body["next"]) == (2, "")


async def test_changes_between_pages_neither_hide_nor_repeat_other_units(
    cluster: Cluster, api: Service
) -> None:
    for number in range(6):
        add_unit(cluster, f"u-{number}")
    await asyncio.sleep(1)
    first = await api.call("GET", f"{UNITS}?limit=3")
    for name in ("u-0", "u-2", "u-4"):
        remove_unit(cluster, name)
    add_unit(cluster, "u-1a")
    add_unit(cluster, "u-3a")
    await asyncio.sleep(1)
    second = await api.call("GET", f"{UNITS}?limit=3&cursor={first.body['next']}")
    assert [unit["name"] for unit in second.data] == ["u-3", "u-3a", "u-5"]


async def test_filters_must_all_match(cluster: Cluster, api: Service) -> None:
    add_unit(cluster, "a", tenant="blue")
    add_unit(cluster, "b", tenant="blue", spec_name="g2")
    add_unit(cluster, "c", tenant="red")
    cluster.make_ready(INSTANCE, "a")
    await asyncio.sleep(1)
    assert await names(api, "?tenant=blue") == ["a", "b"]
    assert await names(api, "?tenant=blue&specName=g2") == ["b"]
    assert await names(api, "?phase=Ready") == ["a"]
    assert await names(api, "?phase=Progressing&tenant=red") == ["c"]
    assert await names(api, "?phase=Failed") == []


async def test_the_lifecycle_chooses_between_stock_and_units(
    cluster: Cluster, api: Service
) -> None:
    cluster.add_stock(1, pool="b")
    add_unit(cluster, "a")
    add_unit(cluster, "c")
    await asyncio.sleep(1)
    assert await names(api) == ["a", "c"]
    assert await names(api, "?lifecycle=stock") == ["b-1"]
    everything = await api.call("GET", f"{UNITS}?lifecycle=all")
    assert [(unit["name"], unit["lifecycle"]) for unit in everything.data] == [
        ("a", "instance"),
        ("b-1", "stock"),
        ("c", "instance"),
    ]


async def test_a_list_shows_the_present_state_of_a_unit(cluster: Cluster, api: Service) -> None:
    add_unit(cluster, "a")
    await asyncio.sleep(1)
    before = await api.call("GET", UNITS)
    cluster.make_ready(INSTANCE, "a")
    await asyncio.sleep(1)
    after = await api.call("GET", UNITS)
    assert [before.data[0]["phase"], after.data[0]["phase"]] == ["Progressing", "Ready"]
    assert after.data[0]["reason"] == "DeploymentReady"


async def test_a_list_shows_this_processs_own_change_at_once(
    cluster: Cluster, api: Service
) -> None:
    add_unit(cluster, "a")
    await asyncio.sleep(1)
    api.replica.transport.hold_watches()
    await api.call("PUT", f"{UNITS}/a", {"image": "new"})
    listed = await api.call("GET", UNITS)
    assert listed.data[0]["image"] == "new"
    api.replica.transport.release_watches()


async def test_pools_and_jobs_are_paged(cluster: Cluster, api: Service) -> None:
    for number in range(3):
        body = {"operationID": f"o-{number}", "specName": f"g{number}", "replicas": 1}
        await api.call("POST", STOCK_UNITS, body)
    assert len(cluster.objects(STOCK_POOLS, STOCK)) == 3
    for path, name in ((POOLS, "name"), (JOBS, "operationID")):
        first = await api.call("GET", f"{path}?limit=2")
        second = await api.call("GET", f"{path}?limit=2&cursor={first.body['next']}")
        seen = [each[name] for each in first.data + second.data]
        assert (len(seen), seen) == (3, sorted(seen))
        assert second.body["next"] == ""


async def test_a_cursor_of_another_list_is_refused(cluster: Cluster, api: Service) -> None:
    for number in range(2):
        add_unit(cluster, f"u-{number}")
    await asyncio.sleep(1)
    page = await api.call("GET", f"{UNITS}?limit=1")
    answer = await api.call("GET", f"{JOBS}?cursor={page.body['next']}")
    assert (answer.status, answer.fields) == (400, ["cursor"])
