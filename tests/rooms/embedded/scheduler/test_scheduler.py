"""The scheduler on the embedded cluster: assignments, refusals and preemption."""

import asyncio
from typing import Any

import attrs
import pytest

from gpuruntime.embedded.kinds.cluster_objects import CLAIMS, NODES
from gpuruntime.embedded.kinds.pod_objects import PODS, Pod
from gpuruntime.embedded.nodes.failures import Pace
from gpuruntime.embedded.nodes.seed_objects import node
from gpuruntime.models.kubernetes.cluster import PRIORITY_CLASSES
from tests.rooms.embedded.builders import MOMENT
from tests.rooms.embedded.world import NODE, World, running_cluster

pytestmark = pytest.mark.looptime

POD = "/api/v1/namespaces/default/pods/{}"
NEVER = "no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never."
NO_VICTIMS = (
    "no new claims to deallocate, preemption: 0/1 nodes are available: "
    "1 No preemption victims found for incoming pod."
)


def is_running(pod: Pod) -> bool:
    return pod.status.phase == "Running"


def words(pod: Pod) -> str:
    """Return why the Pod is not scheduled, or an empty text."""
    scheduled = pod.condition("PodScheduled")
    return "" if scheduled is None or scheduled.is_true else scheduled.message


def is_refused(pod: Pod) -> bool:
    return bool(words(pod))


async def classes(world: World) -> None:
    """Create `stock`, which never preempts and is preempted first, and `urgent`."""
    await world.make(PRIORITY_CLASSES, "stock", value=-10, preemptionPolicy="Never")
    await world.make(PRIORITY_CLASSES, "urgent", value=100)


async def test_a_pod_without_room_waits_with_the_schedulers_message() -> None:
    async with running_cluster() as world:
        await world.pod("first", gpus=6)
        await world.until(PODS, "first", is_running)
        await world.pod("second", gpus=4)
        waiting = await world.until(PODS, "second", is_refused)
        assert words(waiting) == (
            f"0/1 nodes are available: 1 Insufficient nvidia.com/gpu. {NO_VICTIMS}"
        )
        scheduled = waiting.condition("PodScheduled")
        assert scheduled is not None
        assert (scheduled.reason, waiting.status.phase) == ("Unschedulable", "Pending")
        assert await world.events("second") == [f"FailedScheduling: {words(waiting)}"]


async def test_a_waiting_pod_runs_as_soon_as_another_is_gone() -> None:
    async with running_cluster() as world:
        await world.pod("first", gpus=8)
        await world.until(PODS, "first", is_running)
        await world.pod("second", gpus=8)
        await world.until(PODS, "second", is_refused)
        version = world.cluster.server.store.version
        await asyncio.sleep(600)
        assert world.cluster.server.store.version - version < 5
        await world.delete(PODS, "first")
        await world.until_gone(PODS, "first")
        await world.until(PODS, "second", lambda pod: pod.spec.nodeName, seconds=0.1)


async def test_a_new_or_changed_node_wakes_waiting_pods() -> None:
    async with running_cluster() as world:
        await world.patch(NODES, "node-0", spec={"unschedulable": True})
        await world.pod("waiting")
        refused = await world.until(PODS, "waiting", is_refused)
        assert "1 node(s) were unschedulable" in words(refused)
        await world.patch(NODES, "node-0", spec={"unschedulable": None})
        await world.until(PODS, "waiting", is_running, seconds=1)

        await world.pod("big", gpus=16)
        await world.until(PODS, "big", is_refused)
        larger = attrs.evolve(NODE, gpus=16)
        await world.client.create(NODES, node("node-1", larger, now=MOMENT))
        grown = await world.until(PODS, "big", is_running, seconds=1)
        assert grown.spec.nodeName == "node-1"


async def test_the_absence_of_nodes_is_reported() -> None:
    async with running_cluster(nodes=attrs.evolve(NODE, count=0)) as world:
        await world.pod("lonely")
        refused = await world.until(PODS, "lonely", is_refused)
        assert words(refused) == "no nodes available to schedule pods"


async def test_the_more_important_pod_is_scheduled_first_however_late_it_was_created() -> None:
    async with running_cluster() as world:
        await classes(world)
        await world.pod("sitting", gpus=8, spec={"priorityClassName": "urgent"})
        await world.until(PODS, "sitting", is_running)
        for name, priority in (("early", "stock"), ("late", "urgent")):
            await world.pod(name, gpus=8, spec={"priorityClassName": priority})
            await world.until(PODS, name, is_refused)
        await world.delete(PODS, "sitting")
        await world.until(PODS, "late", is_running)
        assert words(await world.get(PODS, "early"))


async def test_of_equal_pods_the_one_that_waited_longest_is_scheduled_first() -> None:
    async with running_cluster() as world:
        await world.pod("sitting", gpus=8)
        await world.until(PODS, "sitting", is_running)
        for name in ("a", "b", "c"):
            await world.pod(name, gpus=8)
        order = []
        for previous in ("sitting", "a", "b"):
            await world.delete(PODS, previous)
            await world.until_gone(PODS, previous)
            await asyncio.sleep(1)
            order += [pod.metadata.name for pod in await world.all(PODS) if pod.spec.nodeName]
        assert order == ["a", "b", "c"]


