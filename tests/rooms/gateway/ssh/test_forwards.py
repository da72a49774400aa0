"""Forwards over real connections: what is reached, what is refused, and half closes."""

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncssh
import attrs
import pytest

from gpuruntime.gateway.ssh.forwards import LONGEST_SOCKET
from tests.eventually import eventually
from tests.rooms.gateway.ssh.local_container import LocalContainer
from tests.rooms.gateway.ssh.ssh_world import LIMITS, ssh_world

HOSTS = {
    "localhost": True,
    "LocalHost": True,
    "127.0.0.1": True,
    "::1": True,
    "demo": False,
    "0.0.0.0": False,
    "::": False,
    "::ffff:127.0.0.1": False,
    "127.1": False,
    "127.0.0.2": False,
    "0x7f.1": False,
    "2130706433": False,
    "localhost.": False,
    "localhost.localdomain": False,
    "169.254.169.254": False,
    "10.96.0.1": False,
    "kubernetes.default.svc": False,
    "other-unit": False,
    "example.com": False,
    "": False,
    " localhost": False,
    "localhost\n": False,
}


async def reverse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer all bytes in reverse order, once the other side has ended its half."""
    writer.write((await reader.read())[::-1])
    await writer.drain()
    writer.close()


@asynccontextmanager
async def listening() -> AsyncIterator[int]:
    server = await asyncio.start_server(reverse, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize(("host", "is_reached"), HOSTS.items(), ids=[*map(repr, HOSTS)])
async def test_only_the_loopback_of_the_unit_is_forwarded_to(
    tmp_path: Path, host: str, is_reached: bool
) -> None:
    async with (
        listening() as port,
        ssh_world(tmp_path) as world,
        await world.login() as connection,
    ):
        if is_reached:
            reader, writer = await connection.open_connection(host, port)
            writer.write(b"abc")
            writer.write_eof()
            assert await reader.read() == b"cba"
            assert world.reach.dialled == [port]
        else:
            with pytest.raises(asyncssh.ChannelOpenError, match="only localhost of the unit is"):
                await connection.open_connection(host, port)
            assert world.reach.dialled == []


@pytest.mark.parametrize("port", [0, 65_536, 2**32 - 1])
async def test_a_number_that_is_no_port_is_refused(tmp_path: Path, port: int) -> None:
    async with ssh_world(tmp_path) as world, await world.login() as connection:
        with pytest.raises(asyncssh.ChannelOpenError, match="is no port"):
            await connection.open_connection("localhost", port)


async def test_a_port_at_which_nothing_listens_is_refused_in_words(tmp_path: Path) -> None:
    async with ssh_world(tmp_path) as world, await world.login() as connection:
        with pytest.raises(asyncssh.ChannelOpenError, match="nothing answers at port 1"):
            await connection.open_connection("localhost", 1)


async def test_bytes_come_back_as_they_were_from_many_forwards_at_once(tmp_path: Path) -> None:
    content = bytes(range(256)) * 4000
    async with (
        listening() as port,
        ssh_world(tmp_path) as world,
        await world.login() as connection,
    ):

        async def ask() -> bytes:
            reader, writer = await connection.open_connection("localhost", port)
            writer.write(content)
            writer.write_eof()
            answer: bytes = await reader.read()
            return answer

        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(ask()) for _ in range(8)]
        assert {each.result() for each in asked} == {content[::-1]}
        await eventually(lambda: len(world.connections) == 1)


async def test_forwards_count_among_the_connections_of_a_ticket(tmp_path: Path) -> None:
    limits = attrs.evolve(LIMITS, per_ticket=2)
    async with (
        listening() as port,
        ssh_world(tmp_path, limits=limits) as world,
        await world.login() as connection,
    ):
        _, writer = await connection.open_connection("localhost", port)
        with pytest.raises(asyncssh.ChannelOpenError, match="2 connections are open"):
            await connection.open_connection("localhost", port)
        writer.close()
        await eventually(lambda: len(world.connections) == 1)
        reader, writer = await connection.open_connection("localhost", port)
        writer.write_eof()
        assert await reader.read() == b""


async def test_forwards_end_with_their_connection(tmp_path: Path) -> None:
    async with listening() as port, ssh_world(tmp_path) as world:
        async with await world.login() as connection:
            await connection.open_connection("localhost", port)
            assert len(world.connections) == 2
        await eventually(lambda: len(world.connections) == 0)


@pytest.mark.parametrize("program", ["python3", "socat"])
async def test_a_socket_in_the_container_is_reached_by_a_relay(
    tmp_path: Path, program: str
) -> None:
    found = sys.executable if program == "python3" else shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / program).symlink_to(found)
    (programs / "sh").symlink_to("/bin/sh")
    container = LocalContainer(tmp_path, paths=str(programs))
    path = str(tmp_path / "a, 'socket'")
    server = await asyncio.start_unix_server(reverse, path)
    async with (
        server,
        ssh_world(tmp_path, container=container) as world,
        await world.login() as connection,
    ):
        reader, writer = await connection.open_unix_connection(path)
        writer.write(b"abc" * 50_000)
        writer.write_eof()
        assert await reader.read() == b"cba" * 50_000
        await eventually(lambda: len(world.connections) == 1)


async def test_an_image_without_a_relay_ends_the_forward(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "sh").symlink_to("/bin/sh")
    container = LocalContainer(tmp_path, paths=str(programs))
    async with (
        ssh_world(tmp_path, container=container) as world,
        await world.login() as connection,
    ):
        reader, _ = await connection.open_unix_connection("/tmp/none")
        assert await reader.read() == b""


@pytest.mark.parametrize("path", ["relative", "", "/nu\0l", f"/{'x' * LONGEST_SOCKET}"], ids=repr)
async def test_what_is_no_path_of_a_socket_is_refused(tmp_path: Path, path: str) -> None:
    async with ssh_world(tmp_path) as world, await world.login() as connection:
        with pytest.raises(asyncssh.ChannelOpenError, match="absolute path"):
            await connection.open_unix_connection(path)
        assert world.container.executed == []
