"""Simulated Pods wait for their Secrets with the kubelet's words, and start once they exist."""

from typing import Any

import pytest

from gpuruntime.embedded.kinds.pod_objects import PODS, Pod
from gpuruntime.models.kubernetes.secrets import SECRETS
from tests.rooms.embedded.world import running_cluster

pytestmark = pytest.mark.looptime

VALUE = "aGVsbG8="
REFERENCE = {"secretKeyRef": {"name": "hub", "key": "token"}}
ITEMS = [{"key": "tls.key", "path": "tls.key"}]


def container(**members: Any) -> dict[str, Any]:
    return {"containers": [{"name": "main", "image": "a", **members}]}


WITH_VARIABLE = container(env=[{"name": "TOKEN", "valueFrom": REFERENCE}])
WITH_FILE = {
    **container(volumeMounts=[{"name": "tls", "mountPath": "/key", "subPath": "tls.key"}]),
    "volumes": [{"name": "tls", "secret": {"secretName": "tls", "items": ITEMS}}],
}


def waiting(pod: Pod) -> str:
    [status] = pod.status.containerStatuses or [None]
    waits = status.state.waiting if status else None
    return f"{waits.reason}: {waits.message}" if waits else ""


async def test_a_pod_without_the_secret_of_a_variable_has_a_configuration_error() -> None:
    async with running_cluster() as world:
        await world.make(PODS, "p", spec=WITH_VARIABLE)
        missing = 'CreateContainerConfigError: secret "hub" not found'
        await world.until(PODS, "p", lambda pod: waiting(pod) == missing)
        await world.make(SECRETS, "hub", data={"other": VALUE})
        without = "CreateContainerConfigError: couldn't find key token in Secret default/hub"
        await world.until(PODS, "p", lambda pod: waiting(pod) == without)
        assert any("Failed: Error: couldn't find key" in each for each in await world.events("p"))
        await world.patch(SECRETS, "hub", data={"token": VALUE})
        await world.until(PODS, "p", lambda pod: pod.is_ready)


async def test_a_pod_without_the_secret_of_a_volume_is_not_prepared() -> None:
    async with running_cluster() as world:
        await world.make(PODS, "p", spec=WITH_FILE)
        pod = await world.until(PODS, "p", lambda pod: "Creating" in waiting(pod))
        prepared = pod.condition("PodReadyToStartContainers")
        assert prepared
        assert not prepared.is_true
        refused = 'FailedMount: MountVolume.SetUp failed for volume "tls" : secret "tls" not found'
        assert refused in await world.events("p")
        await world.make(SECRETS, "tls", data={"tls.key": VALUE})
        await world.until(PODS, "p", lambda pod: pod.is_ready)


async def test_a_running_pod_keeps_running_without_its_secret() -> None:
    async with running_cluster() as world:
        await world.make(SECRETS, "hub", data={"token": VALUE})
        await world.make(PODS, "p", spec=WITH_VARIABLE)
        await world.until(PODS, "p", lambda pod: pod.is_ready)
        await world.delete(SECRETS, "hub")
        await world.patch(PODS, "p", metadata={"labels": {"a": "b"}})
        assert (await world.get(PODS, "p")).is_ready
