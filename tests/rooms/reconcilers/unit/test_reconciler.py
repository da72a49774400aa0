"""Units of both namespaces on the embedded server, with real caches and queues."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from operator import not_
from typing import Any

import attrs
import pytest

from gpuruntime.models.kinds.activity import GATEWAY_APP
from gpuruntime.models.kinds.labels import APP_NAME
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.network import NETWORK_POLICIES, SERVICES
from gpuruntime.models.kubernetes.pods import PODS
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from gpuruntime.reconcilers.activity.reader import ActivityOptions, Fetch
from gpuruntime.tickets.addresses import parse_public_url, slug_of
from tests.eventually import equals
from tests.faults import Fault, refused
from tests.rooms.operations.cluster import INSTANCE, SYSTEM
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


async def test_a_unit_starts_and_becomes_ready() -> None:
    world = World()
    async with living(world), managing(world):
        world.add_unit("demo")
        await until(lambda: phase_of(world.unit("demo")), equals("Ready"))


async def test_a_unit_takes_its_own_stock_again_after_its_claim_was_cleared() -> None:
    """No other unit may claim stock that a unit names, so it would wait for ever."""
    world = World()
    async with living(world), managing(world):
        world.add_pool(replicas=1, refill="Never")
        await until(lambda: phase_of(world.pool()), equals("Ready"))
        source = world.stock("p-1")["spec"]
        envelope = {name: source[name] for name in ("cpu", "memory", "gpu")}
        marks = world.provenance("p-1", operation="late")
        world.add_unit("demo", annotations=marks, **envelope)
        await until(lambda: phase_of(world.unit("demo")), equals("Ready"))
        await until(lambda: world.stock_names, not_)


async def test_another_owners_deployment_is_left_alone_and_named_until_it_is_deleted() -> None:
    world = World()
    async with living(world), managing(world):
        body = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "unit-demo", "labels": {"app.kubernetes.io/managed-by": "x"}},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": {"a": "b"}},
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"containers": [{"name": "x", "image": "x"}]},
                },
            },
        }
        world.call("POST", "/apis/apps/v1/namespaces/runtime-instance/deployments", body)
        world.add_unit("demo")
        await until(lambda: reason_of(world.unit("demo")), equals("DeploymentSyncFailed"))
        assert "has no owner: it is left as it is" in message_of(world.unit("demo"))
        assert world.deployment("demo")["metadata"]["labels"] == body["metadata"]["labels"]  # type: ignore[index]  # JSON

        world.call("DELETE", "/apis/apps/v1/namespaces/runtime-instance/deployments/unit-demo")
        await until(lambda: phase_of(world.unit("demo")), equals("Ready"))


async def test_another_owners_service_is_left_alone_and_named() -> None:
    world = World()
    async with living(world), managing(world):
        foreign = {
            "metadata": {
                "name": "unit-demo",
                "labels": {"app.kubernetes.io/managed-by": "gpuruntime"},
                "ownerReferences": [
                    {
                        "apiVersion": "v1",
                        "kind": "Thing",
                        "name": "anvil",
                        "uid": "u",
                        "controller": True,
                    }
                ],
            },
            "spec": {"ports": [{"port": 1}]},
        }
        made = world.call("POST", SERVICES.path(namespace=INSTANCE), foreign)
        world.add_unit("demo", **SERVING)
        await until(lambda: reason_of(world.unit("demo")), equals("ServiceSyncFailed"))
        assert "belongs to Thing anvil" in message_of(world.unit("demo"))
        (kept,) = world.objects(SERVICES, INSTANCE)
        assert kept["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
        assert world.objects(DEPLOYMENTS, INSTANCE) == []
        world.delete(SERVICES, INSTANCE, "unit-demo")
        await becomes(world, "demo", "Ready", seconds=90)


async def test_a_suspended_unit_runs_no_pod_and_keeps_its_address_until_it_resumes() -> None:
    world = World()
    async with living(world), managing(world):
        world.add_unit("demo", **SERVING)
        await becomes(world, "demo", "Ready")
        address = world.unit("demo")["status"]["accessURL"]
        world.change("demo", suspended=True)
        await becomes(world, "demo", "Suspended")
        status = world.unit("demo")["status"]
        assert world.objects(PODS, INSTANCE) == []
        assert (status["readyReplicas"], status.get("nodeName", "")) == (0, "")
        assert status["accessURL"] == address
        world.change("demo", suspended=False)
        await becomes(world, "demo", "Ready")


async def test_a_change_of_tickets_keys_or_wake_restarts_nothing() -> None:
    world = World()
    async with living(world), managing(world):
        world.add_unit("demo", **SERVING)
        await becomes(world, "demo", "Ready")
        (pod,) = world.objects(PODS, INSTANCE)
        template = world.deployment("demo")["spec"]
        access = {"generation": 1, "wake": True, "sshKeys": ["ssh-ed25519 AAAA me"]}
        asked = world.change("demo", access=access)["metadata"]["generation"]
        await until(lambda: world.unit("demo")["status"]["observedGeneration"], equals(asked))
        await quiet(world)
        assert world.objects(PODS, INSTANCE) == [pod]
        assert world.deployment("demo")["spec"] == template
        assert phase_of(world.unit("demo")) == "Ready"


async def test_the_urls_at_a_gateway_follow_the_ports_and_cost_no_write_of_their_own() -> None:
    world = World()
    options = attrs.evolve(OPTIONS, public_address=parse_public_url("https://*.example.com"))
    async with living(world), managing(world, options=options):
        world.add_unit("demo", **SERVING)
        await becomes(world, "demo", "Ready")
        writes = [each for each in world.ledger.done if each.endswith("/demo/status")]
        slug = slug_of("demo", world.unit("demo")["metadata"]["uid"])
        told = world.unit("demo")["status"]["access"]
        assert told == {"slug": slug, "urls": {"http": f"https://80--{slug}.example.com"}}
        world.change("demo", template={"ports": [{"name": "web", "port": 81}]})
        await until(
            lambda: world.unit("demo")["status"]["access"].get("urls"),
            equals({"web": f"https://81--{slug}.example.com"}),
        )
        world.change("demo", template={"ports": []})
        await until(lambda: world.unit("demo")["status"]["access"].get("urls", {}), equals({}))
        await becomes(world, "demo", "Ready")
        await quiet(world)
    async with living(other := World()), managing(other):
        other.add_unit("demo", **SERVING)
        await becomes(other, "demo", "Ready")
        plain = [each for each in other.ledger.done if each.endswith("/demo/status")]
        assert len(writes) == len(plain)
        assert not other.unit("demo")["status"].get("access", {}).get("slug")


@asynccontextmanager
async def answering() -> AsyncIterator[Fetch]:
    async def fetch(_: str) -> bytes:
        return b'{"boot": "b", "since": 1.0, "now": 2.0}'

    yield fetch


def set_gateway_ready(world: World, *, is_ready: bool) -> None:
    path = PODS.path(namespace=SYSTEM, name="gateway", subresource="status")
    condition = {"type": "Ready", "status": str(is_ready)}
    status = {"phase": "Running", "podIP": "10.0.0.1", "conditions": [condition]}
    world.call("PATCH", path, {"status": status})


async def test_the_gateways_readiness_is_one_write_for_each_unit_and_none_at_rest() -> None:
    world = World()
    body = {
        "metadata": {"name": "gateway", "labels": {APP_NAME: GATEWAY_APP}},
        "spec": {"nodeName": "n", "containers": [{"name": "gateway", "image": "i"}]},
    }
    world.call("POST", PODS.path(namespace=SYSTEM), body)
    set_gateway_ready(world, is_ready=True)
    options = attrs.evolve(OPTIONS, public_address=parse_public_url("https://*.example.com"))
    activity = ActivityOptions(namespace=SYSTEM, every_seconds=30.0, fetching=answering)

    def told() -> object:
        return world.unit("demo")["status"]["access"].get("gatewayReady")

    async with living(world), managing(world, options=options, activity=activity):
        world.add_unit("demo", **SERVING)
        await becomes(world, "demo", "Ready")
        assert told() is True
        await asyncio.sleep(60)
        written = len(world.ledger.done)
        await asyncio.sleep(600)
        assert world.ledger.done[written:] == []
        set_gateway_ready(world, is_ready=False)
        await asyncio.sleep(600)
        assert told() is False
        assert [each.endswith("/demo/status") for each in world.ledger.done[written:]] == [True]
    async with living(world), managing(world, options=options):
        await asyncio.sleep(5)
        assert told() is False
    async with living(world), managing(world):
        await until(
            lambda: "gatewayReady" in world.unit("demo")["status"]["access"], equals(False)
        )


async def test_deleted_children_are_created_again() -> None:
    world = World()
    async with living(world), managing(world):
        world.add_unit("demo", **SERVING)
        await becomes(world, "demo", "Ready")
        before = uids(world)
        for resource in (SERVICES, DEPLOYMENTS):
            world.delete(resource, INSTANCE, "unit-demo")
        await until(lambda: len(uids(world) - before), equals(2))
        await becomes(world, "demo", "Ready")


def uids(world: World) -> set[str]:
    return {
        each["metadata"]["uid"]
        for resource in (SERVICES, DEPLOYMENTS)
        for each in world.objects(resource, INSTANCE)
    }


async def test_edited_children_are_restored() -> None:
    world = World()
    async with living(world), managing(world):
        world.add_unit("demo", **SERVING)
        await becomes(world, "demo", "Ready")
        edits: list[tuple[Any, Any]] = [
            (DEPLOYMENTS, {"replicas": 3}),
            (SERVICES, {"ports": [{"name": "http", "port": 81, "targetPort": 81}]}),
        ]
        for resource, spec in edits:
            path = resource.path(namespace=INSTANCE, name="unit-demo")
            world.call("PATCH", path, {"spec": spec})
        await quiet(world)
        assert world.deployment("demo")["spec"]["replicas"] == 1
        (service,) = world.objects(SERVICES, INSTANCE)
        assert service["spec"]["ports"][0]["port"] == 80


async def test_members_that_others_add_to_a_child_stay() -> None:
    world = World()
    async with living(world), managing(world):
        world.add_unit("demo")
        await becomes(world, "demo", "Ready")
        path = DEPLOYMENTS.path(namespace=INSTANCE, name="unit-demo")
        world.call("PATCH", path, {"metadata": {"annotations": {"team": "x"}}})
        await quiet(world)
        assert world.deployment("demo")["metadata"]["annotations"]["team"] == "x"


async def test_a_service_is_deleted_with_the_last_port() -> None:
    world = World()
    async with living(world), managing(world):
        world.add_unit("demo", **SERVING)
        await becomes(world, "demo", "Ready")
        world.change("demo", template={"ports": []})
        await until(lambda: world.objects(SERVICES, INSTANCE), equals([]))
        await until(lambda: world.unit("demo")["status"].get("accessURL", ""), equals(""))
        await becomes(world, "demo", "Ready")


async def test_a_bad_quantity_is_reported_with_its_field_until_it_is_corrected() -> None:
    world = World()
    async with living(world), managing(world):
        world.add_unit("demo", memory="not-a-quantity", cpu="-1")
        await becomes(world, "demo", "Failed")
        assert reason_of(world.unit("demo")) == "InvalidSpec"
        assert message_of(world.unit("demo")).startswith("spec.cpu: ")
        assert "spec.memory: quantity 'not-a-quantity'" in message_of(world.unit("demo"))
        assert world.objects(DEPLOYMENTS, INSTANCE) == []
        before = len(world.ledger.done)
        await asyncio.sleep(120)
        assert world.ledger.done[before:] == []
        world.change("demo", memory="1Gi", cpu="1")
        await becomes(world, "demo", "Ready", seconds=10)


async def test_ready_has_a_crash_loops_last_message_until_the_pod_lasts() -> None:
    world = World()
    ended = {"exitCode": 3, "reason": "Error", "message": "no weights in /data"}
    world.troubles["demo"] = {
        "name": "runtime",
        "ready": False,
        "restartCount": 2,
        "image": "python:3.12",
        "imageID": "",
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s"}},
        "lastState": {"terminated": ended},
    }
    async with living(world), managing(world):
        world.add_unit("demo")
        await becomes(world, "demo", "Failed")
        assert reason_of(world.unit("demo")) == "PodStartupFailed"
        assert message_of(world.unit("demo")) == (
            "unit-demo-1/runtime: CrashLoopBackOff: exit code 3: no weights in /data"
        )
        del world.troubles["demo"]
        world.change("demo", image="fixed")
        await becomes(world, "demo", "Ready")


async def test_an_unschedulable_pod_is_reported_with_the_schedulers_message() -> None:
    world = World()
    world.unschedulable["demo"] = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu"
    async with living(world), managing(world):
        world.add_unit("demo")
        await until(lambda: reason_of(world.unit("demo")), equals("PodUnschedulable"))
        assert message_of(world.unit("demo")) == (
            "unit-demo-1: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu"
        )
        assert phase_of(world.unit("demo")) == "Progressing"
        del world.unschedulable["demo"]
        await becomes(world, "demo", "Ready")


async def test_units_with_the_same_long_beginning_are_served_separately() -> None:
    world = World()
    names = ["a" * 58 + end for end in ("-one", "-two")]
    async with living(world), managing(world):
        for name in names:
            world.add_unit(name, **SERVING)
        for name in names:
            await becomes(world, name, "Ready")
    addresses = {world.unit(name)["status"]["accessURL"] for name in names}
    assert len(addresses) == 2
    assert len(world.objects(SERVICES, INSTANCE)) == 2
    selected = {repr(each["spec"]["selector"]) for each in world.objects(SERVICES, INSTANCE)}
    assert len(selected) == 2


async def test_a_child_that_the_cluster_refuses_is_reported_and_retried() -> None:
    world = World()
    async with (
        living(world),
        managing(
            world,
            prepare=lambda transport: transport.on(
                "POST", "deployments", refused(403, "Forbidden")
            ),
        ),
    ):
        world.add_unit("demo")
        await until(lambda: reason_of(world.unit("demo")), equals("DeploymentSyncFailed"))
        assert "no" in message_of(world.unit("demo"))
        await becomes(world, "demo", "Ready", seconds=90)


async def test_an_existing_child_that_the_cache_lacks_is_kept() -> None:
    world = World()
    async with living(world), managing(world) as manager:
        transport = manager.transport
        lost = Fault(is_answer_lost=True, then=transport.hold_watches)
        transport.on("POST", "deployments", lost)
        world.add_unit("demo")
        await until(lambda: any(each.path.endswith("/unit-demo") for each in transport.sent))
        transport.release_watches()
        await becomes(world, "demo", "Ready")
    assert world.made(DEPLOYMENTS)["POST"] == 1


async def test_a_unit_that_stops_is_isolated_until_its_last_pod_is_gone() -> None:
    world = World()
    async with living(world), managing(world):
        world.add_unit("demo", **SERVING)
        await becomes(world, "demo", "Ready")
        (pod,) = world.names(PODS, INSTANCE)
        path = PODS.path(namespace=INSTANCE, name=pod)
        world.call("PATCH", path, {"metadata": {"finalizers": ["tests.example.com/held"]}})
        world.change("demo", serverless={"requestID": "f"})
        await until(lambda: world.objects(DEPLOYMENTS, INSTANCE), not_)
        await quiet(world)
        assert world.names(NETWORK_POLICIES, INSTANCE) == ["unit-demo"]
        world.call("PATCH", path, {"metadata": {"finalizers": None}})
        await until(lambda: world.objects(NETWORK_POLICIES, INSTANCE), not_)
        await until(lambda: reason_of(world.unit("demo")), equals("QueueUnknown"))


async def test_a_unit_deleted_during_a_status_write_causes_no_error() -> None:
    world = World()
    async with living(world), managing(world) as manager:
        path = "gpuunits/demo/status"
        gone = Fault(before_seconds=1.0)
        manager.transport.on("PATCH", path, gone)
        world.add_unit("demo")
        await until(lambda: any(path in each for each in manager.transport.written()))
        world.delete(GPU_UNITS, INSTANCE, "demo")
        await quiet(world)
        assert manager.meter.sums.get("reconciles_total unit failed", 0) == 0
        assert manager.meter.sums.get("reconciles_total unit cluster_error", 0) == 0
    assert world.objects(DEPLOYMENTS, INSTANCE) == []


async def test_drained_reconcilers_take_no_more_keys() -> None:
    world = World()
    async with living(world), managing(world) as manager:
        world.add_unit("demo")
        await becomes(world, "demo", "Ready")
        await manager.reconcilers.drain()
        assert world.told("demo") == ["DeploymentReady: the Pod is ready on node-1"]
        world.add_unit("late")
        await asyncio.sleep(30)
        assert "status" not in world.unit("late")
