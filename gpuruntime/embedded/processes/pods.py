"""Pods that run as processes of this machine, as `programs` defines.

Each process listens only on this machine, at a port of its own, and sees its volumes as plain
folders. It ends with its Pod and with the cluster.
"""

import asyncio
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import count
from pathlib import Path

import attrs

from gpuruntime.controller.controller import DONE, Controller, Result
from gpuruntime.embedded.apiserver.pod_logs import LogRequest
from gpuruntime.embedded.controllers.event_writer import EventWriter
from gpuruntime.embedded.controllers.informers import Informers, write_status
from gpuruntime.embedded.kinds.pod_objects import PODS, ContainerStatus, Pod, PodStatus
from gpuruntime.embedded.nodes.pod_secrets import variables_of
from gpuruntime.embedded.nodes.pod_status_plan import Sandbox, ended, pod_status
from gpuruntime.embedded.processes.container_process import ContainerProcess, PodContext
from gpuruntime.embedded.processes.guarded_processes import Processes, guarded
from gpuruntime.embedded.processes.pod_folder import PodFolder
from gpuruntime.embedded.processes.pod_lifecycle import PodProcesses
from gpuruntime.embedded.processes.process_logs import LogFile
from gpuruntime.embedded.processes.programs import LOOPBACK, PROCESS, ProcessRules
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.kube.events import EventRecorder
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.workqueue.queue import WorkQueue


@attrs.frozen(slots=True)
class _RunningPod:
    """A running Pod, its start and addresses, and the task that runs it."""

    processes: PodProcesses
    sandbox: Sandbox
    task: asyncio.Task[None]


@attrs.frozen(slots=True)
class _RunResources:
    """Resources that exist only while `run` runs."""

    tasks: asyncio.TaskGroup
    processes: Processes
    root: Path


