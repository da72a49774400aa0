"""Units that declare functions: they run no Pod, and report whether they can be called."""

from typing import Any

import attrs
import pytest

from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.network import NETWORK_POLICIES, SERVICES
from gpuruntime.models.kubernetes.pods import PODS
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from gpuruntime.reconcilers.options import SidecarOptions
from tests.eventually import equals
from tests.options import configured
from tests.rooms.operations.cluster import INSTANCE
from tests.rooms.reconcilers.world import (
    OPTIONS,
    World,
    becomes,
    living,
    managing,
    message_of,
    phase_of,
    quiet,
    reason_of,
    until,
)

pytestmark = pytest.mark.looptime

SERVING: dict[str, Any] = {"template": {"ports": [{"name": "http", "port": 80}]}}
FUNCTION: dict[str, Any] = {"serverless": {"requestID": "echo"}}
FUNCTIONS = attrs.evolve(
    OPTIONS, sidecar=configured(SidecarOptions, broker_url="nats://nats:4222")
)


def children(world: World) -> list[str]:
    kinds = (DEPLOYMENTS, SERVICES, NETWORK_POLICIES, PODS)
    return [name for kind in kinds for name in world.names(kind, INSTANCE)]


def workers_of(world: World, name: str) -> Condition:
    (found,) = (
        Condition(**{**each, "lastTransitionTime": None})
        for each in world.unit(name)["status"]["conditions"]
        if each["type"] == "ServerlessReady"
    )
    return found


def scale(world: World, name: str, **told: Any) -> None:
    """Write the status as the activator does."""
    path = GPU_UNITS.path(namespace=INSTANCE, name=name, subresource="status")
    world.call("PATCH", path, {"status": {"serverless": told}})


async def test_a_function_is_ready_without_a_pod() -> None:
    world = World()
    async with living(world), managing(world, options=FUNCTIONS):
        world.add_unit("demo", **SERVING, **FUNCTION)
        await becomes(world, "demo", "Ready")
        await quiet(world)
        assert children(world) == []
        status = world.unit("demo")["status"]
        assert reason_of(world.unit("demo")) == "FunctionDeclared"
        assert (status["readyReplicas"], status["accessURL"], status["serviceName"]) == (0, "", "")


async def test_without_a_broker_a_function_names_the_missing_configuration() -> None:
    world = World()
    async with living(world), managing(world):
        world.add_unit("demo", **FUNCTION)
        await becomes(world, "demo", "Progressing")
        assert reason_of(world.unit("demo")) == "QueueUnknown"
        assert "nats.url is empty in the manager's configuration" in message_of(world.unit("demo"))


async def test_a_running_unit_that_becomes_a_function_gives_up_its_children() -> None:
    world = World()
    async with living(world), managing(world, options=FUNCTIONS):
        world.add_unit("demo", **SERVING)
        await becomes(world, "demo", "Ready")
        before = children(world)
        world.change("demo", **FUNCTION)
        await until(lambda: reason_of(world.unit("demo")), equals("FunctionDeclared"))
        assert world.unit("demo")["status"]["accessURL"] == ""
        await until(lambda: children(world), equals([]))
        world.change("demo", serverless=None)
        await until(lambda: reason_of(world.unit("demo")), equals("DeploymentReady"))
        assert len(children(world)) == len(before)
        types = [each["type"] for each in world.unit("demo")["status"]["conditions"]]
        assert types == ["Ready"]


async def test_the_younger_declarer_names_the_older_one_and_is_ready_after_it_is_deleted() -> None:
    world = World()
    async with living(world), managing(world, options=FUNCTIONS):
        world.add_unit("elder", **FUNCTION)
        await becomes(world, "elder", "Ready")
        world.add_unit("younger", **SERVING)
        await becomes(world, "younger", "Ready")
        world.change("younger", **FUNCTION)
        await becomes(world, "younger", "Failed")
        assert reason_of(world.unit("younger")) == "ServerlessConfigInvalid"
        assert "belongs to unit elder" in message_of(world.unit("younger"))
        assert phase_of(world.unit("elder")) == "Ready"
        await until(lambda: children(world), equals([]))
        world.delete(GPU_UNITS, INSTANCE, "elder")
        await becomes(world, "younger", "Ready", seconds=2.0)


async def test_the_younger_declarer_is_ready_after_the_older_one_changes_its_function() -> None:
    world = World()
    async with living(world), managing(world, options=FUNCTIONS):
        world.add_unit("elder", **FUNCTION)
        world.add_unit("younger", **FUNCTION)
        await until(lambda: {phase_of(each) for each in world.units}, equals({"Ready", "Failed"}))
        (owner,) = (each for each in world.units if phase_of(each) == "Ready")
        world.change(owner["metadata"]["name"], serverless={"requestID": "other"})
        await until(
            lambda: {phase_of(each) for each in world.units}, equals({"Ready"}), seconds=2.0
        )


async def test_the_activators_status_is_kept_and_judged() -> None:
    world = World()
    async with living(world), managing(world, options=FUNCTIONS):
        world.add_unit("demo", **FUNCTION)
        await becomes(world, "demo", "Ready")
        assert workers_of(world, "demo").reason == "NotScaledYet"
        scale(world, "demo", desiredWorkers=2, readyWorkers=1, reason="insufficient_capacity")
        await until(
            lambda: workers_of(world, "demo").reason, equals("WorkersMissing"), seconds=2.0
        )
        assert workers_of(world, "demo").message == "insufficient_capacity"
        scale(world, "demo", readyWorkers=2, reason="")
        await until(lambda: workers_of(world, "demo").status, equals("True"), seconds=2.0)
        world.change("demo", suspended=True)
        await becomes(world, "demo", "Suspended")
        told = world.unit("demo")["status"]["serverless"]
        assert (told["desiredWorkers"], told["readyWorkers"]) == (2, 2)


async def test_changed_numbers_alone_cause_no_write_of_the_manager() -> None:
    world = World()
    async with living(world), managing(world, options=FUNCTIONS):
        world.add_unit("demo", **FUNCTION)
        scale(world, "demo", desiredWorkers=1, readyWorkers=1)
        await until(lambda: phase_of(world.unit("demo")), equals("Ready"))
        await quiet(world)
        before = len(world.ledger.done)
        scale(world, "demo", desiredWorkers=4, readyWorkers=4, depth=9)
        await quiet(world)
        assert len(world.ledger.done) == before
