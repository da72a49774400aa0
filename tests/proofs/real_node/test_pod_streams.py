"""Exec and port-forward as a real kubelet serves them, with what kwok cannot show."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
import pytest_asyncio

from gpuruntime.kube.client import Client
from gpuruntime.kube.connect.sources import Kubeconfig
from gpuruntime.kube.errors import KubeError, UnavailableError, UnreachableError
from gpuruntime.kube.http import connect
from gpuruntime.kube.pod_exec import Command, execute
from gpuruntime.kube.pod_forward import forward
from gpuruntime.models.kubernetes.metadata import Key
from tests.eventually import eventually_blocking
from tests.proofs.conformance.stream_cases import (
    ANYWHERE,
    CONTAINER,
    ECHO,
    PORT,
    WITH_A_KUBELET,
    Case,
    Scene,
    ended,
    name_of,
    taken,
)
from tests.proofs.real_cluster.controlplane import ControlPlane
from tests.proofs.real_node import pods
from tests.proofs.real_node.images.preloaded import BUSYBOX
from tests.proofs.real_node.node import Node

pytestmark = pytest.mark.node

NAME = "streams"
WAITING = "streams-waiting"


@pytest.fixture(scope="module")
def echo(plane: ControlPlane, real_node: Node) -> Key:
    """Start a Pod that echoes, and one that no node may have."""
    del real_node
    pods.apply(plane, pods.pod(NAME, "python", "-c", ECHO, str(PORT)))
    waiting = pods.pod(WAITING, "sleep", "1d", image=BUSYBOX)
    waiting["spec"]["nodeSelector"] = {"node": "none"}
    pods.apply(plane, waiting)
    pods.wait_for_phase(plane, NAME, "Running")
    listens = f"import socket; socket.create_connection(('127.0.0.1', {PORT}), 1)"
    eventually_blocking(
        lambda: plane.kubectl("exec", NAME, "--", "python", "-c", f"{listens}; print(1)")
    )
    return Key("default", NAME)


@pytest_asyncio.fixture
async def client(plane: ControlPlane) -> AsyncIterator[Client]:
    source = Kubeconfig(str(plane.kubeconfig))
    transport = await connect(source, now=lambda: datetime.now(UTC))
    yield Client(transport)
    await transport.close()


@pytest_asyncio.fixture
async def scene(client: Client, echo: Key) -> Scene:
    return Scene(client, echo, Key("default", WAITING))


@pytest.mark.parametrize("case", [*ANYWHERE, *WITH_A_KUBELET], ids=name_of)
async def test_with_a_kubelet(scene: Scene, case: Case) -> None:
    await case(scene)


async def test_the_end_of_the_far_side_ends_a_forward(scene: Scene) -> None:
    async with scene.forward() as forwarding:
        await forwarding.write(b"bye")
        assert await taken(forwarding, 4) == b"bye"


async def test_a_forward_that_is_left_ends_the_far_side(scene: Scene) -> None:
    async with scene.forward() as forwarding:
        await forwarding.write(b"hello")
        assert await taken(forwarding, 5) == b"hello"
    connections = f"grep -c ':{PORT:04X} .* 01 ' /proc/net/tcp || true"
    async with asyncio.timeout(30):
        while True:
            async with scene.run("sh", "-c", connections) as execution:
                if (await ended(execution))[1] == b"0\n":
                    return
            await asyncio.sleep(0.2)


async def test_a_container_that_has_ended_runs_no_command(
    plane: ControlPlane, client: Client
) -> None:
    pods.apply(plane, pods.pod("ended", "true", image=BUSYBOX))
    pods.wait_for_phase(plane, "ended", "Succeeded")
    pod = Key("default", "ended")
    with pytest.raises(UnavailableError, match="check that the container runs"):
        async with execute(client, pod, Command(container="main", arguments=("true",))) as it:
            await ended(it)
    with pytest.raises(KubeError):
        async with forward(client, pod, PORT) as forwarding:
            await taken(forwarding, 1)


async def test_a_command_whose_pod_is_deleted_has_no_exit_code_of_its_own(
    plane: ControlPlane, client: Client
) -> None:
    pods.apply(plane, pods.pod("deleted", "sleep", "1d", image=BUSYBOX))
    pods.wait_for_phase(plane, "deleted", "Running")
    command = Command(container=CONTAINER, arguments=("sleep", "1d"))
    async with execute(client, Key("default", "deleted"), command) as execution:
        await asyncio.to_thread(plane.kubectl, "delete", "pod", "deleted")
        try:
            code, _, _ = await ended(execution)
        except (UnavailableError, UnreachableError):
            return
    assert code == 137
