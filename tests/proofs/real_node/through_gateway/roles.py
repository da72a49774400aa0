"""The product's roles as processes beside the real node, and callers with nothing but a token.

Units run as Pods of the node. The api requires tokens, and the gateway has its own account with
the rights of `manifests/gateway` and `manifests/gateway-exec`.
"""

import asyncio
import hashlib
import json
import os
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from gpuruntime.client.options import Options
from gpuruntime.gateway.ssh.host_key import write_host_key
from gpuruntime.models.kinds import labels
from tests.eventually import eventually_blocking
from tests.proofs.openssh.laptop import PROGRAM_SECONDS, Ended
from tests.proofs.real_cluster.controlplane import ControlPlane
from tests.proofs.real_cluster.processes import free_port
from tests.proofs.real_cluster.product import Caller, Installation, installation, request
from tests.rooms.manifests.overlays import sources

NAME = "reach"
SPEC = "reach.1"
TENANT = "team-a"
SMALL = {"cpu": "20m", "memory": "64Mi", "ephemeralStorage": "100Mi"}


class Roles:
    """An api in mode token, a manager and a gateway with SSH, on the node's control plane."""

    def __init__(self, made: Installation, folder: Path) -> None:
        self.plane = made.plane
        self.installation = made
        self.folder = folder
        self.tokens = {name: folder / f"{name}.token" for name in ("operator", TENANT)}
        for path in self.tokens.values():
            path.write_text(secrets.token_hex(32))
        gateway, ssh, api = free_port(), free_port(), free_port()
        self.server = f"http://127.0.0.1:{api}"
        settings = {
            **made.reach,
            "listen": f"127.0.0.1:{gateway}",
            "activityListen": "127.0.0.1:0",
            "publicURL": f"http://*.localhost:{gateway}",
            "plainHosts": True,
            "api": self.server,
            "ssh": {
                "listen": f"127.0.0.1:{ssh}",
                "host": f"localhost:{ssh}",
                "hostKeyFile": str(self._host_key()),
            },
        }
        auth = {"mode": "token", "tokenFile": str(self._token_file())}
        self._processes = [
            made.api(listen=f"127.0.0.1:{api}", auth=auth, gateway=settings),
            made.manager(podDefaults=SMALL, gateway=settings),
            made.gateway(gateway=settings),
        ]
        for process in self._processes:
            process.wait_until_ready()

    def caller(self, name: str = TENANT) -> Caller:
        """Return a caller with the token of the operator or of the tenant."""
        token = self.tokens[name].read_text()
        return Caller(self.server, send=partial(request, token=token))

    @property
    def options(self) -> Options:
        return Options(server=self.server, token_file=str(self.tokens[TENANT]))

    def logs(self) -> str:
        """Return what all roles have logged."""
        return "".join(process.log.read_text() for process in self._processes)

    def metrics(self) -> str:
        """Return the metrics of all roles."""
        urls = (f"{process.operations}/metrics" for process in self._processes)
        return "".join(str(request("GET", url).document) for url in urls)

    def seed(self, replicas: int) -> None:
        """Order stock as the operator does, and wait until it is ready."""
        operation = f"stock-{time.monotonic_ns()}"
        stock = {"operationID": operation, "specName": SPEC, "memory": "64Mi"}
        caller = self.caller("operator")
        answer = caller.post("/operator/stock-units", {**stock, "replicas": replicas})
        assert answer.status in (200, 202), answer
        caller.until(f"/operator/jobs/{operation}", lambda job: job["ready"] == replicas)

    def claim(self, name: str, **body: Any) -> None:
        """Create a unit as the tenant does; right after a deletion the name may not be free."""
        unit = {"operationID": f"unit-{time.monotonic_ns()}", "name": name, "specName": SPEC}
        eventually_blocking(
            lambda: self.caller().post("/gpu-units", {**unit, **body}),
            lambda answer: answer.status in (200, 201),
        )

    def ready(self, name: str) -> None:
        path = f"/gpu-units/{name}"
        self.caller().until(path, lambda unit: unit["phase"] == "Ready")

    async def run(self, *arguments: str, given: bytes = b"") -> Ended:
        """Run the command line with the tenant's token, and nothing else, to its end."""
        return await self.program(sys.executable, "-m", "gpuruntime", *arguments, given=given)

    async def program(self, *arguments: str, given: bytes = b"") -> Ended:
        """Run any program as the tenant would."""
        async with asyncio.timeout(PROGRAM_SECONDS):
            process = await self.start(*arguments)
            output, errors = await process.communicate(given)
        return Ended(code=process.returncode, output=output, errors=errors.decode())

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "GPURUNTIME_SERVER": self.server,
            "GPURUNTIME_TOKEN_FILE": str(self.tokens[TENANT]),
        }
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            *arguments, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, cwd=self.folder
        )

    def _token_file(self) -> Path:
        digests = {
            name: hashlib.sha256(path.read_bytes()).hexdigest()
            for name, path in self.tokens.items()
        }
        entries = [
            {"name": "operator", "sha256": digests["operator"], "role": "operator"},
            {"name": TENANT, "sha256": digests[TENANT], "role": "tenant", "tenants": [TENANT]},
        ]
        path = self.folder / "tokens.yaml"
        path.write_text(yaml.safe_dump({"tokens": entries}))
        return path

    def _host_key(self) -> Path:
        path = self.folder / "ssh_host_key"
        write_host_key(path)
        return path


@contextmanager
def started_roles(plane: ControlPlane, folder: Path) -> Iterator[Roles]:
    """Yield the roles of an installation of its own; its units are deleted with the block."""
    with installation(plane, folder, NAME) as made:
        # The namespaces are also outside of an installation that another test left.
        for namespace in (made.stock, made.instance):
            mark = f"{labels.UNMANAGED}=true"
            plane.kubectl("label", "namespace", namespace, mark, "--overwrite")
        for document in map(made.renamed, sources("gateway-exec")):
            plane.kubectl("apply", "-f", "-", stdin=json.dumps(document))
        yield Roles(made, folder)
        _clear(made)


def _clear(made: Installation) -> None:
    for namespace in (made.instance, made.stock):
        made.plane.kubectl("delete", "gpuunits", "--all", "-n", namespace, "--wait=false")
        force = ("--all", "--force", "--grace-period=0", "--wait=false")
        made.plane.kubectl("delete", "pods", *force, "-n", namespace)
    eventually_blocking(
        lambda: not made.objects("pods", made.instance) + made.objects("pods", made.stock)
    )
