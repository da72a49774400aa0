"""Deployments and Jobs on the embedded cluster, from creation to the last Pod."""

import asyncio
import time
from typing import Any

import pytest

from gpuruntime.embedded.kinds.pod_objects import PODS, Pod
from gpuruntime.embedded.kinds.workload_objects import (
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS,
    Deployment,
    Job,
)
from gpuruntime.embedded.nodes.failures import FAIL, RUN_SECONDS
from gpuruntime.embedded.nodes.seed_objects import NodeOptions
from tests.rooms.embedded.world import World, deployment_spec, job_spec, running_cluster

pytestmark = pytest.mark.looptime

RECREATE = {"type": "Recreate"}


def is_complete(of: Deployment) -> bool:
    status, replicas = of.status, of.spec.replicas
    counts = {status.replicas, status.updatedReplicas, status.availableReplicas}
    return counts == {replicas} and status.observedGeneration == of.metadata.generation


def has(type_: str) -> Any:
    return lambda of: any(each.type == type_ and each.is_true for each in of.status.conditions)


async def rolled_out(world: World, name: str = "web") -> Deployment:
    return await world.until(DEPLOYMENTS, name, is_complete)


async def test_a_deployment_becomes_available_and_reports_it() -> None:
    async with running_cluster() as world:
        await world.make(DEPLOYMENTS, "web", spec=deployment_spec(replicas=2))
        done = await rolled_out(world)
        assert {each.reason for each in done.status.conditions} == {
            "MinimumReplicasAvailable",
            "NewReplicaSetAvailable",
        }
        (owned,) = await world.all(REPLICA_SETS)
        pods = await world.all(PODS)
        assert {
            pod.metadata.controller_owner.name for pod in pods if pod.metadata.controller_owner
        } == {owned.metadata.name}
        assert all(pod.is_ready and pod.status.podIP for pod in pods)
        assert len({pod.status.podIP for pod in pods}) == 2
        assert done.metadata.generation == 1


async def test_the_events_of_a_rollout_are_recorded() -> None:
    async with running_cluster() as world:
        await world.make(DEPLOYMENTS, "web", spec=deployment_spec(replicas=1))
        await rolled_out(world)
        (owned,) = await world.all(REPLICA_SETS)
        (pod,) = await world.all(PODS)
        set_name, name = owned.metadata.name, pod.metadata.name
        assert await world.events("web") == [
            f"ScalingReplicaSet: Scaled up replica set {set_name} from 0 to 1"
        ]
        assert await world.events(set_name) == [f"SuccessfulCreate: Created pod: {name}"]
        assert await world.events(name) == [
            f"Scheduled: Successfully assigned default/{name} to node-0",
            'Pulled: Container image "busybox:1.36" already present on machine',
            "Created: Created container: c",
            "Started: Started container c",
        ]


async def test_a_deployment_scales_to_zero_and_back() -> None:
    async with running_cluster() as world:
        await world.make(DEPLOYMENTS, "web", spec=deployment_spec(replicas=2))
        await rolled_out(world)
        await world.patch(DEPLOYMENTS, "web", spec={"replicas": 0})
        await rolled_out(world)
        await asyncio.sleep(1)
        assert await world.all(PODS) == []
        await world.patch(DEPLOYMENTS, "web", spec={"replicas": 1})
        await rolled_out(world)
        assert len(await world.all(REPLICA_SETS)) == 1


async def test_recreate_never_has_pods_of_two_templates() -> None:
    async with running_cluster() as world:
        first = deployment_spec(replicas=2, strategy=RECREATE, annotations={"x": "1"})
        await world.make(DEPLOYMENTS, "web", spec=first)
        await rolled_out(world)
        second = deployment_spec(annotations={"x": "2"})
        await world.patch(DEPLOYMENTS, "web", spec={"template": second["template"]})
        seen: set[str] = set()
        while True:
            pods = await world.all(PODS)
            templates = {pod.metadata.annotations["x"] for pod in pods}
            assert len(templates) < 2
            seen |= templates
            if is_complete(await world.get(DEPLOYMENTS, "web")):
                break
            await asyncio.sleep(0.01)
        assert seen == {"1", "2"}


async def test_a_rolling_update_always_has_ready_pods() -> None:
    async with running_cluster() as world:
        await world.make(DEPLOYMENTS, "web", spec=deployment_spec(replicas=2))
        await rolled_out(world)
        changed = deployment_spec(annotations={"x": "2"})
        await world.patch(DEPLOYMENTS, "web", spec={"template": changed["template"]})
        while not is_complete(await world.get(DEPLOYMENTS, "web")):
            ready = [pod for pod in await world.all(PODS) if pod.is_ready and not pod.is_ending]
            assert len(ready) >= 2
            await asyncio.sleep(0.01)
        old, new = sorted(
            await world.all(REPLICA_SETS),
            key=lambda each: each.metadata.annotations["deployment.kubernetes.io/revision"],
        )
        assert (old.spec.replicas, new.spec.replicas) == (0, 2)


