"""Ordered values compared with a dict that is sorted for each read."""

import asyncio
from random import Random

import pytest

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.pools import STOCK_POOLS
from gpuruntime.operations.lookup.ordering import Ordered
from tests.rooms.operations.cluster import STOCK, Cluster, Replica, replica


def test_values_are_sorted_by_place_from_any_place_on(rng: Random) -> None:
    ordered: Ordered[int] = Ordered()
    plain: dict[tuple[str, ...], int] = {}
    for number in range(2_000):
        place = (rng.choice("abcdef"), rng.choice("xyz"))
        if place in plain and rng.random() < 0.5:
            ordered.remove(place)
            del plain[place]
        else:
            ordered.put(place, number)
            plain[place] = number
        start = rng.choice(((), (place[0],), place))
        beyond = [each for each in sorted(plain) if not start or each[: len(start)] > start]
        assert list(ordered.after(start)) == [plain[each] for each in beyond]
        assert len(ordered) == len(plain)


def add_pool(cluster: Cluster, name: str, operation: str) -> None:
    body = {
        "apiVersion": STOCK_POOLS.api_version,
        "kind": "StockPool",
        "metadata": {"name": name, "annotations": {labels.OPERATION_ID: operation}},
        "spec": {"specName": "g1.1", "gpu": 1, "replicas": 1},
    }
    cluster.call("POST", STOCK_POOLS.path(namespace=STOCK), body)


def job_page(api: Replica, after: str = "") -> list[tuple[str, str]]:
    page = api.inventory.jobs.page(limit=1, after=after)
    return [(job.operationID, job.objectName) for job in page.jobs]


@pytest.mark.looptime
async def test_an_object_is_listed_at_its_current_place_until_it_is_deleted() -> None:
    cluster = Cluster()
    add_pool(cluster, "p", "b")
    async with replica(cluster) as api:
        assert job_page(api) == [("b", "p")]
        path = STOCK_POOLS.path(namespace=STOCK, name="p")
        cluster.call("PATCH", path, {"metadata": {"annotations": {labels.OPERATION_ID: "a"}}})
        await asyncio.sleep(1)
        assert (job_page(api), job_page(api, "a")) == ([("a", "p")], [])
        cluster.call("DELETE", path)
        await asyncio.sleep(1)
        assert job_page(api) == []


@pytest.mark.looptime
async def test_two_pools_of_one_operation_are_one_job_across_pages() -> None:
    cluster = Cluster()
    for name, operation in (("p", "a"), ("q", "a"), ("r", "b")):
        add_pool(cluster, name, operation)
    async with replica(cluster) as api:
        assert job_page(api) == [("a", "p")]
        assert job_page(api, "a") == [("b", "r")]
