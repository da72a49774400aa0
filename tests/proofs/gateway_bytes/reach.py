"""A gateway and a unit behind it run as processes; their cluster is in this process.

The cluster is the embedded API server. The unit's Service is at 127.0.0.1, and its commands run on
this machine.
"""

import asyncio
import base64
import json
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import aiohttp
import attrs
import yaml

from gpuruntime.embedded.apiserver.http_listener import serve
from gpuruntime.embedded.apiserver.server import Server
from gpuruntime.kube.transport import Request
from gpuruntime.models.definitions.crds import crds
from gpuruntime.models.encoding import codec
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit, child_key
from gpuruntime.models.kubernetes.network import SERVICES
from gpuruntime.models.kubernetes.pods import PODS
from gpuruntime.models.requests.tickets import Use
from gpuruntime.tickets.addresses import PROGRAMS, slug_of
from gpuruntime.tickets.keys import TicketKey
from gpuruntime.tickets.tokens import Claims, TokenType, sign
from tests.eventually import eventually
from tests.proofs.bench.embedded_server import DEFINITIONS, send
from tests.proofs.bench.listing import unit
from tests.proofs.bench.pod_server import kubeconfig_of
from tests.rooms.client.gateway import PROCESSES, ProgramsHere

NAME: Final = "demo"
INSTANCE: Final = "runtime-instance"
DOMAIN: Final = "units.example.com"
KEY: Final = TicketKey(id="k1", secret=b"1" * 32)
START_SECONDS: Final = 120.0
UNBOUNDED: Final = 100_000


@attrs.frozen(kw_only=True)
class Reach:
    """The gateway's address and process, and the unit: its own ports, slug and a ticket for it."""

    port: int
    process_id: int
    unit_ports: Mapping[str, int]
    slug: str
    ticket: str

    @property
    def host(self) -> str:
        """The host of the unit's port `http`, for browsers."""
        return f"http--{self.slug}.{DOMAIN}"

    @property
    def program_host(self) -> str:
        return f"{PROGRAMS}.{DOMAIN}"

    @property
    def authorization(self) -> str:
        return f"Bearer {self.ticket}"

    def memory(self, name: str = "VmRSS") -> int:
        """Return a figure of the gateway's process in bytes."""
        lines = Path(f"/proc/{self.process_id}/status").read_text(encoding="ascii").splitlines()
        (found,) = (line for line in lines if line.startswith(f"{name}:"))
        return int(found.split()[1]) * 1024

    def processor_ticks(self) -> int:
        """Return the processor time of the gateway's process so far."""
        fields = Path(f"/proc/{self.process_id}/stat").read_text(encoding="ascii").split()
        return int(fields[13]) + int(fields[14])

    def forget_peak(self) -> None:
        """Let VmHWM begin again with the memory of now."""
        Path(f"/proc/{self.process_id}/clear_refs").write_text("5", encoding="ascii")


