"""The Pods whose image stands for a program of this machine: each runs as a process of ours.

It listens on this machine alone, at a port of its own choice, and sees its volumes as plain
folders. It ends with its Pod, and with the cluster.
"""

import asyncio
import socket
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import IO, Final

import attrs

from gpuruntime.controller.controller import Controller
from gpuruntime.controller.result import DONE, Result
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.local.container_course import FIRST_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS
from gpuruntime.local.kubelet_plan import Life, ended, pod_status
from gpuruntime.local.mirrors import Mirrors, write_status
from gpuruntime.local.pod_objects import (
    PODS,
    Container,
    ContainerState,
    ContainerStatus,
    Pod,
    PodStatus,
    Terminated,
)
from gpuruntime.local.programs import (
    LOOPBACK,
    PROCESS,
    Program,
    Programs,
    arguments_of,
    program_of,
)
from gpuruntime.models.metadata import Key
from gpuruntime.models.pods import Running, Waiting
from gpuruntime.workqueue.queue import WorkQueue

LOOK_EVERY_SECONDS: Final = 0.5
CONNECT_SECONDS: Final = 1.0
_MOST_WORDS: Final = 2_000


@attrs.define(slots=True)
class _Run:
    """One process of a Pod; the moments are the loop's."""

    uid: str
    port: int
    began_at: datetime
    process: subprocess.Popen[bytes]
    said: IO[bytes]
    restarts: int = 0
    end: Terminated | None = None
    again_at: float = 0.0

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    @property
    def last_words(self) -> str:
        self.said.seek(0)
        return self.said.read()[-_MOST_WORDS:].decode(errors="replace").strip()

    def stop(self) -> None:
        """At once: it has nothing to hand over."""
        self.process.kill()
        self.process.wait()
        self.said.close()


