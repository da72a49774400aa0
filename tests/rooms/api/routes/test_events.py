"""Events of a unit and its Pods: newest first, in stable pages."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from gpuruntime.models.kinds import labels
from gpuruntime.models.kubernetes.cluster import EVENTS
from gpuruntime.models.kubernetes.pods import PODS
from gpuruntime.models.kubernetes.timestamps import rfc3339
from tests.rooms.api.service import UNITS, Service, service
from tests.rooms.operations.cluster import INSTANCE, START, Cluster

pytestmark = pytest.mark.looptime


@pytest.fixture
async def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
async def api(cluster: Cluster) -> AsyncIterator[Service]:
    cluster.add_stock(2)
    async with service(cluster) as served:
        await served.create("one", name="demo")
        await served.create("two", name="other")
        yield served


def uid_of(cluster: Cluster, name: str) -> str:
    uids = {unit["metadata"]["name"]: str(unit["metadata"]["uid"]) for unit in cluster.units}
    return uids[name]


def add_event(
    cluster: Cluster, name: str, uid: str, *, seconds: float, kind: str = "GPUUnit", **rest: Any
) -> None:
    moment: datetime = START + timedelta(seconds=seconds)
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name},
        "involvedObject": {"kind": kind, "namespace": INSTANCE, "name": "demo", "uid": uid},
        "type": "Normal",
        "reason": name.title(),
        "message": "so it was",
        "source": {"component": "gpuruntime"},
        "count": 1,
        "firstTimestamp": rfc3339(moment),
        "lastTimestamp": rfc3339(moment),
        **rest,
    }
    cluster.call("POST", EVENTS.path(namespace=INSTANCE), body)


def add_pod(cluster: Cluster, name: str, unit: str) -> str:
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {labels.UNIT: unit}},
        "spec": {"containers": [{"name": "runtime", "image": "x"}]},
    }
    made = cluster.call("POST", PODS.path(namespace=INSTANCE), body)
    uid: str = made["metadata"]["uid"]
    return uid


async def reasons(api: Service, query: str = "") -> list[str]:
    answer = await api.call("GET", f"{UNITS}/demo/events{query}")
    return [event["reason"] for event in answer.data]


async def test_events_come_newest_first_and_only_of_the_unit(
    cluster: Cluster, api: Service
) -> None:
    uid = uid_of(cluster, "demo")
    add_event(cluster, "first", uid, seconds=1)
    add_event(cluster, "last", uid, seconds=9, type="Warning", count=3)
    add_event(cluster, "foreign", uid_of(cluster, "other"), seconds=5)
    add_event(cluster, "former", "a-unit-of-that-name-before", seconds=5)
    answer = await api.call("GET", f"{UNITS}/demo/events")
    assert [event["reason"] for event in answer.data] == ["Last", "First"]
    assert answer.data[0] == {
        "type": "Warning",
        "reason": "Last",
        "message": "so it was",
        "objectKind": "GPUUnit",
        "objectName": "demo",
        "component": "gpuruntime",
        "count": 3,
        "firstSeenAt": "2025-01-01T00:00:09Z",
        "lastSeenAt": "2025-01-01T00:00:09Z",
    }


async def test_events_of_the_units_pods_are_included(cluster: Cluster, api: Service) -> None:
    add_event(cluster, "made", uid_of(cluster, "demo"), seconds=1)
    add_event(cluster, "pulled", add_pod(cluster, "a", "demo"), seconds=2, kind="Pod")
    add_event(cluster, "foreign", add_pod(cluster, "b", "other"), seconds=3, kind="Pod")
    assert await reasons(api) == ["Pulled", "Made"]


async def test_pages_of_events_go_on_where_they_ended(cluster: Cluster, api: Service) -> None:
    uid = uid_of(cluster, "demo")
    for number in range(4):
        add_event(cluster, f"e{number}", uid, seconds=number // 2)
    first = await api.call("GET", f"{UNITS}/demo/events?limit=3")
    assert [event["reason"] for event in first.data] == ["E3", "E2", "E1"]
    add_event(cluster, "new", uid, seconds=60)
    assert await reasons(api, f"?limit=3&cursor={first.body['next']}") == ["E0"]


async def test_the_events_of_a_missing_unit_are_404(api: Service) -> None:
    answer = await api.call("GET", f"{UNITS}/nobody/events")
    assert (answer.status, answer.code) == (404, "gpuunit_not_found")


async def test_events_that_cannot_be_read_now_are_503(api: Service) -> None:
    api.replica.transport.cut()
    answer = await api.call("GET", f"{UNITS}/demo/events")
    assert (answer.status, answer.code) == (503, "service_unavailable")
