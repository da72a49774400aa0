"""The component gateway-exec on a real control plane: rights, policy, and sessions under both.

Sessions run under the gateway's own account. kwok runs their commands on this machine; it tells no
exit code and ends no input, which the real node shows instead.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import attrs
import pytest
import yaml

from gpuruntime.gateway.containers.exec_session import ExecSessions
from gpuruntime.gateway.containers.forward_session import ForwardSessions
from gpuruntime.gateway.containers.port_dialer import PortDialer
from gpuruntime.gateway.containers.session import SessionTimes
from gpuruntime.gateway.containers.unit_pods import running_pod
from gpuruntime.gateway.errors import GatewayError
from gpuruntime.kube.client import Client
from gpuruntime.kube.connect.sources import Kubeconfig
from gpuruntime.kube.errors import ForbiddenError, KubeError
from gpuruntime.kube.http import connect
from gpuruntime.kube.pod_exec import Command, execute
from gpuruntime.kube.pod_forward import forward
from gpuruntime.models.kinds import labels
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.requests.tickets import Use
from tests.eventually import eventually, eventually_blocking
from tests.proofs.conformance.stream_cases import ECHO, ended
from tests.proofs.real_cluster.kwok_streams import (
    StreamingCluster,
    is_listening,
    started_with_streams,
)
from tests.rooms.gateway.containers.scripted_cluster import (
    UID,
    closed,
    new_connections,
    serving,
    visitor,
)
from tests.rooms.manifests.overlays import sources

pytestmark = pytest.mark.cluster

# The unit of the tests' visitors lives in this namespace.
INSTANCE, SYSTEM, ACCOUNT = "lab", "lab-system", "gpuruntime-gateway"
POD = Key(INSTANCE, "demo-1")
V5 = "v5.channel.k8s.io"
TIMES = SessionTimes(idle_seconds=60.0)
POLICY = "gpuruntime-gateway-exec"
# What the gateway cannot do without a right; `create` is needed since this version.
RIGHTS = {
    ("pods", "list"): "look-up",
    ("pods/exec", "create"): "exec",
    ("pods/exec", "get"): "exec",
    ("pods/portforward", "create"): "forward",
    ("pods/portforward", "get"): "forward",
}
NEEDS_CREATE = (1, 35)


@attrs.frozen
class World:
    cluster: StreamingCluster
    kubeconfig: Path

    def apply(self, *documents: Any) -> None:
        text = "---\n".join(map(yaml.safe_dump, documents))
        self.cluster.plane.kubectl("apply", "-f", "-", stdin=text)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        source = Kubeconfig(str(self.kubeconfig))
        transport = await connect(source, now=lambda: datetime.now(UTC))
        try:
            yield Client(transport)
        finally:
            await transport.close()


def component() -> list[Any]:
    """Return the component's documents in the namespaces of these tests."""
    text = json.dumps(sources("gateway-exec"))
    for name, ours in (("instance", INSTANCE), ("system", SYSTEM)):
        text = text.replace(f"runtime-{name}", ours)
    documents: list[Any] = json.loads(text)
    return documents


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[World]:
    for cluster in started_with_streams(tmp_path_factory, pytestconfig):
        plane = cluster.plane
        path = tmp_path_factory.mktemp("gateway") / "kubeconfig"
        made = World(cluster, path)
        namespaces = [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            for name in (INSTANCE, SYSTEM)
        ]
        account = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": ACCOUNT, "namespace": SYSTEM},
        }
        containers = [{"name": name, "image": "any"} for name in ("runtime", "worker")]
        metadata = {"name": POD.name, "namespace": INSTANCE, "labels": {labels.UNIT_UID: UID}}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {"containers": containers},
        }
        made.apply(*namespaces, account, *component())
        # The account of a namespace's Pods is created a moment after the namespace.
        eventually_blocking(partial(_applied, made, pod))
        token = plane.request(
            "POST",
            f"/api/v1/namespaces/{SYSTEM}/serviceaccounts/{ACCOUNT}/token",
            {"spec": {"expirationSeconds": 7200}},
        )
        path.write_text(kubeconfig(cluster, token["status"]["token"]))
        yield made


def _applied(world: World, pod: Any) -> bool:
    with suppress(Exception):
        world.apply(pod)
        return True
    return False


def kubeconfig(cluster: StreamingCluster, token: str) -> str:
    server = {
        "server": cluster.plane.url,
        "certificate-authority": str(cluster.plane.certificate),
    }
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "g",
            "clusters": [{"name": "g", "cluster": server}],
            "users": [{"name": "g", "user": {"token": token}}],
            "contexts": [{"name": "g", "context": {"cluster": "g", "user": "g"}}],
        }
    )


async def run(client: Client, container: str, *arguments: str) -> bytes:
    command = Command(container=container, arguments=arguments)
    async with execute(client, POD, command) as execution:
        return (await ended(execution))[1]


async def failing(client: Client) -> set[str]:
    """Return which of the gateway's operations the API server forbids."""
    found = set()
    try:
        await running_pod(client, visitor(Use.EXEC).unit)
    except GatewayError:
        found.add("look-up")
    try:
        await run(client, "runtime", "true")
    except ForbiddenError:
        found.add("exec")
    try:
        async with forward(client, POD, 80):
            pass
    except ForbiddenError:
        found.add("forward")
    return found