class ProcessPods:
    def __init__(
        self, client: Client, mirrors: Mirrors, *, programs: Programs, now: Callable[[], datetime]
    ) -> None:
        self._client = client
        self._mirrors = mirrors
        self._pods = mirrors.pods
        self._programs = programs
        self._now = now
        self._runs: dict[Key, _Run] = {}
        self._queue: WorkQueue[Key] = WorkQueue("processes")
        self._controller = Controller("processes", self._queue, self.reconcile, workers=1)
        mirrors.pods.add_handler(self._on_pod)

    async def run(self) -> None:
        try:
            await self._controller.run()
        finally:
            for key in tuple(self._runs):
                self._stop(key)

    def address_of(self, namespace: str, selector: Mapping[str, str]) -> tuple[str, int] | None:
        """Where a Service with that selector leads to; None while no process runs for it."""
        for key, run in self._runs.items():
            pod = self._pods.store.get(key)
            if pod is None or key.namespace != namespace or not run.is_running:
                continue
            if selector and selector.items() <= pod.metadata.labels.items():
                return LOOPBACK, run.port
        return None

    async def reconcile(self, key: Key) -> Result:
        pod, run = self._pods.store.get(key), self._runs.get(key)
        if run is not None and (pod is None or run.uid != pod.metadata.uid):
            self._stop(key)
        program = program_of(pod, self._programs) if pod else None
        if pod is None or program is None or not program.path or not pod.spec.nodeName:
            return DONE
        if pod.is_ending:
            return await self._end(pod)
        folders = self._folders(pod)
        if folders is None:
            return Result(LOOK_EVERY_SECONDS)
        run = self._kept(pod, program, folders)
        status = self._status(pod, run, is_ready=await _answers(run))
        await write_status(self._client, self._pods, pod, pod.status, status)
        return Result(LOOK_EVERY_SECONDS)

    def _kept(self, pod: Pod, program: Program, folders: Mapping[str, str]) -> _Run:
        """The run of the Pod, or the next one once its back-off is over."""
        key, run = pod.metadata.key, self._runs.get(pod.metadata.key)
        now = asyncio.get_running_loop().time()
        if run is None:
            run = self._runs[key] = self._start(pod, program, folders)
        elif not run.is_running and run.end is None:
            self._note_end(run, now)
        elif run.end is not None and now >= run.again_at:
            self._stop(key)
            before, run = run, self._start(pod, program, folders)
            run.restarts, run.end = before.restarts + 1, None
            self._runs[key] = run
        return run

    def _start(self, pod: Pod, program: Program, folders: Mapping[str, str]) -> _Run:
        for folder in folders.values():
            Path(folder).mkdir(parents=True, exist_ok=True)
        port, said = _free_port(), tempfile.TemporaryFile()  # noqa: SIM115  # as long as the run
        process = subprocess.Popen(  # noqa: S603  # the program is one that dev was given
            [program.path, *arguments_of(pod.spec.containers[0], folders, port)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
        )
        return _Run(
            uid=pod.metadata.uid, port=port, began_at=self._now(), process=process, said=said
        )

    def _note_end(self, run: _Run, now: float) -> None:
        run.again_at = now + _backoff_after(run.restarts)
        run.end = Terminated(
            exitCode=run.process.returncode or 0,
            reason="Error" if run.process.returncode else "Completed",
            message=run.last_words,
            startedAt=run.began_at,
            finishedAt=self._now(),
        )

    def _folders(self, pod: Pod) -> dict[str, str] | None:
        """By mount path; None while a claim of the Pod has no volume."""
        folders: dict[str, str] = {}
        sources = {each.name: each.persistentVolumeClaim for each in pod.spec.volumes}
        for mount in pod.spec.containers[0].volumeMounts:
            source = sources.get(mount.name)
            if source is None:
                continue
            claim = self._mirrors.claims.store.get(Key(pod.metadata.namespace, source.claimName))
            name = claim.spec.volumeName if claim else ""
            volume = self._mirrors.volumes.store.get(Key("", name))
            if volume is None or volume.spec.hostPath is None:
                return None
            folders[mount.mountPath] = volume.spec.hostPath.path
        return folders

    def _status(self, pod: Pod, run: _Run, *, is_ready: bool) -> PodStatus:
        life = Life(began_at=run.began_at, host_ip=LOOPBACK, pod_ip=LOOPBACK)
        container = _container_status(pod.spec.containers[0], run, is_ready=is_ready)
        words = f"runs as process {run.process.pid} of this machine, at {LOOPBACK}:{run.port}"
        return pod_status(
            pod, life, (), (container,), has_sandbox=True, now=self._now(), words=words
        )

    async def _end(self, pod: Pod) -> Result:
        self._stop(pod.metadata.key)
        if not pod.is_finished:
            status = ended(pod, now=self._now())
            await write_status(self._client, self._pods, pod, pod.status, status)
        if pod.metadata.deletionGracePeriodSeconds:
            with suppress(NotFoundError):
                await self._client.delete(
                    PODS, pod.metadata.key, uid=pod.metadata.uid, grace_seconds=0
                )
        return DONE

    def _stop(self, key: Key) -> None:
        run = self._runs.pop(key, None)
        if run is not None:
            run.stop()

    def _on_pod(self, key: Key, _: Pod | None, new: Pod | None) -> None:
        if key in self._runs or (new is not None and program_of(new, self._programs)):
            self._queue.add(key)


def _backoff_after(restarts: int) -> float:
    """As of simulated containers: the first restart comes at once."""
    if not restarts:
        return 0.0
    return min(FIRST_BACKOFF_SECONDS * 2.0 ** (restarts - 1), LONGEST_BACKOFF_SECONDS)


def _container_status(container: Container, run: _Run, *, is_ready: bool) -> ContainerStatus:
    state = ContainerState(running=Running(startedAt=run.began_at))
    if run.end is not None:
        words = f"back-off restarting failed container={container.name}"
        state = ContainerState(waiting=Waiting(reason="CrashLoopBackOff", message=words))
    return ContainerStatus(
        name=container.name,
        image=container.image,
        state=state,
        lastState=ContainerState(terminated=run.end),
        ready=is_ready,
        restartCount=run.restarts + (run.end is not None),
        containerID=f"{PROCESS}{run.uid}/{container.name}/{run.restarts}",
        started=run.end is None,
    )


async def _answers(run: _Run) -> bool:
    if run.end is not None:
        return False
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(LOOPBACK, run.port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


def _free_port() -> int:
    with socket.create_server((LOOPBACK, 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
