"""A prepare runs once, even if its beginning is delayed."""

import asyncio
from typing import Any

import pytest

from gpuruntime.models.kinds.storages import GPU_STORAGES
from gpuruntime.models.kubernetes.cluster import EVENTS
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.volumes import JOBS, VOLUME_CLAIMS
from tests.eventually import equals
from tests.faults import landing_late, refused
from tests.rooms.operations.cluster import INSTANCE
from tests.rooms.reconcilers.world import World, managing, message_of, phase_of, until

pytestmark = pytest.mark.looptime

STORAGE = Key(INSTANCE, "models")
FILL = {"fromImage": "busybox:1.36", "command": ["fill"]}


def job_of(world: World) -> Any:
    return next(iter(world.objects(JOBS, INSTANCE)), None)


def say(world: World, resource: Any, name: str, status: Any) -> None:
    path = resource.path(namespace=INSTANCE, name=name, subresource="status")
    world.call("PATCH", path, {"status": status})


async def let_go(world: World) -> str:
    """Return the name of the Job, which fills the storage from now on."""
    body = {
        "apiVersion": GPU_STORAGES.api_version,
        "kind": "GPUStorage",
        "metadata": {"name": STORAGE.name},
        "spec": {"size": "1Gi", "prepare": FILL},
    }
    world.call("POST", GPU_STORAGES.path(namespace=INSTANCE), body)
    await until(lambda: world.objects(VOLUME_CLAIMS, INSTANCE))
    bound = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
    say(world, VOLUME_CLAIMS, STORAGE.name, bound)
    await until(lambda: job_of(world) is not None and not job_of(world)["spec"]["suspend"])
    name: str = job_of(world)["metadata"]["name"]
    return name


async def filled(world: World) -> None:
    name = await let_go(world)
    complete = {
        "type": "Complete",
        "status": "True",
        "lastTransitionTime": "2025-01-01T00:00:00Z",
    }
    say(world, JOBS, name, {"conditions": [complete]})
    await until(lambda: phase_of(world.objects(GPU_STORAGES, INSTANCE)[0]), equals("Ready"))


async def test_a_job_whose_create_lands_after_its_run_has_ended_runs_nothing() -> None:
    world = World()
    async with managing(world) as manager:
        manager.transport.on("POST", "/jobs", landing_late(20.0))
        await filled(world)
        name = job_of(world)["metadata"]["name"]
        path = JOBS.path(namespace=INSTANCE, name=name)
        world.call("DELETE", path, {"propagationPolicy": "Background"})
        assert job_of(world) is None
        await until(lambda: job_of(world) is not None)
        await asyncio.sleep(60)
        assert job_of(world)["metadata"]["name"] == name
        assert job_of(world)["spec"]["suspend"]
        assert phase_of(world.objects(GPU_STORAGES, INSTANCE)[0]) == "Ready"


QUOTA = 'Error creating: pods "p" is forbidden: exceeded quota: units'


def event(world: World, job: str, reason: str, message: str, *, last: str) -> None:
    uid = job_of(world)["metadata"]["uid"]
    about = {"kind": "Job", "namespace": INSTANCE, "name": job, "uid": uid}
    body = {
        "metadata": {"name": f"{job}.{last[-3:-1]}"},
        "involvedObject": about,
        "type": "Warning",
        "reason": reason,
        "message": message,
        "lastTimestamp": last,
    }
    world.call("POST", EVENTS.path(namespace=INSTANCE), body)


async def test_a_job_that_may_not_create_a_pod_reports_why() -> None:
    world = World()
    async with managing(world):
        name = await let_go(world)
        event(world, name, "FailedCreate", "an older refusal", last="2025-01-01T00:00:01Z")
        event(world, name, "FailedCreate", QUOTA, last="2025-01-01T00:00:02Z")
        event(world, name, "Suspended", "Job suspended", last="2025-01-01T00:00:03Z")
        say(world, JOBS, name, {"startTime": "2024-12-31T23:59:00Z"})
        await until(
            lambda: (
                message_of(world.objects(GPU_STORAGES, INSTANCE)[0])
                == f"Job {name} fills the volume; its Pod waits: {QUOTA}"
            )
        )


async def test_a_storage_goes_on_without_the_right_to_read_events() -> None:
    world = World()
    async with managing(world) as manager:
        manager.transport.on("GET", "/events", refused(403, "Forbidden"), times=99)
        await filled(world)
