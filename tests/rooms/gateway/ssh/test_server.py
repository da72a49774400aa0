"""The ends of SSH connections: by the unit, by the ticket, by idleness, and at the end of all."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncssh
import attrs
import pytest

from gpuruntime.gateway.connections import End
from gpuruntime.gateway.ssh.logins import blob_of
from tests.eventually import eventually
from tests.rooms.gateway.ssh.ssh_world import LIMITS, OPTIONS, USER_KEY, SshWorld, ssh_world
from tests.rooms.gateway.visitors import NOW, ticket, unit

USER_LINE = USER_KEY.export_public_key().decode().strip()
BY_KEY: dict[str, Any] = {"client_keys": [USER_KEY], "password": None}


class Listening(asyncssh.SSHClient):
    def __init__(self) -> None:
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)

    async def end(self) -> Exception | None:
        """Return the reason for which the connection ends, within half a minute."""
        async with asyncio.timeout(30):
            return await self.lost


ENDINGS: dict[str, tuple[Callable[[SshWorld], None], str]] = {
    "its generation is raised": (
        lambda world: world.change(generation=1, sshKeys=(USER_LINE,)),
        "revoked",
    ),
    "it is suspended": (lambda world: world.put(unit(suspended=True)), "suspended"),
    "it is deleted": (lambda world: world.delete(), "unit_gone"),
    "it is another one": (lambda world: world.put(unit(uid="new")), "unit_gone"),
    "the replica stops": (lambda world: world.connections.end_all(End.STOPPING), "stopping"),
}


@pytest.mark.parametrize("is_by_key", [False, True], ids=["by ticket", "by key"])
@pytest.mark.parametrize(("act", "words"), ENDINGS.values(), ids=ENDINGS)
async def test_a_connection_ends_with_its_unit_and_says_why(
    tmp_path: Path, act: Callable[[SshWorld], None], words: str, is_by_key: bool
) -> None:
    async with ssh_world(tmp_path, unit(sshKeys=(USER_LINE,))) as world:
        client = Listening()
        options = BY_KEY if is_by_key else {}
        connection = await world.login(client_factory=lambda: client, **options)
        process = await connection.create_process("cat")
        act(world)
        assert words in str(await client.end())
        assert (await process.wait()).exit_status is None
        await eventually(lambda: len(world.connections) == 0)


async def test_a_connection_ends_after_its_ticket_and_the_grace(tmp_path: Path) -> None:
    limits = attrs.evolve(LIMITS, grace_seconds=0.2)
    soon = ticket(unit(), exp=int(NOW.timestamp()) + 1)
    async with ssh_world(tmp_path, limits=limits) as world:
        client = Listening()
        begun = asyncio.get_running_loop().time()
        await world.login(password=soon, client_factory=lambda: client)
        assert "expired" in str(await client.end())
        assert asyncio.get_running_loop().time() - begun > 1.0


async def test_a_changed_unit_keeps_its_connections(tmp_path: Path) -> None:
    async with ssh_world(tmp_path) as world, await world.login() as connection:
        world.change(sshKeys=(USER_LINE,))
        assert (await connection.run("echo on")).stdout == "on\n"


async def test_a_silent_connection_ends_and_one_that_moves_stays(tmp_path: Path) -> None:
    options = attrs.evolve(OPTIONS, idle_seconds=0.4)
    async with ssh_world(tmp_path, options=options) as world:
        silent, moving = Listening(), Listening()
        await world.login(client_factory=lambda: silent)
        connection = await world.login(client_factory=lambda: moving)
        await connection.create_process("while sleep 0.1; do echo on; done")
        assert "idle" in str(await silent.end())
        await asyncio.sleep(0.3)
        assert not moving.lost.done()
        connection.close()


async def test_what_the_unit_says_alone_is_no_activity(tmp_path: Path) -> None:
    async with ssh_world(tmp_path) as world, await world.login() as connection:
        await eventually(lambda: len(world.connections) == 1)
        ((begun, _),) = world.connections.activity().values()
        await connection.run("sleep 0.02; echo said")
        ((last, _),) = world.connections.activity().values()
        assert last == begun
        await connection.run("cat", input="typed")
        ((last, _),) = world.connections.activity().values()
        assert last > begun


async def test_the_end_of_the_server_ends_its_connections(tmp_path: Path) -> None:
    async with ssh_world(tmp_path) as world:
        client = Listening()
        connection = await world.login(client_factory=lambda: client)
        await connection.create_process("cat")
    await client.end()
    await connection.wait_closed()


async def test_other_protocols_are_answered_and_ended(tmp_path: Path) -> None:
    async with ssh_world(tmp_path) as world:
        for said in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01" * 3000, b"SSH-1.5-old\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
            writer.write(said)
            async with asyncio.timeout(5):
                with_reset = await asyncio.gather(reader.read(), return_exceptions=True)
            assert isinstance(with_reset[0], bytes | ConnectionError)
            writer.close()
        async with await world.login() as connection:
            assert (await connection.run("true")).exit_status == 0


async def test_compression_is_not_agreed(tmp_path: Path) -> None:
    async with ssh_world(tmp_path) as world:
        with pytest.raises(asyncssh.KeyExchangeFailed):
            await world.login(compression_algs=["zlib@openssh.com", "zlib"])


def test_the_key_of_the_tests_counts() -> None:
    assert blob_of(USER_LINE) is not None