class ProcessPods:
    def __init__(
        self,
        client: Client,
        informers: Informers,
        recorder: EventRecorder,
        *,
        rules: ProcessRules,
        now: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._informers = informers
        self._pods = informers.pods
        self._events = EventWriter(recorder, PODS)
        self._rules = rules
        self._now = now
        self._held: dict[Key, _RunningPod] = {}
        self._numbers = count()
        self._resources: _RunResources | None = None
        self._queue: WorkQueue[Key] = WorkQueue("processes")
        self._controller = Controller("processes", self._queue, self.reconcile, workers=1)
        informers.pods.add_handler(self._on_pod)

    async def run(self) -> None:
        with tempfile.TemporaryDirectory(prefix="gr-") as root:
            async with guarded(Path(root)) as processes, asyncio.TaskGroup() as tasks:
                self._resources = _RunResources(tasks, processes, Path(root))
                await self._controller.run()

    def address_of(
        self, namespace: str, selector: Mapping[str, str], port: int | str
    ) -> tuple[str, int] | None:
        """Return the address of a container that declares the port, in a Pod of the selector.

        Return None if no such container runs.
        """
        for key, held in self._held.items():
            pod = self._pods.store.get(key)
            if pod is None or key.namespace != namespace or not selector:
                continue
            if selector.items() <= pod.metadata.labels.items():
                for each in held.processes.running:
                    if (real := each.ports.real(port)) is not None:
                        return LOOPBACK, real
        return None

    def log_of(self, request: LogRequest) -> LogFile | None:
        """Return the log, or None if the container does not run here."""
        for each in self.containers_of(Key(request.namespace, request.pod)):
            if each.container.name == request.container:
                run = each.status.restarts - request.is_previous
                return each.log(run), partial(each.is_in_run, run)
        return None

    def containers_of(self, key: Key) -> tuple[ContainerProcess, ...]:
        """Return the containers of the Pod, or nothing if it does not run here."""
        held = self._held.get(key)
        return (*held.processes.inits, *held.processes.mains) if held else ()

    async def reconcile(self, key: Key) -> Result:
        pod, held = self._pods.store.get(key), self._held.get(key)
        if held is not None and (pod is None or held.processes.uid != pod.metadata.uid):
            await self._drop(key, held)
            held = None
        if pod is None or not self._is_ours(pod):
            return DONE
        if held is None and not pod.is_ending and not pod.is_finished:
            held = self._held[key] = self._start(pod)
        if pod.is_ending and (held is None or held.processes.is_over):
            return await self._remove(pod)
        if held is None or self._resources is None:
            return DONE
        if pod.is_ending:
            grace_seconds = float(pod.metadata.deletionGracePeriodSeconds or 0)
            self._resources.tasks.create_task(held.processes.end(grace_seconds), name=f"end {key}")
        status = self._status(pod, held)
        await write_status(self._client, self._pods, pod, pod.status, status)
        return DONE

    def _is_ours(self, pod: Pod) -> bool:
        if not pod.spec.nodeName or not self._rules.run(pod):
            return False
        return self._rules.missing_in(pod) is None

    def _start(self, pod: Pod) -> _RunningPod:
        resources, key = self._resources, pod.metadata.key
        if resources is None:
            raise RuntimeError("Pods can only start while `run` runs")
        folder = resources.root / str(next(self._numbers))
        folder.mkdir()
        context = PodContext(
            pod=pod,
            folder=folder,
            processes=resources.processes,
            now=self._now,
            changed=lambda: self._queue.add(key),
            variables=partial(variables_of, self._client, pod),
            note=lambda note: self._events.note(pod, note),
            search_path=self._rules.search_path(pod),
        )
        volumes = PodFolder(folder, pod, self._client, self._informers)
        processes = PodProcesses(context, volumes, self._rules)
        task = resources.tasks.create_task(processes.run(), name=f"pod {key}")
        sandbox = Sandbox(began_at=self._now(), host_ip=LOOPBACK, pod_ip=LOOPBACK)
        return _RunningPod(processes, sandbox, task)

    async def _remove(self, pod: Pod) -> Result:
        if not pod.is_finished:
            status = ended(pod, now=self._now())
            await write_status(self._client, self._pods, pod, pod.status, status)
        if pod.metadata.deletionGracePeriodSeconds:
            with suppress(NotFoundError):
                await self._client.delete(
                    PODS, pod.metadata.key, uid=pod.metadata.uid, grace_seconds=0
                )
        return DONE

    async def _drop(self, key: Key, held: _RunningPod) -> None:
        """Stop the Pod's processes without a grace period."""
        held.task.cancel()
        await asyncio.wait([held.task])
        held.processes.remove()
        del self._held[key]

    def _status(self, pod: Pod, held: _RunningPod) -> PodStatus:
        processes, uid = held.processes, pod.metadata.uid
        running = [
            f"{each.pid} ({each.container.name}){each.ports.words}" for each in processes.running
        ]
        words = f"runs as processes of this machine: {', '.join(running) or 'none at present'}"
        return pod_status(
            pod,
            held.sandbox,
            tuple(_container_status(each, uid) for each in processes.inits),
            tuple(_container_status(each, uid) for each in processes.mains),
            has_sandbox=not processes.problem,
            now=self._now(),
            words=processes.problem if processes.problem and not running else words,
        )

    def _on_pod(self, key: Key, _: Pod | None, new: Pod | None) -> None:
        if key in self._held or (new is not None and self._rules.run(new)):
            self._queue.add(key)


def _container_status(each: ContainerProcess, uid: str) -> ContainerStatus:
    status, name = each.status, each.container.name
    has_begun = status.state.waiting is None or status.restarts > 0
    return ContainerStatus(
        name=name,
        image=each.container.image,
        state=status.state,
        lastState=status.last_state,
        ready=status.is_ready,
        restartCount=status.restarts,
        containerID=f"{PROCESS}{uid}/{name}/{status.restarts}" if has_begun else "",
        started=status.is_started,
    )