async def test_the_component_grants_what_the_gateway_does(world: World) -> None:
    async with world.client() as client:
        await eventually(lambda: failing(client), lambda found: not found)


@pytest.mark.parametrize(("resource", "verb"), RIGHTS)
async def test_each_right_is_needed(world: World, resource: str, verb: str) -> None:
    (role,) = (each for each in component() if each["kind"] == "Role")
    kept = [
        {"apiGroups": [""], "resources": [each], "verbs": [name]}
        for each, name in RIGHTS
        if (each, name) != (resource, verb)
    ]
    async with world.client() as client:
        try:
            world.apply({**role, "rules": kept})
            version = world.cluster.plane.request("GET", "/version")
            number = (int(version["major"]), int(version["minor"].rstrip("+")))
            is_needed = verb != "create" or number >= NEEDS_CREATE
            expected = {RIGHTS[resource, verb]} if is_needed else set()
            await eventually(lambda: failing(client), lambda found: found == expected)
        finally:
            world.apply(role)
            await eventually(lambda: failing(client), lambda found: not found)


def test_the_rights_of_the_component_are_those_that_are_proved() -> None:
    (role,) = (each for each in component() if each["kind"] == "Role")
    granted = {
        (resource, verb)
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert granted == set(RIGHTS)


@pytest.mark.parametrize("container", ["worker", ""], ids=["worker", "none"])
async def test_the_policy_allows_the_container_of_the_unit_alone(
    world: World, container: str
) -> None:
    async with world.client() as client:
        await eventually(lambda: failing(client), lambda found: not found)
        with pytest.raises(KubeError, match="in the container runtime of a unit"):
            await run(client, container, "true")


async def test_without_the_policy_the_account_could_run_commands_beside_the_unit(
    world: World,
) -> None:
    plane = world.cluster.plane
    async with world.client() as client:
        try:
            plane.kubectl("delete", "validatingadmissionpolicybinding", POLICY)
            await eventually(
                lambda: run(client, "worker", "echo", "inside"),
                lambda output: output == b"inside\n",
                despite=KubeError,
            )
        finally:
            world.apply(*component())
            await eventually(lambda: refused(client), lambda is_refused: is_refused)


async def refused(client: Client) -> bool:
    try:
        await run(client, "worker", "true")
    except ForbiddenError:
        return True
    return False


async def test_the_policy_binds_no_other_account(world: World) -> None:
    source = Kubeconfig(str(world.cluster.plane.kubeconfig))
    transport = await connect(source, now=lambda: datetime.now(UTC))
    try:
        assert await run(Client(transport), "worker", "echo", "inside") == b"inside\n"
    finally:
        await transport.close()


async def test_a_session_passes_output_errors_and_input(world: World) -> None:
    async with world.client() as client:
        sessions = ExecSessions(client, new_connections(), TIMES)
        async with serving(sessions.serve, visitor(Use.EXEC)) as site:
            query = "?command=sh&command=-c&command=head -c 5; echo err >%262"
            async with site.open(query, protocols=(V5,)) as caller:
                await caller.send_bytes(b"\x00hello")
                messages, code, _ = await closed(caller)
    by_channel = {
        channel: b"".join(each[1:] for each in messages if each[0] == channel)
        for channel in (1, 2, 3)
    }
    assert (code, by_channel[1], by_channel[2]) == (1000, b"hello", b"err\n")
    assert json.loads(by_channel[3])["status"] == "Success"
    assert messages[-1][0] == 3


async def test_a_terminal_has_its_size_and_follows_the_window(world: World) -> None:
    async with world.client() as client:
        sessions = ExecSessions(client, new_connections(), TIMES)
        async with serving(sessions.serve, visitor(Use.EXEC)) as site:
            query = "?tty=true&columns=101&rows=33"
            async with site.open(query, protocols=(V5,)) as caller:
                await shows(caller, b"33 101")
                await caller.send_bytes(b'\x04{"Width":120,"Height":44}')
                await shows(caller, b"44 120")
                await caller.send_bytes(b"\x00exit\n")
                _, code, _ = await closed(caller)
    assert code == 1000


async def shows(caller: aiohttp.ClientWebSocketResponse, size: bytes) -> None:
    """Wait until the shell says this size of its terminal."""
    loop = b"until stty size | grep '" + size + b"'; do sleep 0.1; done\n"
    await caller.send_bytes(b"\x00" + loop)
    shown = b""
    async with asyncio.timeout(30):
        while b"\n" + size not in shown.replace(b"\r", b"\n"):
            shown += (await caller.receive()).data[1:]


@asynccontextmanager
async def echoing(port: int) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", ECHO, str(port))
    try:
        await eventually(lambda: is_listening(port))
        yield
    finally:
        process.kill()
        await process.wait()


async def test_an_undeclared_port_is_forwarded(world: World) -> None:
    """The relay runs on this machine, too, so that the port is one of this machine."""
    port = world.cluster.port
    async with world.client() as client, echoing(port):
        dialer = PortDialer(client, lambda *_: ("", 0), connect_seconds=1.0)
        sessions = ForwardSessions(dialer, new_connections(), TIMES)
        admitted = visitor(Use.FORWARD, port=port)
        async with serving(sessions.serve, admitted) as site, site.open() as caller:
            await caller.send_bytes(b"hello bye")
            assert [(await caller.receive()).data for _ in range(2)] == [b"hello bye", "end"]
