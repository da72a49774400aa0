"""The servers under test, lines to each of them, and short outages."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import attrs

from gpuruntime.embedded.apiserver.http_listener import serve
from gpuruntime.embedded.apiserver.in_process_transport import InProcessTransport
from gpuruntime.embedded.apiserver.server import Server
from gpuruntime.kube.connect.sources import Kubeconfig
from gpuruntime.kube.http import connect
from gpuruntime.kube.transport import Transport
from gpuruntime.roles.dev.dev import kubeconfig_of
from tests.proofs.conformance.servers import restart
from tests.proofs.machinery.lines import Line
from tests.proofs.real_cluster.controlplane import ControlPlane

SEED = 7


def now() -> datetime:
    return datetime.now(UTC)


@attrs.frozen(kw_only=True)
class World:
    """A restart ends every open stream. If it forgets, no earlier version can be read."""

    open_transport: Callable[[], Awaitable[Transport]]
    restart: Callable[[bool], Awaitable[None]]
    lines: list[Line] = attrs.field(factory=list)

    async def connect(self) -> Line:
        """Open a separate line for each process that the test plays."""
        line = Line(await self.open_transport())
        self.lines.append(line)
        return line


@asynccontextmanager
async def in_process() -> AsyncIterator[World]:
    server = new_server()

    async def open_transport() -> Transport:
        return InProcessTransport(server)

    async def restart_server(forgets: bool) -> None:
        for line in world.lines:
            line.cut()
        if forgets:
            server.compact()
        await asyncio.sleep(0.1)
        for line in world.lines:
            line.mend()

    world = World(open_transport=open_transport, restart=restart_server)
    yield world


@asynccontextmanager
async def over_http(folder: Path) -> AsyncIterator[World]:
    server, kubeconfig = new_server(), folder / "kubeconfig"
    async with AsyncExitStack() as listening, http_transports(kubeconfig) as open_transport:
        url = await listening.enter_async_context(serve(server))
        kubeconfig.write_text(json.dumps(kubeconfig_of(url)))

        async def restart_server(forgets: bool) -> None:
            await listening.aclose()
            if forgets:
                server.compact()
            await listening.enter_async_context(serve(server, port=int(url.rpartition(":")[2])))

        yield World(open_transport=open_transport, restart=restart_server)


@asynccontextmanager
async def real(plane: ControlPlane) -> AsyncIterator[World]:
    async def restart_server(forgets: bool) -> None:
        await asyncio.to_thread(restart, plane, forgets=forgets)

    async with http_transports(plane.kubeconfig) as open_transport:
        yield World(open_transport=open_transport, restart=restart_server)


@asynccontextmanager
async def http_transports(
    kubeconfig: Path,
) -> AsyncIterator[Callable[[], Awaitable[Transport]]]:
    """Yield an opener of transports with their own connections, which end with the context."""
    async with AsyncExitStack() as stack:

        async def open_transport() -> Transport:
            transport = await connect(Kubeconfig(str(kubeconfig)), now=now)
            stack.push_async_callback(transport.close)
            return transport

        yield open_transport


def new_server() -> Server:
    return Server(now=now, rng=random.Random(SEED))
