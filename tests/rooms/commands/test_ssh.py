"""OpenSSH to a unit: the host's key comes from the API, and the login from the ticket."""

import asyncio
import contextlib
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import asyncssh
import attrs
import pytest_asyncio
from aiohttp import WSMsgType, web

from tests.rooms.client.gateway import TICKET, Site, reachable
from tests.rooms.commands.running import run_command

KEY = asyncssh.generate_private_key("ssh-ed25519")
OTHER_KEY = asyncssh.generate_private_key("ssh-ed25519")


class Admitted(asyncssh.SSHServer):
    """The ticket came with the request, so nothing is asked for."""

    def begin_auth(self, username: str) -> bool:
        return username != "demo"


async def program(process: asyncssh.SSHServerProcess[bytes]) -> None:
    """Run the command here, with its input."""
    assert process.command is not None
    ran = await asyncio.create_subprocess_shell(
        process.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    out, _ = await ran.communicate(await process.stdin.read())
    process.stdout.write(out)
    assert ran.returncode is not None
    process.exit(ran.returncode)


async def served(response: web.WebSocketResponse) -> None:
    """Serve SSH within the WebSocket."""
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)

    async def back() -> None:
        with contextlib.suppress(aiohttp.ClientError):
            while piece := await reader.read(65_536):
                await response.send_bytes(piece)
            await response.close()

    async def forth() -> None:
        async for message in response:
            if message.type is WSMsgType.BINARY:
                writer.write(message.data)
        writer.close()

    options: dict[str, Any] = {"encoding": None, "process_factory": program}
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(back())
            group.create_task(forth())
            with contextlib.suppress(asyncssh.Error):
                connection = await asyncssh.run_server(
                    theirs, server_factory=Admitted, server_host_keys=[KEY], **options
                )
                await connection.wait_closed()
    finally:
        writer.transport.abort()


@pytest_asyncio.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with reachable(tmp_path) as found:
        found.ssh = served
        found.host_keys = (public(KEY),)
        yield found


def public(key: asyncssh.SSHKey) -> str:
    return key.export_public_key().decode().strip() + " with a comment"


@attrs.frozen
class Ran:
    code: int | None
    out: str
    err: str


async def command(site: Site, *words: str, given: bytes = b"", home: Path) -> Ran:
    process = await asyncio.create_subprocess_exec(
        *words,
        env={**os.environ, "GPURUNTIME_SERVER": site.address, "HOME": str(home)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = await process.communicate(given)
    return Ran(process.returncode, out.decode(), err.decode())


async def test_openssh_runs_a_command_with_its_input_and_its_exit_code(
    site: Site, tmp_path: Path
) -> None:
    listing = f"{shlex.quote(sys.executable)} -c 'import sys; print(sys.stdin.read().upper())'"
    seen = "ps axww; exit 7"
    words = (sys.executable, "-m", "gpuruntime", "units", "ssh", "demo", "--")
    ran = await command(site, *words, f"{listing}; {seen}", given=b"hello", home=tmp_path)
    assert (ran.code, ran.err) == (7, "")
    assert ran.out.startswith("HELLO\n")
    assert "units ssh --stdio demo" in ran.out
    assert TICKET not in ran.out
    assert not (tmp_path / ".ssh/known_hosts").exists()


async def by_printed_host(site: Site, folder: Path) -> Ran:
    """Run OpenSSH itself with the host that the command prints."""
    printed = await run_command(f"units ssh demo --config --server {site.address}", "")
    config = folder / "config"
    config.write_text(printed.out)
    words = ("ssh", "-F", str(config), "gpuruntime-demo", "echo it works")
    return await command(site, *words, home=folder)


async def test_a_printed_host_works_with_openssh_itself(site: Site, tmp_path: Path) -> None:
    site.host_keys = (public(OTHER_KEY), public(KEY))
    ran = await by_printed_host(site, tmp_path)
    assert ran == Ran(0, "it works\n", "")


async def test_another_host_key_is_refused_without_a_question(site: Site, tmp_path: Path) -> None:
    site.host_keys = (public(OTHER_KEY),)
    ran = await by_printed_host(site, tmp_path)
    assert (ran.code, ran.out) == (255, "")
    assert "Host key verification failed" in ran.err


async def test_without_host_keys_nothing_is_trusted(site: Site) -> None:
    site.host_keys = ()
    output = await run_command("units ssh demo", site.address)
    assert (output.code, "the gateway serves no SSH" in output.err) == (125, True)


async def test_a_refused_connection_is_said_in_words(site: Site) -> None:
    site.refusals["ssh"] = (403, {"code": "ticket_refused"})
    output = await run_command("units ssh demo --stdio", site.address)
    assert output.code == 125
    assert output.err.startswith("gpuruntime units ssh: it is ticket_refused")
