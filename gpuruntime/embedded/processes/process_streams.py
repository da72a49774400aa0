"""Commands in Pods that run as processes, and connections to their ports."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from gpuruntime.embedded.apiserver.pod_streams import ExecRequest, ForwardRequest, failed
from gpuruntime.embedded.apiserver.status_errors import StatusError, bad_request
from gpuruntime.embedded.kinds.pod_objects import Pod
from gpuruntime.embedded.processes.container_process import ContainerProcess
from gpuruntime.embedded.processes.programs import LOOPBACK, ProcessRules
from gpuruntime.embedded.processes.running_command import CommandOptions, RunningCommand
from gpuruntime.models.kubernetes.metadata import Key

HELD_BYTES: Final = 64 * 1024


class ProcessStreams:
    def __init__(
        self,
        containers_of: Callable[[Key], tuple[ContainerProcess, ...]],
        pod_of: Callable[[Key], Pod | None],
        rules: ProcessRules,
    ) -> None:
        self._containers_of = containers_of
        self._pod_of = pod_of
        self._rules = rules

    @asynccontextmanager
    async def command(self, request: ExecRequest) -> AsyncIterator[RunningCommand]:
        key = Key(request.namespace, request.pod)
        container = self._container(key, request.container)
        options = CommandOptions(has_input=request.has_input, has_terminal=request.has_terminal)
        arguments = request.arguments
        async with container.command(arguments, self._rules, options=options) as command:
            yield command

    async def dial(
        self, request: ForwardRequest
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        key = Key(request.namespace, request.pod)
        running = [each for each in self._containers_of(key) if each.is_running]
        if not running:
            raise self._refusal(key, f"pod {key}")
        for each in running:
            if (port := each.ports.real(request.port)) is not None:
                return await asyncio.open_connection(LOOPBACK, port, limit=HELD_BYTES)
        declared = {port for each in running for port in each.ports.by_number}
        listed = ", ".join(map(str, sorted(declared))) or "none"
        raise bad_request(f"no container declares this port; those that do: {listed}")

    def _container(self, key: Key, name: str) -> ContainerProcess:
        for each in self._containers_of(key):
            if each.container.name == name and each.is_running:
                return each
        raise self._refusal(key, f"container {name} of pod {key}")

    def _refusal(self, key: Key, subject: str) -> StatusError:
        """Return why the subject has no process: the Pod is simulated, or it does not run."""
        pod = self._pod_of(key)
        runs = pod is not None and pod.status.phase == "Running"
        if runs and not self._containers_of(key):
            return bad_request(f"{subject} is simulated: it has no process, no shell and no port")
        return failed(f"{subject} does not run")
