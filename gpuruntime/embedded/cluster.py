"""The embedded cluster: the API server, controllers, scheduler and nodes on one event loop.

With one seed and the loop's time as clock, two runs of the same requests behave the same.
"""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import datetime
from random import Random
from typing import Any, Final, TypeAlias

import attrs

from gpuruntime.embedded.apiserver.in_process_transport import InProcessTransport
from gpuruntime.embedded.apiserver.pod_logs import LogRequest
from gpuruntime.embedded.apiserver.server import Server, ServerOptions
from gpuruntime.embedded.controllers.custom_kinds import CustomKinds
from gpuruntime.embedded.controllers.garbage_collector import GarbageCollector
from gpuruntime.embedded.controllers.informers import Informers
from gpuruntime.embedded.controllers.lost_nodes import LostNodes
from gpuruntime.embedded.controllers.service_accounts import ServiceAccounts
from gpuruntime.embedded.controllers.volume_controller import Claims, Volumes
from gpuruntime.embedded.devices.claim_controller import DeviceClaims
from gpuruntime.embedded.kinds.builtin_kinds import BUILTIN_KINDS
from gpuruntime.embedded.kinds.pod_objects import Pod
from gpuruntime.embedded.nodes.failures import Pace
from gpuruntime.embedded.nodes.kubelet import Kubelet
from gpuruntime.embedded.nodes.seed_objects import NodeOptions, create_seed_objects
from gpuruntime.embedded.nodes.simulated_logs import SimulatedLogs
from gpuruntime.embedded.objects.admission import CreationPolicy
from gpuruntime.embedded.objects.registry import Kind
from gpuruntime.embedded.objects.state_folder import StateFolder
from gpuruntime.embedded.processes.container_process import ContainerProcess
from gpuruntime.embedded.processes.pods import ProcessPods
from gpuruntime.embedded.processes.process_logs import LogFile, ProcessLogs
from gpuruntime.embedded.processes.process_streams import ProcessStreams
from gpuruntime.embedded.processes.programs import CommandRules, ProcessRules, Programs
from gpuruntime.embedded.scheduler.scheduler import NAME as SCHEDULER
from gpuruntime.embedded.scheduler.scheduler import Scheduler
from gpuruntime.embedded.workloads.deployment_controller import Deployments
from gpuruntime.embedded.workloads.job_controller import Jobs
from gpuruntime.embedded.workloads.replicaset_controller import ReplicaSets
from gpuruntime.informer.informer import Informer
from gpuruntime.kube.client import Client
from gpuruntime.kube.events import EventRecorder
from gpuruntime.models.kubernetes.metadata import Key, PartialObject
from gpuruntime.models.kubernetes.resources import Resource

Part: TypeAlias = Callable[[], Coroutine[Any, Any, None]]

KUBELET: Final = "kubelet"
# Kinds that own nothing and have no owner.
UNOWNED: Final = frozenset({"Event", "Lease"})


@attrs.frozen(kw_only=True, slots=True)
class ClusterOptions:
    """Options of the cluster; Pods with an image of `programs` run as processes.

    Those that `commands` cover run by their command alone. `volumes_root` is only written into
    volumes: a directory is created when a process mounts it.
    """

    nodes: NodeOptions = NodeOptions()
    pace: Pace = Pace()
    volumes_root: str = "/var/lib/gpuruntime/volumes"
    programs: Programs = attrs.field(factory=dict)
    commands: CommandRules | None = None
    policies: tuple[CreationPolicy, ...] = ()
    seed: int = 0


