"""The containers of a Pod as processes, started and stopped in order.

As on a real node, init containers run first, one by one. One with restart policy Always is a
sidecar: the next container may start once it has started, and it stops after the main ones.
"""

import asyncio
import shutil
from collections.abc import Iterator
from typing import Final

import structlog

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.embedded.nodes.pod_secrets import MissingSecretError, failed_mount
from gpuruntime.embedded.processes.container_process import ContainerProcess, PodContext
from gpuruntime.embedded.processes.pod_folder import NotYetError, PodFolder
from gpuruntime.embedded.processes.probes import port_asked
from gpuruntime.embedded.processes.programs import ProcessRules

log = structlog.get_logger()

POLL_SECONDS: Final = 0.5
REFRESH_SECONDS: Final = 2.0


class PodProcesses:
    def __init__(self, context: PodContext, folder: PodFolder, rules: ProcessRules) -> None:
        spec = context.pod.spec
        self.inits, self.mains = (
            tuple(
                ContainerProcess(each, rules.program_of(each), context, is_init=is_init)
                for each in containers
            )
            for is_init, containers in ((True, spec.initContainers), (False, spec.containers))
        )
        self.problem = ""
        self.is_over = False
        self._context = context
        self._folder = folder
        self._starting: asyncio.Task[None] | None = None
        self._is_ending = False

    @property
    def uid(self) -> str:
        return self._context.pod.metadata.uid

    @property
    def running(self) -> Iterator[ContainerProcess]:
        return (each for each in (*self.inits, *self.mains) if each.is_running)

    async def run(self) -> None:
        """Run until all containers have ended for good; if cancelled, stop them at once."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._starting = tasks.create_task(self._start(tasks), name="starting")
        finally:
            self.is_over = True
            self._context.changed()

    async def end(self, grace_seconds: float) -> None:
        """Stop the containers within the grace period; do nothing if they are already stopping."""
        if self._is_ending or self._starting is None:
            return
        self._is_ending = True
        self._starting.cancel()
        await self._stop(grace_seconds)

    def remove(self) -> None:
        shutil.rmtree(self._context.folder, ignore_errors=True)

    async def _start(self, tasks: asyncio.TaskGroup) -> None:
        await self._prepare()
        refreshing = tasks.create_task(self._refresh(), name="secrets")
        try:
            await self._run_all(tasks)
        finally:
            refreshing.cancel()
        await self._stop(float(self._context.pod.spec.terminationGracePeriodSeconds))

    async def _run_all(self, tasks: asyncio.TaskGroup) -> None:
        """Run until the main containers have ended for good or an init container has failed."""
        for init in self.inits:
            running = self._run(tasks, init)
            if init.container.restartPolicy == "Always":
                await init.started.wait()
            elif not await running:
                return
        await asyncio.wait([self._run(tasks, main) for main in self.mains])

    def _run(self, tasks: asyncio.TaskGroup, each: ContainerProcess) -> asyncio.Task[bool]:
        places = self._folder.places_of(each.container)
        return tasks.create_task(each.run(places), name=each.container.name)

    async def _prepare(self) -> None:
        while True:
            try:
                await self._folder.prepare()
                break
            except (NotYetError, MissingSecretError) as error:
                if isinstance(error, MissingSecretError) and str(error) != self.problem:
                    self._context.note(failed_mount(error))
                self.problem = str(error)
                self._context.changed()
                await asyncio.sleep(POLL_SECONDS)
        self.problem = ""

    async def _refresh(self) -> None:
        """Keep the Secrets' files current; the files of a deleted Secret stay."""
        logged = ""
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            try:
                await self._folder.prepare()
                logged = ""
            except MissingSecretError:
                logged = ""
            except NotYetError as error:
                if logged != str(error):
                    logged = str(error)
                    pod = str(self._context.pod.metadata.key)
                    log.warning("volumes not refreshed", pod=pod, reason=logged)

    async def _stop(self, grace_seconds: float) -> None:
        """Stop the main containers at once, then the others in reverse order."""
        due_at = loop_time() + grace_seconds
        before = self.mains
        async with asyncio.TaskGroup() as tasks:
            for main in self.mains:
                port = self._hook_port(main)
                tasks.create_task(main.stop(due_at, hook_port=port), name="stop")
            for init in reversed(self.inits):
                port = self._hook_port(init)
                tasks.create_task(init.stop(due_at, hook_port=port, after=before), name="stop")
                before = (init,)

    def _hook_port(self, each: ContainerProcess) -> int:
        """Return the hook's port, which may be another container's: a Pod has one address."""
        asked = port_asked(each.hook)
        listeners = (each, *self.inits, *self.mains)
        return next(filter(None, (other.ports.real(asked) for other in listeners)), 0)