async def test_a_more_important_pod_preempts_a_lesser_one_gracefully() -> None:
    async with running_cluster(pace=Pace(stop_seconds=3.0)) as world:
        await classes(world)
        stock = {"priorityClassName": "stock", "terminationGracePeriodSeconds": 5}
        await world.pod("stock", gpus=8, spec=stock)
        await world.until(PODS, "stock", is_running)
        await world.pod("unit", gpus=8)

        victim = await world.until(PODS, "stock", lambda pod: pod.is_ending)
        assert victim.metadata.deletionGracePeriodSeconds == 5
        disrupted = victim.condition("DisruptionTarget")
        assert disrupted is not None
        assert (disrupted.reason, disrupted.message) == (
            "PreemptionByScheduler",
            "default-scheduler: preempting to accommodate a higher priority pod",
        )
        await asyncio.sleep(2.5)
        waiting = await world.get(PODS, "unit")
        assert (waiting.status.nominatedNodeName, waiting.spec.nodeName) == ("node-0", "")
        assert words(waiting) == "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
        assert (await world.events("stock"))[-2:] == [
            f"Preempted: Preempted by pod {waiting.metadata.uid} on node node-0",
            "Killing: Stopping container c",
        ]
        taken = await world.until(PODS, "unit", is_running, seconds=1)
        assert taken.spec.nodeName == "node-0"
        assert words(taken) == ""


async def test_freed_room_is_kept_for_the_preempting_pod() -> None:
    async with running_cluster() as world:
        await classes(world)
        held = {"finalizers": ["example.com/hold"]}
        await world.pod("stock", gpus=8, spec={"priorityClassName": "stock"}, metadata=held)
        await world.until(PODS, "stock", is_running)
        await world.pod("stranger", gpus=8, spec={"priorityClassName": "stock"})
        await world.until(PODS, "stranger", is_refused)
        await world.pod("unit", gpus=8)
        await world.until(PODS, "unit", lambda pod: pod.status.nominatedNodeName)
        await world.patch(PODS, "stock", metadata={"finalizers": None})
        await world.until(PODS, "unit", is_running)
        assert words(await world.get(PODS, "stranger"))


async def test_a_nomination_lasts_while_the_victim_terminates() -> None:
    async with running_cluster(pace=Pace(stop_seconds=5.0)) as world:
        await classes(world)
        await world.pod("stock", gpus=8, spec={"priorityClassName": "stock"})
        await world.until(PODS, "stock", is_running)
        await world.pod("unit", gpus=8)
        await world.until(PODS, "unit", lambda pod: pod.status.nominatedNodeName)
        await world.patch(NODES, "node-0", metadata={"labels": {"x": "1"}})
        await asyncio.sleep(1)
        waiting = await world.get(PODS, "unit")
        assert waiting.status.nominatedNodeName == "node-0"
        assert words(waiting).endswith(
            "not eligible due to a terminating pod on the nominated node."
        )


async def test_a_nomination_to_an_unfit_node_is_withdrawn() -> None:
    async with running_cluster(pace=Pace(stop_seconds=5.0)) as world:
        await classes(world)
        await world.pod("stock", gpus=8, spec={"priorityClassName": "stock"})
        await world.until(PODS, "stock", is_running)
        await world.pod("unit", gpus=8)
        await world.until(PODS, "unit", lambda pod: pod.status.nominatedNodeName)
        await world.patch(NODES, "node-0", spec={"unschedulable": True})
        await world.until_gone(PODS, "stock")
        await asyncio.sleep(1)
        waiting = await world.get(PODS, "unit")
        assert waiting.status.nominatedNodeName == ""
        assert "1 node(s) were unschedulable" in words(waiting)


async def test_a_nomination_yields_to_a_more_important_pod() -> None:
    async with running_cluster(pace=Pace(stop_seconds=5.0)) as world:
        await classes(world)
        await world.pod("stock", gpus=8, spec={"priorityClassName": "stock"})
        await world.until(PODS, "stock", is_running)
        await world.pod("unit", gpus=8)
        await world.until(PODS, "unit", lambda pod: pod.status.nominatedNodeName)
        await world.pod("urgent", gpus=8, spec={"priorityClassName": "urgent"})
        await world.until(PODS, "urgent", lambda pod: pod.status.nominatedNodeName)
        passed_over = await world.get(PODS, "unit")
        assert passed_over.status.nominatedNodeName == ""
        await world.until(PODS, "urgent", is_running)
        assert words(await world.get(PODS, "unit"))


async def test_a_pod_of_stock_preempts_no_other() -> None:
    async with running_cluster() as world:
        await classes(world)
        await world.make(PRIORITY_CLASSES, "least", value=-1000)
        await world.pod("sitting", gpus=8, spec={"priorityClassName": "least"})
        await world.until(PODS, "sitting", is_running)
        await world.pod("stock", gpus=8, spec={"priorityClassName": "stock"})
        refused = await world.until(PODS, "stock", is_refused)
        assert words(refused) == (
            f"0/1 nodes are available: 1 Insufficient nvidia.com/gpu. {NEVER}"
        )
        assert is_running(await world.get(PODS, "sitting"))