@asynccontextmanager
async def reach() -> AsyncIterator[Reach]:
    """Run unit and gateway until the block ends."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with _unit_program() as ports:
            programs = ProgramsHere(PROCESSES, folder)
            server = Server(now=lambda: datetime.now(UTC), rng=random.Random(7), streams=programs)
            uid = _fill(server, ports).metadata.uid
            async with serve(server) as url:
                before = asyncio.all_tasks()
                async with _gateway(folder, url) as (process_id, port):
                    made = Reach(
                        port=port,
                        process_id=process_id,
                        unit_ports=ports,
                        slug=slug_of(NAME, uid),
                        ticket=_ticket(uid),
                    )
                    await eventually(
                        lambda: _greeting(made),
                        lambda status: status == 200,
                        within_seconds=START_SECONDS,
                    )
                    yield made
                # A command that reads no input would outlive the gateway's connection.
                for command in programs.ran:
                    await command.kill()
                await eventually(
                    lambda: len(asyncio.all_tasks() - before),
                    lambda left: left == 0,
                    within_seconds=START_SECONDS,
                )


def _fill(server: Server, ports: Mapping[str, int]) -> GPUUnit:
    """Create the unit, its Service and its Pod, and return the unit."""
    for definition in crds():
        _created(server, DEFINITIONS, definition)
    _created(server, "/api/v1/namespaces", {"metadata": {"name": INSTANCE}})
    listed = [{"name": name, "port": port} for name, port in ports.items()]
    asked = unit(NAME, is_claimed=False)
    asked["spec"]["template"]["ports"] = listed
    body = _created(server, GPU_UNITS.path(namespace=INSTANCE), asked)
    made = codec.decode(body, GPUUnit)
    child = child_key(made).name
    owner = {
        "apiVersion": GPU_UNITS.api_version,
        "kind": GPU_UNITS.kind,
        "name": NAME,
        "uid": made.metadata.uid,
        "controller": True,
    }
    service = {
        "metadata": {
            "name": child,
            "labels": {labels.APP_NAME: labels.UNIT_APP},
            "ownerReferences": [owner],
        },
        "spec": {"clusterIP": "127.0.0.1", "ports": listed},
    }
    _created(server, SERVICES.path(namespace=INSTANCE), service)
    pod = {
        "metadata": {"name": child, "labels": {labels.UNIT_UID: made.metadata.uid}},
        "spec": {"nodeName": "node-1", "containers": [{"name": "runtime", "image": "any"}]},
    }
    _created(server, PODS.path(namespace=INSTANCE), pod)
    path = PODS.path(namespace=INSTANCE, name=child, subresource="status")
    send(server, "PATCH", path, {"status": {"phase": "Running"}})
    return made


def _created(server: Server, path: str, document: dict[str, Any]) -> bytes:
    answer = server.handle(Request(method="POST", path=path, body=json.dumps(document).encode()))
    assert answer.status == 201, answer.body
    return answer.body


@asynccontextmanager
async def _unit_program() -> AsyncIterator[dict[str, int]]:
    program = "tests.proofs.gateway_bytes.unit_program"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", program, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield json.loads(await process.stdout.readline())
    finally:
        process.kill()
        await process.wait()


@asynccontextmanager
async def _gateway(folder: Path, cluster: str) -> AsyncIterator[tuple[int, int]]:
    """Run the role, and yield its process and its port."""
    config, log = folder / "config.yaml", folder / "log"
    config.write_text(yaml.safe_dump(_settings(folder, cluster)), encoding="utf-8")
    command = (sys.executable, "-m", "gpuruntime", "gateway", "--config", str(config))
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(*command, stderr=output)
    try:
        port = await eventually(
            lambda: _port_in(log),
            within_seconds=START_SECONDS,
            explain=lambda: log.read_text(encoding="utf-8"),
        )
        yield process.pid, port
    finally:
        process.kill()
        await process.wait()


def _settings(folder: Path, cluster: str) -> dict[str, Any]:
    """Return the role's configuration, and write the files that it names."""
    kubeconfig, keys = folder / "kubeconfig", folder / "tickets.yaml"
    kubeconfig.write_text(yaml.safe_dump(kubeconfig_of(cluster)), encoding="utf-8")
    secret = base64.b64encode(KEY.secret).decode()
    document = {"keys": [{"id": KEY.id, "secret": secret}]}
    keys.write_text(yaml.safe_dump(document), encoding="utf-8")
    numbers = ("all", "perUnit", "perTicket", "execPerUnit")
    return {
        "operations": {"listen": "127.0.0.1:0"},
        "kubernetes": {"mode": "required", "kubeconfig": str(kubeconfig)},
        "namespaces": {"instance": INSTANCE},
        "connections": {"most": UNBOUNDED},
        "gateway": {
            "listen": "127.0.0.1:0",
            "activityListen": "127.0.0.1:0",
            "publicURL": f"http://*.{DOMAIN}",
            "keyFile": str(keys),
            "connections": dict.fromkeys(numbers, UNBOUNDED),
        },
    }


def _port_in(log: Path) -> int:
    """Return the port on which the gateway listens, or 0 if its log does not have it yet."""
    for line in log.read_text(encoding="utf-8").splitlines():
        logged = json.loads(line) if line.startswith("{") else {}
        if logged.get("event") == "gateway listening":
            return int(logged["address"].rpartition(":")[2])
    return 0


def _ticket(uid: str) -> str:
    now = int(time.time())
    claims = Claims(
        jti="bytes",
        uid=uid,
        unit=NAME,
        gen=0,
        use=tuple(Use),
        iat=now,
        exp=now + 12 * 3600,
        sub="tester",
    )
    return sign(claims, TokenType.TICKET, KEY)


async def _greeting(made: Reach) -> int:
    """Return the status of a request through the gateway."""
    headers = {"Host": made.host, "Authorization": made.authorization}
    url = f"http://127.0.0.1:{made.port}/"
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        return answer.status
