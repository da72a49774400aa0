"""The scheduler: GPUs, messages of waiting Pods, and preemption."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.proofs.conformance.calls import Api, Document
from tests.proofs.conformance.objects import (
    EVENTS,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    named,
    node,
    on,
    pod,
)

pytestmark = pytest.mark.usefixtures("controllers")


@pytest_asyncio.fixture
async def small(api: Api, unique: str) -> AsyncIterator[str]:
    """Create a node with two GPUs that only Pods of this test can use."""
    (await api.post(NODES.path(), node(unique, gpus=2))).ok(201)
    await api.settled(NODES.path(name=unique), lambda one: one["status"].get("allocatable"))
    yield unique
    await api.delete(NODES.path(name=unique))


@pytest.fixture
def pods(namespace: str) -> str:
    return PODS.path(namespace=namespace)


async def made(api: Api, pods: str, name: str, small: str, **spec: Any) -> Document:
    body = pod(name, **{"terminationGracePeriodSeconds": 0, **on(small), **spec})
    return await api.admit(pods, body)


def scheduled(seen: Document) -> Document:
    """Return the condition PodScheduled, or nothing yet."""
    conditions = seen.get("status", {}).get("conditions", [])
    return next((one for one in conditions if one["type"] == "PodScheduled"), {})


def is_running(seen: Document) -> bool:
    return bool(seen["status"]["phase"] == "Running")


def is_refused(seen: Document) -> bool:
    return scheduled(seen).get("status") == "False"


async def test_a_pod_that_fits_runs_on_its_node(api: Api, pods: str, small: str) -> None:
    await made(api, pods, "p", small, gpus=2)
    seen = await api.settled(f"{pods}/p", is_running)
    assert seen["spec"]["nodeName"] == small
    assert scheduled(seen)["status"] == "True"


async def test_a_pod_without_a_free_gpu_waits_and_reports_why(
    api: Api, pods: str, small: str
) -> None:
    await made(api, pods, "first", small, gpus=2)
    await api.settled(f"{pods}/first", is_running)
    await made(api, pods, "second", small, gpus=1)
    seen = await api.settled(f"{pods}/second", is_refused)
    assert scheduled(seen)["reason"] == "Unschedulable"
    message = scheduled(seen)["message"]
    assert " nodes are available: " in message
    assert "1 Insufficient nvidia.com/gpu" in message
    assert "node(s) didn't match Pod's node affinity/selector" in message
    assert seen["status"]["phase"] == "Pending"
    assert "nodeName" not in seen["spec"]


async def test_a_freed_gpu_is_given_to_a_waiting_pod(api: Api, pods: str, small: str) -> None:
    await made(api, pods, "first", small, gpus=2)
    await api.settled(f"{pods}/first", is_running)
    await made(api, pods, "second", small, gpus=2)
    await api.settled(f"{pods}/second", is_refused)
    (await api.delete(f"{pods}/first")).ok(200)
    await api.settled(f"{pods}/second", is_running)


async def test_a_new_node_lets_a_waiting_pod_run(api: Api, pods: str, unique: str) -> None:
    other = f"{unique}-other"
    await made(api, pods, "p", other, gpus=1)
    await api.settled(f"{pods}/p", is_refused)
    (await api.post(NODES.path(), node(other, gpus=1))).ok(201)
    await api.settled(f"{pods}/p", is_running)
    (await api.delete(NODES.path(name=other))).ok(200)


async def test_cpu_is_counted_too(api: Api, pods: str, small: str) -> None:
    hungry = {"name": "main", "image": "m", "resources": {"requests": {"cpu": "7.5"}}}
    await made(api, pods, "first", small, containers=[hungry])
    await api.settled(f"{pods}/first", is_running)
    await made(api, pods, "second", small, containers=[hungry])
    seen = await api.settled(f"{pods}/second", is_refused)
    assert "1 Insufficient cpu" in scheduled(seen)["message"]


async def test_finished_pods_hold_no_resources(api: Api, pods: str, small: str) -> None:
    await made(api, pods, "first", small, gpus=2)
    await api.settled(f"{pods}/first", is_running)
    (await api.patch(f"{pods}/first/status", {"status": {"phase": "Succeeded"}})).ok(200)
    await made(api, pods, "second", small, gpus=2)
    await api.settled(f"{pods}/second", is_running)


async def test_a_taint_repels_pods_that_do_not_tolerate_it(
    api: Api, pods: str, small: str
) -> None:
    await made(api, pods, "p", small, tolerations=[])
    seen = await api.settled(f"{pods}/p", is_refused)
    assert "untolerated taint" in scheduled(seen)["message"]


async def test_a_cordoned_node_takes_no_pods(api: Api, pods: str, small: str) -> None:
    path = NODES.path(name=small)
    (await api.patch(path, {"spec": {"unschedulable": True}})).ok(200)
    await made(api, pods, "p", small)
    seen = await api.settled(f"{pods}/p", is_refused)
    assert "node(s) were unschedulable" in scheduled(seen)["message"]
    (await api.patch(path, {"spec": {"unschedulable": None}})).ok(200)
    await api.settled(f"{pods}/p", is_running)


async def test_a_preferred_node_is_chosen_while_it_has_room(
    api: Api, pods: str, small: str, unique: str
) -> None:
    other = f"{unique}-preferred"
    (await api.post(NODES.path(), node(other, gpus=1))).ok(201)
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [other]}
    either = {**expression, "values": [small, other]}
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [either]}]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 100, "preference": {"matchExpressions": [expression]}}
            ],
        }
    }
    free = {"nodeSelector": {}, "affinity": affinity, "gpus": 1}
    await made(api, pods, "first", small, **free)
    assert (await api.settled(f"{pods}/first", is_running))["spec"]["nodeName"] == other
    await made(api, pods, "second", small, **free)
    assert (await api.settled(f"{pods}/second", is_running))["spec"]["nodeName"] == small
    (await api.delete(NODES.path(name=other))).ok(200)


async def test_events_record_what_the_scheduler_did(
    api: Api, pods: str, small: str, namespace: str
) -> None:
    await made(api, pods, "p", small, gpus=3)
    await api.settled(f"{pods}/p", is_refused)

    async def reasons() -> set[str]:
        query = {"fieldSelector": "involvedObject.name=p"}
        found = (await api.get(EVENTS.path(namespace=namespace), **query)).ok()["items"]
        return {one["reason"] for one in found}

    await api.until(reasons, lambda seen: "FailedScheduling" in seen)


async def test_a_bound_pod_cannot_move(api: Api, pods: str, small: str) -> None:
    await made(api, pods, "p", small)
    await api.settled(f"{pods}/p", is_running)
    answer = await api.patch(f"{pods}/p", {"spec": {"nodeName": "elsewhere"}})
    assert answer.causes == {("spec", "FieldValueForbidden")}


@pytest_asyncio.fixture
async def classes(api: Api, unique: str) -> dict[str, str]:
    """Create classes below and above the default of 0, and one above that never preempts."""
    wanted = {"low": (-10, "Never"), "high": (10, "PreemptLowerPriority"), "polite": (10, "Never")}
    for name, (value, policy) in wanted.items():
        body = named(PRIORITY_CLASSES, f"{unique}-{name}", value=value, preemptionPolicy=policy)
        (await api.post(PRIORITY_CLASSES.path(), body)).ok(201)
    return {name: f"{unique}-{name}" for name in wanted}


async def test_a_pod_gets_its_priority_from_its_class(
    api: Api, pods: str, classes: dict[str, str]
) -> None:
    made_pod = await api.admit(pods, pod("p", priorityClassName=classes["low"]))
    assert made_pod["spec"]["priority"] == -10
    assert made_pod["spec"]["preemptionPolicy"] == "Never"


async def test_a_pod_without_a_class_has_the_priority_zero(api: Api, pods: str) -> None:
    made_pod = await api.admit(pods, pod("p"))
    assert made_pod["spec"]["priority"] == 0
    assert made_pod["spec"]["preemptionPolicy"] == "PreemptLowerPriority"


async def test_an_absent_priority_class_is_forbidden(api: Api, pods: str) -> None:
    await api.admit(pods, pod("p"))
    answer = await api.post(pods, pod("q", priorityClassName="nobody"))
    assert answer.refusal == (403, "Forbidden")
    assert "no PriorityClass with name nobody was found" in answer.body["message"]


async def test_a_priority_cannot_be_set_directly(api: Api, pods: str) -> None:
    await api.admit(pods, pod("p"))
    answer = await api.post(pods, pod("q", priority=1000))
    assert answer.refusal == (403, "Forbidden")


async def test_the_value_of_a_class_cannot_change(api: Api, classes: dict[str, str]) -> None:
    path = PRIORITY_CLASSES.path(name=classes["low"])
    answer = await api.patch(path, {"value": 5})
    assert answer.causes == {("value", "FieldValueForbidden")}


async def test_a_pod_of_higher_priority_replaces_one_of_lower_priority(
    api: Api, pods: str, small: str, classes: dict[str, str]
) -> None:
    await made(api, pods, "low", small, gpus=2, priorityClassName=classes["low"])
    await api.settled(f"{pods}/low", is_running)
    await made(api, pods, "high", small, gpus=2, priorityClassName=classes["high"])
    await api.settled(f"{pods}/high", is_running)
    await api.gone(f"{pods}/low")


async def test_no_more_pods_are_preempted_than_necessary(
    api: Api, pods: str, small: str, classes: dict[str, str]
) -> None:
    for name in ("one", "two"):
        await made(api, pods, name, small, gpus=1, priorityClassName=classes["low"])
        await api.settled(f"{pods}/{name}", is_running)
    await made(api, pods, "high", small, gpus=1, priorityClassName=classes["high"])
    await api.settled(f"{pods}/high", is_running)
    left = [one["metadata"]["name"] for one in (await api.get(pods)).ok()["items"]]
    assert len(left) == 2
    assert "high" in left


async def first_value(api: Api, pods: str, version: str, name: str, member: Any) -> Any:
    """Return the first value of this member of the status; a preempted Pod is soon gone."""
    selector = f"metadata.name={name}"
    async with api.watch(pods, resourceVersion=version, fieldSelector=selector) as watch:
        while event := await watch.next():
            if found := member(event.object["status"]):
                return found
    raise AssertionError(f"{name} was deleted without a value")


def disruption(status: Document) -> Document | None:
    found = status.get("conditions") or []
    return next((one for one in found if one["type"] == "DisruptionTarget"), None)


async def test_a_preempted_pod_reports_why_and_its_successor_the_node(
    api: Api, pods: str, small: str, classes: dict[str, str]
) -> None:
    await made(api, pods, "low", small, gpus=2, priorityClassName=classes["low"])
    await api.settled(f"{pods}/low", is_running)
    version = (await api.get(pods)).ok()["metadata"]["resourceVersion"]
    await made(api, pods, "high", small, gpus=2, priorityClassName=classes["high"])
    condition = await first_value(api, pods, version, "low", disruption)
    assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")
    nominated = await first_value(
        api, pods, version, "high", lambda seen: seen.get("nominatedNodeName")
    )
    assert nominated == small


@pytest.mark.parametrize("priority", ["polite", "same"])
async def test_a_pod_of_equal_priority_or_without_preemption_preempts_none(
    api: Api, pods: str, small: str, classes: dict[str, str], priority: str
) -> None:
    await made(api, pods, "first", small, gpus=2)
    await api.settled(f"{pods}/first", is_running)
    spec = {"priorityClassName": classes["polite"]} if priority == "polite" else {}
    await made(api, pods, "second", small, gpus=2, **spec)
    await api.settled(f"{pods}/second", is_refused)
    assert is_running((await api.get(f"{pods}/first")).ok(200))


async def test_of_two_waiting_pods_the_more_important_gets_the_freed_gpu(
    api: Api, pods: str, small: str, classes: dict[str, str]
) -> None:
    await made(api, pods, "first", small, gpus=2, priorityClassName=classes["polite"])
    await api.settled(f"{pods}/first", is_running)
    await made(api, pods, "low", small, gpus=2, priorityClassName=classes["low"])
    await made(api, pods, "high", small, gpus=2)
    for name in ("low", "high"):
        await api.settled(f"{pods}/{name}", is_refused)
    (await api.delete(f"{pods}/first")).ok(200)
    await api.settled(f"{pods}/high", is_running)
    assert (await api.get(f"{pods}/low")).ok()["status"]["phase"] == "Pending"
