"""Reports to operators: Events about our objects, and warnings when a leader starts."""

import pytest
from structlog.testing import capture_logs

from gpuruntime.models.kubernetes.cluster import EVENTS, PRIORITY_CLASSES
from gpuruntime.models.kubernetes.pods import PODS
from tests.eventually import equals
from tests.faults import refused
from tests.rooms.api.service import UNITS, service
from tests.rooms.operations.cluster import INSTANCE, STOCK, replica
from tests.rooms.reconcilers.world import (
    World,
    becomes,
    living,
    managing,
    phase_of,
    quiet,
    reason_of,
    until,
)

pytestmark = pytest.mark.looptime


def crashing(message: str) -> dict[str, object]:
    ended = {"exitCode": 1, "reason": "Error", "message": message}
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
    return {
        "name": "runtime",
        "ready": False,
        "restartCount": 3,
        "image": "python:3.12",
        "imageID": "",
        "state": waiting,
        "lastState": {"terminated": ended},
    }


async def test_a_units_progress_is_recorded_as_events_in_the_api() -> None:
    world = World()
    world.troubles["demo"] = crashing("no weights")
    async with living(world), managing(world), service(world) as api:
        world.add_pool(replicas=1, refill="Never")
        await until(lambda: phase_of(world.pool()), equals("Ready"))
        await quiet(world)
        await api.create("one", name="demo")
        await becomes(world, "demo", "Failed")
        del world.troubles["demo"]
        await becomes(world, "demo", "Ready")
        await quiet(world)
        answer = await api.call("GET", f"{UNITS}/demo/events")
    assert [(each["type"], each["reason"], each["message"]) for each in answer.data] == [
        (
            "Normal",
            "DeploymentReady",
            "the Pod is ready on node-1, in the place of stock runtime-stock/p-1",
        ),
        (
            "Warning",
            "PodStartupFailed",
            "unit-demo-1/runtime: CrashLoopBackOff: exit code 1: no weights",
        ),
    ]
    assert {each["component"] for each in answer.data} == {"gpuruntime-manager"}


async def test_a_repeated_event_is_counted_and_not_created_again() -> None:
    world = World()
    async with living(world), managing(world):
        world.add_unit("demo")
        for is_suspended in (False, True, False):
            world.change("demo", suspended=is_suspended)
            await becomes(world, "demo", "Suspended" if is_suspended else "Ready")
        await quiet(world)
    counts = {each["reason"]: each["count"] for each in world.objects(EVENTS, INSTANCE)}
    assert counts == {"DeploymentReady": 2, "ScaledToZero": 1}


async def test_a_pool_is_reported_once_however_many_claims_follow() -> None:
    world = World()
    async with living(world), managing(world), replica(world) as api:
        world.add_pool(replicas=2)
        await until(lambda: phase_of(world.pool()), equals("Ready"))
        assert (await api.create(name="demo")).startswith("201")
        await until(lambda: "p-3" in world.stock_names and len(world.stock_names) == 2)
        await quiet(world)
    assert world.told("p", STOCK) == ["StockSeeded: 2 units of g1.1 are made"]
    assert len(world.objects(EVENTS, STOCK)) == 1


async def test_events_that_cannot_be_sent_block_no_reconcile() -> None:
    world = World()

    async with (
        living(world),
        managing(
            world,
            prepare=lambda transport: transport.on(
                "POST", "/events", refused(503, "ServiceUnavailable"), times=10_000
            ),
        ),
    ):
        world.add_unit("demo")
        await becomes(world, "demo", "Ready", seconds=10)
        world.change("demo", suspended=True)
        await becomes(world, "demo", "Suspended", seconds=10)
    assert world.told("demo") == []


def add_priorities(world: World) -> None:
    for name, value in (("gpuruntime-stock", -10), ("gpuruntime-instance", 0)):
        body = {"metadata": {"name": name}, "value": value, "preemptionPolicy": "Never"}
        world.call("POST", PRIORITY_CLASSES.path(), body)


async def test_missing_priority_classes_are_logged_once_with_a_remedy() -> None:
    world = World()
    with capture_logs() as lines:
        async with living(world), managing(world):
            world.add_unit("demo")
            await becomes(world, "demo", "Ready")
    told = [line for line in lines if "PriorityClass" in line["event"]]
    assert len(told) == 1
    assert told[0]["log_level"] == "warning"
    assert told[0]["names"] == ["gpuruntime-stock", "gpuruntime-instance"]
    assert "manifests" in told[0]["remedy"]


async def test_existing_priority_classes_are_not_logged() -> None:
    world = World()
    add_priorities(world)
    with capture_logs() as lines:
        async with living(world), managing(world):
            world.add_unit("demo")
            await becomes(world, "demo", "Ready")
    assert not [line for line in lines if "PriorityClass" in line["event"]]
    (pod,) = world.objects(PODS, INSTANCE)
    assert pod["spec"]["priorityClassName"] == "gpuruntime-instance"


async def test_priority_classes_that_are_created_later_restart_nothing() -> None:
    world = World()
    async with living(world), managing(world):
        world.add_unit("old")
        await becomes(world, "old", "Ready")
        await quiet(world)
        before = len(world.ledger.done)
        add_priorities(world)
        await quiet(world, seconds=30.0)
        assert world.ledger.done[before:] == []
        world.add_unit("new")
        await becomes(world, "new", "Ready")
    async with managing(world):
        await quiet(world)
    assert reason_of(world.unit("old")) == "DeploymentReady"
    classes = {
        name: world.deployment(name)["spec"]["template"]["spec"].get("priorityClassName")
        for name in ("old", "new")
    }
    assert classes == {"old": None, "new": "gpuruntime-instance"}
