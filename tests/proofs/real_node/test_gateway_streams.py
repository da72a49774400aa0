"""The gateway's sessions before a real kubelet, with what kwok cannot show."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio

from gpuruntime.gateway.containers.exec_session import ExecSessions
from gpuruntime.gateway.containers.forward_session import ForwardSessions
from gpuruntime.gateway.containers.port_dialer import PortDialer
from gpuruntime.gateway.containers.session import SessionTimes
from gpuruntime.kube.client import Client
from gpuruntime.kube.connect.sources import Kubeconfig
from gpuruntime.kube.http import connect
from gpuruntime.models.kinds import labels
from gpuruntime.models.requests.tickets import Use
from tests.eventually import eventually_blocking
from tests.proofs.conformance.stream_cases import PORT
from tests.proofs.real_cluster.controlplane import ControlPlane
from tests.proofs.real_node import pods
from tests.proofs.real_node.node import Node
from tests.rooms.gateway.containers.scripted_cluster import (
    NAMESPACE,
    UID,
    Site,
    closed,
    new_connections,
    serving,
    visitor,
)

pytestmark = pytest.mark.node

V5 = "v5.channel.k8s.io"
TIMES = SessionTimes(idle_seconds=60.0)
# It answers after the caller's half close, so that only a true one brings an answer.
LATE = f"""
import socket
listener = socket.create_server(("127.0.0.1", {PORT}))
while True:
    far, _ = listener.accept()
    data = b""
    while piece := far.recv(65536):
        data += piece
    far.sendall(data.upper())
    far.close()
"""


@pytest.fixture(scope="module")
def unit(plane: ControlPlane, real_node: Node) -> None:
    """Start a Pod that stands for the unit of the tests' visitors."""
    del real_node
    plane.kubectl("create", "namespace", NAMESPACE)
    body: dict[str, Any] = pods.pod("gateway-demo", "python", "-c", LATE)
    body["metadata"] |= {"namespace": NAMESPACE, "labels": {labels.UNIT_UID: UID}}
    body["spec"]["containers"][0]["name"] = "runtime"
    eventually_blocking(lambda: applied(plane, body))
    plane.kubectl(
        *("wait", "--for=condition=Ready", "pod/gateway-demo", "-n", NAMESPACE, "--timeout=120s")
    )


def applied(plane: ControlPlane, body: dict[str, Any]) -> bool:
    """Return whether the Pod was accepted: its account comes after the namespace."""
    try:
        plane.kubectl("apply", "-f", "-", stdin=json.dumps(body))
    except Exception:  # noqa: BLE001 - the caller tries again
        return False
    return True


@pytest_asyncio.fixture
async def client(plane: ControlPlane, unit: None) -> AsyncIterator[Client]:
    del unit
    source = Kubeconfig(str(plane.kubeconfig))
    transport = await connect(source, now=lambda: datetime.now(UTC))
    yield Client(transport)
    await transport.close()


@asynccontextmanager
async def commands(client: Client) -> AsyncIterator[Site]:
    sessions = ExecSessions(client, new_connections(), TIMES)
    async with serving(sessions.serve, visitor(Use.EXEC)) as site:
        yield site


async def test_the_end_of_input_and_the_exit_code_pass(client: Client) -> None:
    query = "?command=sh&command=-c&command=cat; exit 7"
    async with commands(client) as site, site.open(query, protocols=(V5,)) as caller:
        await caller.send_bytes(b"\x00all of it")
        await caller.send_bytes(b"\xff\x00")
        messages, code, _ = await closed(caller)
    status = json.loads(messages[-1][1:])
    output = b"".join(each[1:] for each in messages if each[0] == 1)
    assert (output, code) == (b"all of it", 1000)
    assert {"reason": "ExitCode", "message": "7"} in status["details"]["causes"]


async def test_a_program_that_is_missing_is_said_in_the_status(client: Client) -> None:
    query = "?command=no-such-program"
    async with commands(client) as site, site.open(query, protocols=(V5,)) as caller:
        messages, code, _ = await closed(caller)
    status = json.loads(messages[-1][1:])
    assert (status["status"], "no-such-program" in status["message"]) == ("Failure", True)
    assert code == 1000


async def test_a_forward_passes_the_half_close_through_the_relay(client: Client) -> None:
    dialer = PortDialer(client, lambda *_: ("", 0), connect_seconds=1.0)
    sessions = ForwardSessions(dialer, new_connections(), TIMES)
    async with (
        serving(sessions.serve, visitor(Use.FORWARD, port=PORT)) as site,
        site.open() as caller,
    ):
        await caller.send_bytes(b"hello")
        await caller.send_str("end")
        messages, code, _ = await closed(caller)
    assert (b"".join(each for each in messages if each != "end"), code) == (b"HELLO", 1000)