async def test_eight_claims_on_a_full_cluster_take_over_eight_reservations() -> None:
    async with running_cluster() as world:
        await classes(world)
        stock = {"priorityClassName": "stock", "terminationGracePeriodSeconds": 0}
        for number in range(8):
            await world.pod(f"stock-{number}", gpus=1, spec=stock)
        for number in range(8):
            await world.until(PODS, f"stock-{number}", is_running)
        for number in range(8):
            await world.pod(f"unit-{number}", gpus=1)
        for number in range(8):
            await world.until(PODS, f"unit-{number}", is_running, seconds=5)
        left = [pod.metadata.name for pod in await world.all(PODS)]
        assert sorted(left) == [f"unit-{number}" for number in range(8)]


async def test_a_pod_prefers_the_node_that_it_names() -> None:
    preference = {
        "weight": 100,
        "preference": {
            "matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-2"]}
            ]
        },
    }
    key = "preferredDuringSchedulingIgnoredDuringExecution"
    affinity: dict[str, Any] = {"affinity": {"nodeAffinity": {key: [preference]}}}
    async with running_cluster(nodes=attrs.evolve(NODE, count=4)) as world:
        await world.pod(
            "load", gpus=4, spec={"nodeSelector": {"kubernetes.io/hostname": "node-2"}}
        )
        await world.until(PODS, "load", is_running)
        await world.pod("picky", gpus=4, spec=affinity)
        assert (await world.until(PODS, "picky", is_running)).spec.nodeName == "node-2"
        await world.pod("late", gpus=4, spec=affinity)
        assert (await world.until(PODS, "late", is_running)).spec.nodeName != "node-2"


async def test_a_pod_is_scheduled_once_its_claims_can_be_bound() -> None:
    async with running_cluster() as world:
        volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
        await world.pod("user", spec={"volumes": [volume]})
        refused = await world.until(PODS, "user", is_refused)
        assert words(refused) == (
            '0/1 nodes are available: persistentvolumeclaim "data" not found. not found'
        )
        resources = {"requests": {"storage": "1Gi"}}
        spec = {"accessModes": ["ReadWriteOnce"], "resources": resources}
        await world.make(CLAIMS, "data", spec=spec)
        await world.until(PODS, "user", is_running)
        assert (await world.get(CLAIMS, "data")).status.phase == "Bound"


async def test_a_pod_of_another_scheduler_or_behind_a_gate_is_ignored() -> None:
    async with running_cluster() as world:
        await world.pod("foreign", spec={"schedulerName": "other"})
        await world.pod("gated", spec={"schedulingGates": [{"name": "example.com/wait"}]})
        await asyncio.sleep(10)
        for name in ("foreign", "gated"):
            assert (await world.get(PODS, name)).spec.nodeName == ""
        await world.patch(PODS, "gated", spec={"schedulingGates": []})
        await world.until(PODS, "gated", is_running)


async def test_a_waiting_pod_that_is_deleted_is_not_scheduled() -> None:
    async with running_cluster() as world:
        await world.pod("sitting", gpus=8)
        await world.until(PODS, "sitting", is_running)
        await world.pod("leaving", gpus=8, metadata={"finalizers": ["example.com/hold"]})
        await world.until(PODS, "leaving", is_refused)
        await world.pod("staying", gpus=8)
        await world.delete(PODS, "leaving")
        await world.delete(PODS, "sitting")
        await world.until(PODS, "staying", is_running, seconds=1)
        assert (await world.get(PODS, "leaving")).spec.nodeName == ""


async def test_a_pod_with_a_new_toleration_is_scheduled_again() -> None:
    async with running_cluster() as world:
        taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
        await world.patch(NODES, "node-0", spec={"taints": [taint]})
        await world.pod("waiting")
        refused = await world.until(PODS, "waiting", is_refused)
        tolerations = [
            *world.raw(POD.format("waiting"))["spec"]["tolerations"],
            {"key": "k", "operator": "Exists"},
        ]
        await world.patch(PODS, "waiting", spec={"tolerations": tolerations})
        assert "1 node(s) had untolerated taint(s)" in words(refused)
        await world.until(PODS, "waiting", is_running, seconds=1)


async def test_many_equal_waiting_pods_cost_one_decision_each_time() -> None:
    async with running_cluster() as world:
        await world.pod("sitting", gpus=8)
        for number in range(50):
            await world.pod(f"waiting-{number}", gpus=8)
        for number in range(50):
            await world.until(PODS, f"waiting-{number}", is_refused)
        await asyncio.sleep(1)
        before = world.cluster.server.store.version
        await world.patch(NODES, "node-0", metadata={"labels": {"x": "1"}})
        await asyncio.sleep(1)
        assert world.cluster.server.store.version == before + 1
