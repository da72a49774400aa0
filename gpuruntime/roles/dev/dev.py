"""The whole product in one process: an embedded cluster and the roles on it.

It listens on this machine only. It leaves nothing behind but the state folder, if one is named.
"""

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import SystemRandom
from typing import Final, TextIO

import attrs
import yaml

from gpuruntime.embedded.apiserver.http_listener import serve
from gpuruntime.embedded.cluster import ClusterOptions, EmbeddedCluster
from gpuruntime.embedded.nodes.seed_objects import NodeOptions
from gpuruntime.embedded.objects.state_folder import StateFolder, state_folder
from gpuruntime.embedded.processes.programs import LOOPBACK, Program, Programs
from gpuruntime.errors import ConfigurationError
from gpuruntime.kube.client import Client
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds.activity import ACTIVITY_PATH
from gpuruntime.reconcilers.activity.reader import Replica
from gpuruntime.roles.activator import activator_role
from gpuruntime.roles.api import ApiParts, api_role
from gpuruntime.roles.cluster_connection import wall_clock
from gpuruntime.roles.dev.banner import Banner
from gpuruntime.roles.dev.broker import Broker, broker, end_restored_workers
from gpuruntime.roles.dev.gateway import with_gateway
from gpuruntime.roles.dev.installation import device_options, install, namespace_policy
from gpuruntime.roles.dev.ports import KeptPorts
from gpuruntime.roles.dev.programs import BROKER, command_rules, programs_at_hand
from gpuruntime.roles.gateway import gateway_role
from gpuruntime.roles.lifecycle import Role
from gpuruntime.roles.manager import manager_role
from gpuruntime.roles.process import Process
from gpuruntime.roles.results import results_role
from gpuruntime.settings.schema import NatsPeerSettings, OperationsSettings, Settings
from gpuruntime.settings.values import Address

READY_SECONDS: Final = 30.0
BROKER_SECONDS: Final = 5.0
BROKER_POLL_SECONDS: Final = 0.02
NOTHING_KEPT: Final = "ends with this process; --state DIR keeps it"