async def test_a_template_that_fails_leaves_the_deployment_unavailable() -> None:
    async with running_cluster() as world:
        spec = deployment_spec(replicas=1, annotations={FAIL: "image-pull"})
        await world.make(DEPLOYMENTS, "web", spec=spec)
        await asyncio.sleep(30)
        (pod,) = await world.all(PODS)
        waiting = pod.status.containerStatuses[0].state.waiting
        assert waiting is not None
        assert waiting.reason == "ImagePullBackOff"
        shown = await world.get(DEPLOYMENTS, "web")
        assert (shown.status.availableReplicas, shown.status.unavailableReplicas) == (0, 1)


async def test_a_rollout_past_its_deadline_reports_it() -> None:
    async with running_cluster() as world:
        spec = deployment_spec(replicas=1, annotations={FAIL: "never-ready"})
        await world.make(DEPLOYMENTS, "web", spec={**spec, "progressDeadlineSeconds": 30})

        def reason(of: Deployment) -> str:
            return next(each.reason for each in of.status.conditions if each.type == "Progressing")

        await asyncio.sleep(29)
        assert reason(await world.get(DEPLOYMENTS, "web")) == "ReplicaSetUpdated"
        await asyncio.sleep(3)
        assert reason(await world.get(DEPLOYMENTS, "web")) == "ProgressDeadlineExceeded"


async def test_pods_with_min_ready_seconds_are_available_later_than_ready() -> None:
    async with running_cluster() as world:
        spec = deployment_spec(replicas=1, minReadySeconds=20)
        await world.make(DEPLOYMENTS, "web", spec=spec)
        await asyncio.sleep(15)
        status = (await world.get(DEPLOYMENTS, "web")).status
        assert (status.readyReplicas, status.availableReplicas) == (1, 0)
        await asyncio.sleep(10)
        assert is_complete(await world.get(DEPLOYMENTS, "web"))


async def test_a_paused_rollout_waits_until_it_resumes() -> None:
    async with running_cluster() as world:
        await world.make(DEPLOYMENTS, "web", spec=deployment_spec(replicas=1))
        await rolled_out(world)
        template = deployment_spec(annotations={"x": "2"})["template"]
        await world.patch(DEPLOYMENTS, "web", spec={"paused": True, "template": template})
        await asyncio.sleep(60)
        assert len(await world.all(REPLICA_SETS)) == 1
        await world.patch(DEPLOYMENTS, "web", spec={"paused": False})
        await rolled_out(world)
        sizes = [each.spec.replicas for each in await world.all(REPLICA_SETS)]
        assert sorted(sizes) == [0, 1]


async def test_a_template_that_returns_reuses_its_replica_set() -> None:
    async with running_cluster() as world:
        first, second = (deployment_spec(replicas=1, annotations={"x": x}) for x in "12")
        await world.make(DEPLOYMENTS, "web", spec=first)
        await rolled_out(world)
        for spec in (second, first):
            await world.patch(DEPLOYMENTS, "web", spec={"template": spec["template"]})
            await rolled_out(world)
        await asyncio.sleep(1)
        done = await world.get(DEPLOYMENTS, "web")
        assert len(await world.all(REPLICA_SETS)) == 2
        assert done.metadata.annotations["deployment.kubernetes.io/revision"] == "3"


async def test_a_deleted_pod_is_replaced() -> None:
    async with running_cluster() as world:
        await world.make(DEPLOYMENTS, "web", spec=deployment_spec(replicas=1))
        await rolled_out(world)
        (before,) = await world.all(PODS)
        await world.delete(PODS, before.metadata.name)
        await world.until_gone(PODS, before.metadata.name)
        await rolled_out(world)
        (after,) = await world.all(PODS)
        assert after.metadata.uid != before.metadata.uid


async def test_a_job_completes_and_counts_its_pod() -> None:
    async with running_cluster() as world:
        await world.make(JOBS, "work", spec=job_spec(completions=2))
        done = await world.until(JOBS, "work", has("Complete"))
        assert [each.type for each in done.status.conditions] == ["SuccessCriteriaMet", "Complete"]
        assert (done.status.succeeded, done.status.active) == (2, 0)
        pods = await world.all(PODS)
        assert [pod.status.phase for pod in pods] == ["Succeeded", "Succeeded"]
        assert all(not pod.metadata.finalizers for pod in pods)
        assert (await world.events("work"))[-1] == "Completed: Job completed"


