"""The containers of one Pod as processes: one after the other at the start, in turn at the end.

As on a real node, init containers go first, one by one. One that always restarts is a sidecar: the
next may begin once it has started, and it ends after the main containers have.
"""

import asyncio
import shutil
from collections.abc import Iterator, Mapping
from typing import Final

from gpuruntime.local.container_process import ContainerProcess, Surroundings
from gpuruntime.local.pod_folder import NotYetError, PodFolder
from gpuruntime.local.programs import Programs, program_of

LOOK_AGAIN_SECONDS: Final = 0.5


class PodProcesses:
    def __init__(self, around: Surroundings, folder: PodFolder, programs: Programs) -> None:
        spec = around.pod.spec
        self.inits, self.mains = (
            tuple(
                ContainerProcess(each, program_of(each, programs), around, is_init=is_init)
                for each in containers
            )
            for is_init, containers in ((True, spec.initContainers), (False, spec.containers))
        )
        self.problem = ""
        self.is_over = False
        self._around = around
        self._folder = folder
        self._starting: asyncio.Task[None] | None = None
        self._is_ending = False

    @property
    def uid(self) -> str:
        return self._around.pod.metadata.uid

    @property
    def running(self) -> Iterator[ContainerProcess]:
        return (each for each in (*self.inits, *self.mains) if each.is_running)

    async def run(self) -> None:
        """Until all containers have ended for good, or with the task: then at once."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._starting = tasks.create_task(self._start(tasks), name="starting")
        finally:
            self.is_over = True
            self._around.changed()

    async def end(self, grace_seconds: float) -> None:
        """Asked again it does nothing."""
        if self._is_ending or self._starting is None:
            return
        self._is_ending = True
        self._starting.cancel()
        await self._stop(grace_seconds)

    def remove(self) -> None:
        shutil.rmtree(self._around.folder, ignore_errors=True)

    async def _start(self, tasks: asyncio.TaskGroup) -> None:
        places = await self._places()
        for init in self.inits:
            running = tasks.create_task(init.run(places), name=init.container.name)
            if init.container.restartPolicy == "Always":
                await init.started.wait()
            elif not await running:
                break
        else:
            mains = [
                tasks.create_task(main.run(places), name=main.container.name)
                for main in self.mains
            ]
            await asyncio.wait(mains)
        await self._stop(float(self._around.pod.spec.terminationGracePeriodSeconds))

    async def _places(self) -> Mapping[str, str]:
        while True:
            try:
                return await self._folder.prepare()
            except NotYetError as error:
                self.problem = str(error)
                self._around.changed()
                await asyncio.sleep(LOOK_AGAIN_SECONDS)

    async def _stop(self, grace_seconds: float) -> None:
        """The main containers at once, then the others, the last one first."""
        due_at = asyncio.get_running_loop().time() + grace_seconds
        before = self.mains
        async with asyncio.TaskGroup() as tasks:
            for main in self.mains:
                tasks.create_task(main.stop(due_at), name="stop")
            for init in reversed(self.inits):
                tasks.create_task(init.stop(due_at, after=before), name="stop")
                before = (init,)
