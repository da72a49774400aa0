"""SSH within a WebSocket: the ticket of the request is the login, and counts from then on."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
import asyncssh
import attrs
import pytest

from gpuruntime.gateway.app import Handlers, UnitHandler
from gpuruntime.gateway.ssh.server import SshContext, SshServer
from gpuruntime.gateway.ssh.web_socket import SshVerb
from gpuruntime.meter import NullMeter
from gpuruntime.settings.gateway import GatewayConnectionSettings
from tests.eventually import eventually
from tests.rooms.gateway.service import DEMO, DOMAIN, Caller, gateway
from tests.rooms.gateway.ssh.local_container import LocalContainer
from tests.rooms.gateway.ssh.ssh_world import HOST_KEY, OPTIONS, LocalReach
from tests.rooms.gateway.test_splice import stops_reading
from tests.rooms.gateway.visitors import NOW, ticket, unit

BEARER: Final = {"Authorization": f"Bearer {ticket(DEMO)}"}


@asynccontextmanager
async def ssh_gateway(home: Path, *, strangers: int = 0, **settings: Any) -> AsyncIterator[Caller]:
    """Run a gateway whose units' programs are processes of this machine.

    Some strangers take all the places of logins without a ticket.
    """
    options = attrs.evolve(OPTIONS, login_seconds=5, most_logins=strangers)
    verbs: dict[str, UnitHandler] = {}
    sockets: list[socket.socket] = []
    async with gateway(None, handlers=Handlers(verbs=verbs), **settings) as caller:
        context = caller.world.context
        ssh = SshContext(
            gate=context.gate,
            waker=context.waker,
            connections=context.connections,
            reach_of=lambda _: LocalReach(LocalContainer(home)),
            meter=NullMeter(),
            now=lambda: NOW,
        )
        server = SshServer(ssh, options, HOST_KEY)
        verbs["ssh"] = SshVerb(context.waker, context.connections, server).serve
        async with asyncio.TaskGroup() as tasks:
            for _ in range(strangers):
                silent, served = socket.socketpair()
                tasks.create_task(server.serve(served))
                sockets.append(silent)
            yield caller
            for each in sockets:
                each.close()


def opened(caller: Caller) -> Any:
    return caller.web_socket("/units/demo/ssh", host=f"gateway.{DOMAIN}", headers=BEARER)


@asynccontextmanager
async def carried(tunnel: aiohttp.ClientWebSocketResponse) -> AsyncIterator[int]:
    """Yield a port of this machine whose connection goes through the WebSocket."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def up() -> None:
            while data := await reader.read(65_536):
                await tunnel.send_bytes(data)

        rising = asyncio.create_task(up())
        async for message in tunnel:
            writer.write(message.data)
        rising.cancel()
        await asyncio.wait((rising,))
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
        await tunnel.close()


@asynccontextmanager
async def logged_in(
    tunnel: aiohttp.ClientWebSocketResponse,
) -> AsyncIterator[asyncssh.SSHClientConnection]:
    """Log in without a ticket."""
    async with carried(tunnel) as port:
        login = asyncssh.connect(
            "127.0.0.1",
            port,
            username="demo",
            known_hosts=([HOST_KEY.convert_to_public()], [], []),
            config=None,
            agent_path=None,
            client_keys=None,
        )
        async with login as connection:
            yield connection


async def output_of(tunnel: aiohttp.ClientWebSocketResponse, command: str) -> str:
    async with logged_in(tunnel) as connection:
        return str((await connection.run(command, check=True)).stdout)


async def test_the_ticket_of_the_request_is_the_login(tmp_path: Path) -> None:
    async with ssh_gateway(tmp_path) as caller:
        async with opened(caller) as tunnel:
            assert await output_of(tunnel, "echo hello") == "hello\n"
        await eventually(lambda: len(caller.world.connections) == 0)


@pytest.mark.parametrize(
    "now",
    [
        pytest.param(unit(generation=1), id="its generation is raised"),
        pytest.param(unit(suspended=True), id="it is suspended"),
        pytest.param(unit(uid="new"), id="it is another one"),
        pytest.param(None, id="it is deleted"),
    ],
)
async def test_a_revocation_during_the_login_ends_the_connection(tmp_path: Path, now: Any) -> None:
    async with ssh_gateway(tmp_path) as caller, opened(caller) as tunnel:
        if now is None:
            caller.world.delete(DEMO)
        else:
            caller.world.put(now)
        with pytest.raises((asyncssh.Error, OSError)):
            await output_of(tunnel, "touch reached")
        assert not (tmp_path / "reached").exists()


async def test_a_revocation_ends_the_connection_of_a_caller_that_takes_nothing(
    tmp_path: Path,
) -> None:
    async with (
        ssh_gateway(tmp_path) as caller,
        opened(caller) as tunnel,
        logged_in(tunnel) as connection,
    ):
        # More than what kernels hold is on its way.
        await connection.create_process("cat /dev/zero", window=64 * 1024 * 1024)
        transport = stops_reading(tunnel)
        await asyncio.sleep(0.5)
        assert len(caller.world.connections) == 1
        caller.world.put(unit(generation=1))
        await eventually(lambda: len(caller.world.connections), lambda count: count == 0)
        transport.abort()


async def test_strangers_keep_out_no_caller_with_a_ticket(tmp_path: Path) -> None:
    async with ssh_gateway(tmp_path, strangers=2) as caller, opened(caller) as tunnel:
        assert await output_of(tunnel, "echo hello") == "hello\n"


async def test_a_connection_counts_before_its_login(tmp_path: Path) -> None:
    limits = GatewayConnectionSettings(perTicket=1)
    async with ssh_gateway(tmp_path, connections=limits) as caller, opened(caller):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await opened(caller)
        assert refusal.value.status == 429