class EmbeddedCluster:
    """The server answers from the start; controllers and nodes work while `run` runs."""

    def __init__(
        self,
        *,
        now: Callable[[], datetime],
        options: ClusterOptions = ClusterOptions(),
        state: StateFolder | None = None,
    ) -> None:
        """Continue with the objects of the folder, if there is one, and keep it up to date."""
        self._rules = ProcessRules(programs=options.programs, commands=options.commands)
        logs = ProcessLogs(self._log_file, SimulatedLogs(self._pod))
        streams = ProcessStreams(self._containers, self._pod, self._rules)
        self.server = Server(
            now=now,
            rng=self._rng(options, "server"),
            logs=logs,
            streams=streams,
            options=ServerOptions(policies=options.policies),
            state=state,
        )
        self.transport = InProcessTransport(self.server)
        # Set once the nodes exist and all informers are synced.
        self.ready = asyncio.Event()
        self._options = options
        self._state = state
        self._now = _in_whole_seconds(now)
        self._client = Client(self.transport)
        self._informers = Informers(
            self._client, self._rng(options, "mirrors"), self._rng(options, "device mirrors")
        )
        self._kubelet_events = EventRecorder(
            self._client,
            component=KUBELET,
            now=self._now,
            rng=self._rng(options, f"events of {KUBELET}"),
        )
        self._processes = ProcessPods(
            self._client,
            self._informers,
            self._kubelet_events,
            rules=self._rules,
            now=self._now,
        )
        self._parts = {**self._controllers(), **self._collector()}

    async def run(self) -> None:
        """Run until cancelled; the first part that fails ends all."""
        await create_seed_objects(self._client, self._options.nodes, now=self._now())
        async with asyncio.TaskGroup() as tasks:
            for name, part in self._parts.items():
                tasks.create_task(part(), name=name)
            if self._state is not None:
                tasks.create_task(self._state.run(self.server.store), name="state")
            tasks.create_task(self._informers.run(), name="mirrors")
            await self._informers.synced()
            self.ready.set()

    def map_address(self, host: str, port: int) -> tuple[str, int] | None:
        """Return host and port of the process behind a Service's address, or None without one."""
        for service in self._informers.services.store.values():
            spec = service.spec
            if spec.clusterIP == host:
                targets = [each.targetPort for each in spec.ports if each.port == port]
                namespace = service.metadata.namespace
                found = [
                    self._processes.address_of(namespace, spec.selector, each) for each in targets
                ]
                return next(filter(None, found), None)
        return None

    def _pod(self, key: Key) -> Pod | None:
        return self._informers.pods.store.get(key)

    def _containers(self, key: Key) -> tuple[ContainerProcess, ...]:
        return self._processes.containers_of(key)

    def _log_file(self, request: LogRequest) -> LogFile | None:
        return self._processes.log_of(request)

    def _controllers(self) -> dict[str, Part]:
        client, informers, now, options = self._client, self._informers, self._now, self._options
        parts: dict[str, Part] = {f"events of {KUBELET}": self._kubelet_events.run}

        def recorder(component: str) -> EventRecorder:
            rng = self._rng(options, f"events of {component}")
            made = EventRecorder(client, component=component, now=now, rng=rng)
            parts[f"events of {component}"] = made.run
            return made

        jobs = Jobs(client, informers, recorder("job-controller"), now=now)
        sets = ReplicaSets(client, informers, recorder("replicaset-controller"), now=now)
        deployments = Deployments(client, informers, recorder("deployment-controller"), now=now)
        device_claims = DeviceClaims(client, informers, recorder("resource_claim"))
        claims = Claims(
            client,
            informers,
            recorder("persistentvolume-controller"),
            volumes_root=options.volumes_root,
        )
        scheduler = Scheduler(
            client, informers, recorder(SCHEDULER), now=now, rng=self._rng(options, "scheduler")
        )
        kubelet = Kubelet(
            client,
            informers,
            self._kubelet_events,
            now=now,
            pace=options.pace,
            rules=self._rules,
        )
        return parts | {
            "jobs": jobs.run,
            "replicasets": sets.run,
            "deployments": deployments.run,
            "claims": claims.run,
            "device claims": device_claims.run,
            "volumes": Volumes(client, informers).run,
            "lost nodes": LostNodes(client, informers, now=now).run,
            "service accounts": ServiceAccounts(client, informers).run,
            "scheduler": scheduler.run,
            "kubelet": kubelet.run,
            "processes": self._processes.run,
        }

    def _collector(self) -> dict[str, Part]:
        collector, rng = GarbageCollector(self._client), self._rng(self._options, "garbage")
        others = [
            Informer(self._client, resource, rng=rng)
            for resource in map(_resource_of, BUILTIN_KINDS)
            if resource.kind not in UNOWNED and resource.kind not in self._informers.kinds
        ]
        for informer in (*self._informers.all, *others):
            collector.follow(informer)
        custom = CustomKinds(self._client, rng, collector.follow)
        return {
            "garbage": collector.run,
            "custom kinds": custom.run,
            **{f"mirror {informer.resource}": informer.run for informer in others},
        }

    @staticmethod
    def _rng(options: ClusterOptions, part: str) -> Random:
        """Return a generator for one part, so that parts do not affect each other."""
        return Random(f"{options.seed} {part}")  # noqa: S311  # reproducible on purpose


def _in_whole_seconds(now: Callable[[], datetime]) -> Callable[[], datetime]:
    """Return a clock without microseconds: timestamps then survive encoding and decoding."""
    return lambda: now().replace(microsecond=0)


def _resource_of(kind: Kind) -> Resource[PartialObject]:
    return Resource(
        group=kind.group,
        version=kind.version,
        kind=kind.kind,
        plural=kind.plural,
        type=PartialObject,
        is_namespaced=kind.is_namespaced,
    )
