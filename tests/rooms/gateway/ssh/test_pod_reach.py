"""Programs in a Pod as SSH runs them: what the cluster says of those that cannot be run."""

import asyncio
import json

import pytest

from gpuruntime.gateway.containers.port_dialer import PortDialer
from gpuruntime.gateway.ssh.container import ContainerError, NotRunError, Program
from gpuruntime.gateway.ssh.pod_reach import PodReach
from gpuruntime.kube.client import Client
from tests.rooms.gateway.containers.scripted_cluster import ScriptedCluster, unit

# As containerd says it on a real kubelet.
MISSING = 'OCI runtime exec failed: exec: "sh": executable file not found in $PATH: unknown'


async def fault_after(message: bytes) -> ContainerError:
    """Return why a program has no exit code if the cluster sends this message and closes."""
    cluster = ScriptedCluster()
    client = Client(cluster)
    dialer = PortDialer(client, lambda *_: ("", 0), connect_seconds=1.0)
    reach = PodReach(client, dialer, unit())
    async with reach.execute(Program(arguments=("sh", "-c", "true"))) as execution:
        async with asyncio.timeout(5):
            server = await cluster.opened.get()
            if message:
                await server.send(message)
            await server.close()
            with pytest.raises(ContainerError) as raised:
                async for _ in execution.output():
                    pass
    return raised.value


async def test_an_image_without_sh_is_said_with_a_remedy() -> None:
    status = {"status": "Failure", "code": 500, "message": MISSING}
    fault = await fault_after(b"\x03" + json.dumps(status).encode())
    assert isinstance(fault, NotRunError)
    assert str(fault).startswith("the image has no sh, which SSH needs: `units exec` runs a")
    assert MISSING in str(fault)


async def test_another_failure_keeps_its_words() -> None:
    status = {"status": "Failure", "code": 500, "message": "the container does not run"}
    fault = await fault_after(b"\x03" + json.dumps(status).encode())
    assert isinstance(fault, NotRunError)
    assert "no sh" not in str(fault)
    assert "the container does not run" in str(fault)


async def test_a_program_that_was_cut_off_may_have_run() -> None:
    assert not isinstance(await fault_after(b""), NotRunError)