async def test_a_job_whose_pods_fail_backs_off_and_gives_up() -> None:
    async with running_cluster() as world:
        annotations = {FAIL: "crash=7: out of paper"}
        await world.make(JOBS, "work", spec=job_spec(backoffLimit=1, annotations=annotations))
        failed = await world.until(JOBS, "work", has("Failed"))
        assert [(each.type, each.reason) for each in failed.status.conditions] == [
            ("FailureTarget", "BackoffLimitExceeded"),
            ("Failed", "BackoffLimitExceeded"),
        ]
        assert failed.status.failed == 2
        pods = await world.all(PODS)
        assert {_exit(pod) for pod in pods} == {(7, "out of paper")}
        first, second = sorted(_began(pod) for pod in pods)
        assert second - first >= 10


async def test_a_job_that_restarts_in_place_fails_after_its_limit_of_restarts() -> None:
    async with running_cluster() as world:
        spec = job_spec(policy="OnFailure", backoffLimit=2, annotations={FAIL: "crash"})
        await world.make(JOBS, "work", spec=spec)
        failed = await world.until(JOBS, "work", has("Failed"))
        assert failed.status.failed == 1
        assert await world.all(PODS) == []


async def test_a_finished_job_is_deleted_after_its_time_to_live_with_its_pods() -> None:
    async with running_cluster() as world:
        await world.make(JOBS, "work", spec=job_spec(ttlSecondsAfterFinished=30))
        await world.until(JOBS, "work", has("Complete"))
        await asyncio.sleep(25)
        await world.get(JOBS, "work")
        await world.until_gone(JOBS, "work", seconds=10)
        assert await world.all(PODS) == []


async def test_a_job_past_its_deadline_fails_and_its_pods_are_gone() -> None:
    async with running_cluster() as world:
        spec = job_spec(activeDeadlineSeconds=5, annotations={RUN_SECONDS: "1000"})
        await world.make(JOBS, "work", spec=spec)
        failed = await world.until(JOBS, "work", has("Failed"))
        assert failed.status.conditions[-1].reason == "DeadlineExceeded"
        assert await world.all(PODS) == []


async def test_a_suspended_job_waits_until_it_is_resumed() -> None:
    async with running_cluster() as world:
        await world.make(JOBS, "work", spec=job_spec(suspend=True))
        await world.until(JOBS, "work", has("Suspended"))
        await asyncio.sleep(60)
        assert await world.all(PODS) == []
        await world.patch(JOBS, "work", spec={"suspend": False})
        await world.until(JOBS, "work", has("Complete"))
        said = await world.events("work")
        assert (said[0], said[1]) == ("Suspended: Job suspended", "Resumed: Job resumed")


async def test_an_active_job_is_deleted_with_its_pods() -> None:
    async with running_cluster() as world:
        await world.make(JOBS, "work", spec=job_spec(annotations={RUN_SECONDS: "1000"}))
        await world.until(JOBS, "work", _is_running)
        await world.delete(JOBS, "work")
        await world.until_gone(JOBS, "work")
        await asyncio.sleep(5)
        assert await world.all(PODS) == []


def _is_running(job: Job) -> bool:
    return job.status.ready == 1


def _exit(pod: Pod) -> tuple[int, str]:
    terminated = pod.status.containerStatuses[0].state.terminated
    assert terminated is not None
    return terminated.exitCode, terminated.message


def _began(pod: Pod) -> float:
    assert pod.status.startTime is not None
    return pod.status.startTime.timestamp()


async def test_five_hundred_deployments_start_and_end_within_seconds_and_few_writes() -> None:
    """An idle core needs about five seconds; the limits allow for other work."""
    many, seconds, most_processor_seconds, most_writes = 500, 5, 20, 20
    nodes = NodeOptions(count=4, cpu="512", memory="2Ti", gpus=8)
    async with running_cluster(nodes=nodes) as world:
        store, begun = world.cluster.server.store, time.process_time()
        before = store.version
        for number in range(many):
            await world.make(DEPLOYMENTS, f"web-{number}", spec=deployment_spec(replicas=1))
        await asyncio.sleep(seconds)
        assert all(map(is_complete, await world.all(DEPLOYMENTS)))
        assert len(await world.all(PODS)) == many
        assert store.version - before < most_writes * many
        for number in range(many):
            await world.delete(DEPLOYMENTS, f"web-{number}")
        await asyncio.sleep(seconds)
        assert await world.all(REPLICA_SETS) == []
        assert await world.all(PODS) == []
        assert time.process_time() - begun < most_processor_seconds
