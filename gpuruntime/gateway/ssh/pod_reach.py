"""Units as SSH reaches them in the cluster: their Pod's container, and their ports."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from gpuruntime.gateway.containers.missing_shell import NO_SHELL, says_no_shell
from gpuruntime.gateway.containers.port_dialer import ByteStream, DialError, PortDialer
from gpuruntime.gateway.containers.unit_pods import running_pod
from gpuruntime.gateway.errors import GatewayError
from gpuruntime.gateway.ssh.container import (
    Container,
    ContainerError,
    Execution,
    NotRunError,
    Program,
    Stream,
)
from gpuruntime.kube import pod_exec
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import ApiError, KubeError, NotFoundError
from gpuruntime.models.kinds.templates import RUNTIME_CONTAINER
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.exec_streams import Output
from gpuruntime.models.kubernetes.metadata import Key

_NO_SHELL: Final = f"{NO_SHELL}, which SSH needs: `units exec` runs a program that it has"


class PodReach:
    """A unit for the time of a connection. Its Pod is looked up once, and again if it is gone."""

    def __init__(self, client: Client, dialer: PortDialer, unit: GPUUnit) -> None:
        self._client = client
        self._dialer = dialer
        self._unit = unit
        self._pod: Key | None = None
        self._lookup = asyncio.Lock()

    @property
    def container(self) -> Container:
        return self

    @asynccontextmanager
    async def execute(self, program: Program) -> AsyncIterator[Execution]:
        command = pod_exec.Command(
            container=RUNTIME_CONTAINER,
            arguments=program.arguments,
            has_input=program.has_input,
            has_terminal=program.has_terminal,
        )
        with _translated():
            pod = await self._running_pod()
            try:
                async with pod_exec.execute(self._client, pod, command) as execution:
                    yield _PodExecution(execution)
            except NotFoundError:
                self._pod = None
                raise

    @asynccontextmanager
    async def dial(self, port: int) -> AsyncIterator[Stream]:
        with _translated():
            async with self._dialer.dial(self._unit, port) as stream:
                yield _PortStream(stream)

    async def _running_pod(self) -> Key:
        async with self._lookup:
            if self._pod is None:
                self._pod = await running_pod(self._client, self._unit)
            return self._pod


class _PodExecution:
    def __init__(self, execution: pod_exec.Execution) -> None:
        self._execution = execution

    @property
    def exit_code(self) -> int | None:
        return self._execution.exit_code

    async def write(self, data: bytes) -> None:
        with _translated():
            await self._execution.write(data)

    async def end_input(self) -> None:
        with _translated():
            await self._execution.end_input()

    async def resize(self, *, columns: int, rows: int) -> None:
        with _translated():
            await self._execution.resize(columns=columns, rows=rows)

    async def output(self) -> AsyncIterator[Output]:
        with _translated():
            try:
                async for each in self._execution.output():
                    yield each
            except ApiError as error:
                words = str(error)
                named = f"{_NO_SHELL} ({words})" if says_no_shell(words) else words
                raise NotRunError(named) from error


class _PortStream:
    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream

    async def write(self, data: bytes) -> None:
        with _translated():
            await self._stream.write(data)

    async def end(self) -> None:
        with _translated():
            await self._stream.end()

    async def output(self) -> AsyncIterator[bytes]:
        with _translated():
            async for data in self._stream.output():
                yield data


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (KubeError, GatewayError, DialError) as error:
        raise ContainerError(str(error)) from error