class Dev:
    """`only_cluster` runs the cluster for kubectl, without any role."""

    def __init__(
        self,
        settings: Settings,
        *,
        only_cluster: bool = False,
        state: str = "",
        output: TextIO = sys.stdout,
        programs: Programs | None = None,
    ) -> None:
        """`programs` are by default the programs found on this machine.

        `state` names a folder that keeps everything over restarts.
        """
        gateway = settings.gateway
        for key, address in {
            "listen": settings.listen,
            "gateway.listen": gateway.listen,
            "gateway.activityListen": gateway.activityListen,
        }.items():
            if not address.is_loopback:
                raise ConfigurationError(
                    f"{key}: {address} is reachable from other machines: dev runs commands and "
                    "is for this machine only, listen on 127.0.0.1"
                )
        self._settings = settings
        self._only_cluster = only_cluster
        self._state_path = Path(state).resolve() if state else None
        self._output = output
        self._programs = programs_at_hand(settings) if programs is None else programs
        self._roles: list[Role] = []
        # The address of the gateway's activity, once it serves.
        self._gateway: asyncio.Future[str]

    async def run(self) -> None:
        if self._state_path:
            with state_folder(self._state_path) as state:
                await self._run_in(state.path, state)
            return
        with tempfile.TemporaryDirectory(prefix="gpuruntime-") as folder:
            await self._run_in(Path(folder), None)

    async def _run_in(self, folder: Path, state: StateFolder | None) -> None:
        async with self._queue(folder, is_kept=state is not None) as queue:
            if queue is not None:
                self._settings = _with_queue(self._settings, queue)
            if not self._only_cluster:
                self._settings = with_gateway(self._settings, folder)
            await self._run_on_a_cluster(folder, queue, state)

    @asynccontextmanager
    async def _queue(self, folder: Path, *, is_kept: bool) -> AsyncIterator[Broker | None]:
        """Run a broker unless one is configured, none is installed, or no role will run."""
        program = self._programs.get(BROKER, Program(name=BROKER))
        if self._only_cluster or self._settings.nats.url or not program.path:
            yield None
            return
        async with broker(program.path, folder, is_kept=is_kept) as started:
            yield started

    async def _run_on_a_cluster(
        self, folder: Path, queue: Broker | None, state: StateFolder | None
    ) -> None:
        options = ClusterOptions(
            nodes=NodeOptions(devices=device_options(self._settings.dev.devices)),
            volumes_root=str(folder / "volumes"),
            programs=self._programs,
            commands=command_rules(self._settings),
            policies=(namespace_policy(self._settings.namespaces),),
            # Not the seed of an earlier run: a restored cluster would give its uids twice.
            seed=SystemRandom().getrandbits(64),
        )
        cluster = EmbeddedCluster(now=wall_clock, options=options, state=state)
        try:
            await self._run_with(cluster, folder, queue, state)
        finally:
            if state is not None:
                state.close(cluster.server.store)

    async def _run_with(
        self,
        cluster: EmbeddedCluster,
        folder: Path,
        queue: Broker | None,
        state: StateFolder | None,
    ) -> None:
        ports = KeptPorts(folder)
        self._gateway = asyncio.get_running_loop().create_future()
        async with (
            asyncio.TaskGroup() as tasks,
            serve(cluster.server, port=ports.get("cluster")) as url,
        ):
            ports.keep("cluster", int(url.rpartition(":")[2]))
            tasks.create_task(cluster.run(), name="cluster")
            if queue is not None:
                tasks.create_task(queue.run(), name="queue")
            async with asyncio.timeout(READY_SECONDS):
                await cluster.ready.wait()
            client = Client(cluster.transport)
            await install(client, self._settings)
            if queue is not None and queue.has_moved:
                await end_restored_workers(client, self._settings.namespaces.instance)
            kubeconfig = folder / "kubeconfig"
            kubeconfig.write_text(yaml.safe_dump(kubeconfig_of(url)), encoding="utf-8")
            api = "" if self._only_cluster else await self._start_roles(tasks, cluster)
            banner = Banner(
                settings=self._settings, api=api, kubeconfig=kubeconfig, state=_words_of(state)
            )
            self._output.write(banner.text)
            self._output.flush()
            await asyncio.Event().wait()

    async def drain(self) -> None:
        for role in reversed(self._roles):
            await role.drain()

    async def _start_roles(self, tasks: asyncio.TaskGroup, cluster: EmbeddedCluster) -> str:
        """Start the roles, and return the api's address once it serves.

        The api gets the configured operations listener, and the others get free ports.
        """
        operations = self._settings.operations.listen
        host = operations.host if operations.is_loopback else "127.0.0.1"
        anywhere = self._with_operations(Address(host, 0))
        api = api_role(
            self._with_operations(Address(host, operations.port)),
            transport=cluster.transport,
            process=Process(map_address=cluster.map_address),
        )
        manager = manager_role(
            anywhere, transport=cluster.transport, process=Process(gateways=self._gateways)
        )
        roles: dict[str, Role] = {"manager": manager}
        if self._settings.nats.url:
            roles["results"] = results_role(anywhere)
            roles["activator"] = activator_role(anywhere, transport=cluster.transport)
        for name, role in {**roles, "api": api}.items():
            self._roles.append(role)
            tasks.create_task(role.run(), name=name)
        parts = await api.opened()
        await parts.serving()
        await self._start_gateway(tasks, cluster, anywhere, parts.address)
        if self._settings.nats.url:
            await _until_connected(parts)
        return parts.address

    async def _start_gateway(
        self, tasks: asyncio.TaskGroup, cluster: EmbeddedCluster, settings: Settings, api: str
    ) -> None:
        """Start the gateway, which asks the api to wake units, and wait until it serves."""
        given = attrs.evolve(settings.gateway, api=settings.gateway.api or api)
        gateway = gateway_role(
            attrs.evolve(settings, gateway=given),
            transport=cluster.transport,
            process=Process(map_address=cluster.map_address),
        )
        self._roles.append(gateway)
        tasks.create_task(gateway.run(), name="gateway")
        parts = await gateway.opened()
        await parts.serving()
        self._gateway.set_result(parts.activity)

    async def _gateways(self) -> tuple[Replica, ...]:
        """Return the gateway once it serves: it is a task of this process, and no Pod."""
        url = f"{await asyncio.shield(self._gateway)}{ACTIVITY_PATH}"
        return (Replica(uid="gateway", name="gateway", url=url, serves=True, is_ready=True),)

    def _with_operations(self, address: Address) -> Settings:
        elections = attrs.evolve(self._settings.leaderElection, enabled=False)
        return attrs.evolve(
            self._settings,
            operations=OperationsSettings(listen=address),
            leaderElection=elections,
        )


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


async def _until_connected(parts: ApiParts) -> None:
    """Wait until the api takes invocations, or for a while if there is no broker at the URL."""
    with suppress(TimeoutError):
        async with asyncio.timeout(BROKER_SECONDS):
            while not parts.facts["queue"]:  # noqa: ASYNC110 - two other rooms would have to tell
                await asyncio.sleep(BROKER_POLL_SECONDS)


def _words_of(state: StateFolder | None) -> str:
    """Return what the banner says of the state."""
    if state is None:
        return NOTHING_KEPT
    if state.restored is None:
        return f"{state.path}, new"
    count = len(state.restored.records)
    if state.restored.was_killed:
        return (
            f"{state.path}, {count} objects restored; the last run was killed: changes of its "
            "last second may be lost"
        )
    return f"{state.path}, {count} objects restored"


def _with_queue(settings: Settings, queue: Broker) -> Settings:
    """Name the broker as a peer. Policies are not enforced here, but the manager requires one."""
    peer = NatsPeerSettings(address=LOOPBACK, port=int(queue.url.rpartition(":")[2]))
    return attrs.evolve(
        settings,
        nats=attrs.evolve(settings.nats, url=queue.url),
        network=attrs.evolve(settings.network, nats=peer),
    )
