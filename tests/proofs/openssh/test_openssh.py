"""OpenSSH's programs reach a unit of dev: commands, files, forwards, git and VS Code's start."""

import asyncio
import io
import random
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from gpuruntime.client import Client, NewStock, NewTicket, NewUnit, Options, connect
from gpuruntime.client.errors import ClientError
from gpuruntime.embedded.processes.programs import Program
from gpuruntime.models.kinds.templates import EnvVar, Port, Template
from gpuruntime.models.kinds.units import Access
from gpuruntime.models.requests.tickets import Use
from tests.eventually import eventually
from tests.proofs.openssh.binaries import demand
from tests.proofs.openssh.laptop import Ended, Laptop
from tests.rooms.roles.dev.test_dev import printed, running

pytestmark = pytest.mark.cluster

IMAGE: Final = "example/python:1"
PYTHON: Final = Program(name="python", path=sys.executable)
DONE: Final = Ended(code=0, output=b"", errors="")
CONTENT: Final = random.Random(11).randbytes(20_000_000)


@asynccontextmanager
async def laptop_of(folder: Path) -> AsyncIterator[tuple[Client, Laptop]]:
    """Run dev with a unit `demo`, which serves its home; yield its user's laptop."""
    home, own = folder / "home", folder / "laptop"
    home.mkdir()
    own.mkdir()
    (home / "served").write_text("from the unit")
    key = await Laptop.generate_key(own)
    output = io.StringIO()
    programs = {IMAGE: PYTHON, "python": PYTHON}
    async with AsyncExitStack() as opened:
        await opened.enter_async_context(running(output, programs=programs))
        server = printed(output, "api")
        client = await opened.enter_async_context(connect(Options(server=server)))
        await client.stock.seed(NewStock(specName="s", replicas=1))
        template = Template(
            command=("python", "-m", "http.server", "8080", "--directory", str(home)),
            ports=(Port(name="http", port=8080),),
            envs=(EnvVar(name="HOME", value=str(home)),),
        )
        unit = NewUnit(
            name="demo",
            specName="s",
            image=IMAGE,
            template=template,
            access=Access(sshKeys=(key,)),
        )
        await eventually(lambda: client.units.create(unit), despite=ClientError)
        await eventually(
            lambda: client.units.get("demo"), lambda reply: reply.data.phase == "Ready"
        )
        ticket = await client.units.ticket("demo", NewTicket(uses=(Use.SSH,)))
        yield client, Laptop(own, ticket.data, server)


@pytest.fixture
async def reach(tmp_path: Path) -> AsyncIterator[tuple[Client, Laptop]]:
    demand()
    async with laptop_of(tmp_path) as opened:
        yield opened


@pytest.mark.parametrize("host", ["unit", "keyed", "carried"])
async def test_a_command_runs_by_ticket_by_key_and_within_a_websocket(
    reach: tuple[Client, Laptop], host: str
) -> None:
    _, laptop = reach
    ended = await laptop.ssh(host, "cat; exit 7", given=CONTENT)
    assert (ended.code, ended.output == CONTENT, ended.errors) == (7, True, "")
    ended = await laptop.ssh("-tt", host, "stty size; tty")
    assert (ended.code, b"/dev/" in ended.output) == (0, True), ended


async def test_scp_copies_equal_bytes_both_ways_by_both_protocols(
    reach: tuple[Client, Laptop],
) -> None:
    _, laptop = reach
    (laptop.folder / "big").write_bytes(CONTENT)
    (laptop.folder / "tree/inner").mkdir(parents=True)
    (laptop.folder / "tree/inner/a b").write_bytes(b"small")
    for number, flags in enumerate([(), ("-O",)]):
        there, back = f"there{number}", f"back{number}"
        assert await laptop.scp(*flags, "big", f"unit:{there}") == DONE
        assert await laptop.scp(*flags, f"unit:{there}", back) == DONE
        assert (laptop.folder / back).read_bytes() == CONTENT
        assert await laptop.scp(*flags, "-r", "-p", "tree", f"unit:~/tree{number}") == DONE
        assert await laptop.scp(*flags, "-r", f"unit:tree{number}", f"tree{number}") == DONE
        assert (laptop.folder / f"tree{number}/inner/a b").read_bytes() == b"small"


async def test_sftp_changes_files_and_continues_a_transfer(reach: tuple[Client, Laptop]) -> None:
    _, laptop = reach
    (laptop.folder / "big").write_bytes(CONTENT)
    (laptop.folder / "part").write_bytes(CONTENT[:7_000_001])
    ended = await laptop.sftp(
        "pwd",
        "put big one",
        "rename one two",
        "mkdir folder",
        "chmod 600 two",
        "ls -l",
        "reget two part",
        "put part three",
        "get two back",
        "symlink two link",
        "df",
        "rm link",
        "rmdir folder",
    )
    assert ended.code == 0, ended
    assert b"two" in ended.output
    assert (laptop.folder / "part").read_bytes() == CONTENT
    assert (laptop.folder / "back").read_bytes() == CONTENT
    ended = await laptop.sftp("get nothing")
    assert ended.code == 1
    assert "not found" in ended.errors


@asynccontextmanager
async def tunnel(laptop: Laptop, *flags: str, port: int) -> AsyncIterator[None]:
    """Run `ssh -N` until it listens at the port of this machine."""
    process = await laptop.start_ssh("-N", "-o", "ExitOnForwardFailure yes", *flags, "unit")
    try:
        await eventually(lambda: _connects(port))
        yield
    finally:
        process.terminate()
        await process.communicate()


def _connects(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


async def test_ports_are_forwarded_and_proxied(reach: tuple[Client, Laptop]) -> None:
    _, laptop = reach
    server = await asyncio.start_server(_reversed, "127.0.0.1", 0)
    undeclared = server.sockets[0].getsockname()[1]
    declared, loopback, proxy = _free_port(), _free_port(), _free_port()
    flags = (
        *("-L", f"{declared}:localhost:8080"),
        *("-L", f"{loopback}:127.0.0.1:{undeclared}"),
        *("-D", str(proxy)),
    )
    async with server, tunnel(laptop, *flags, port=declared):
        assert await _fetched("127.0.0.1", declared) == b"from the unit"
        assert await _answer(loopback, CONTENT[:1_000_000]) == CONTENT[:1_000_000][::-1]
        curl = ("curl", "-sS", "--max-time", "20", "--socks5-hostname", f"127.0.0.1:{proxy}")
        ended = await laptop.run(*curl, "http://localhost:8080/served")
        assert ended.output == b"from the unit", ended
        ended = await laptop.run(*curl, "http://kubernetes.default.svc/")
        assert ended.code != 0


async def test_a_socket_is_forwarded(reach: tuple[Client, Laptop], tmp_path: Path) -> None:
    _, laptop = reach
    path, local = str(tmp_path / "s"), _free_port()
    server = await asyncio.start_unix_server(_reversed, path)
    async with server, tunnel(laptop, "-L", f"{local}:{path}", port=local):
        assert await _answer(local, b"abc" * 100_000) == b"cba" * 100_000


async def test_git_clones_and_pushes(reach: tuple[Client, Laptop]) -> None:
    _, laptop = reach
    begun = await laptop.ssh("unit", "git init -q --bare repository")
    assert begun.code == 0, begun
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.com")
    assert (await laptop.run("git", "clone", "-q", "unit:repository", "clone")).code == 0
    (laptop.folder / "clone/file").write_bytes(CONTENT[:100_000])
    for arguments in (("add", "."), ("commit", "-q", "-m", "a"), ("push", "-q", "origin", "HEAD")):
        ended = await laptop.run(*git, "-C", "clone", *arguments)
        assert ended.code == 0, ended
    assert (await laptop.run("git", "clone", "-q", "unit:repository", "again")).code == 0
    assert (laptop.folder / "again/file").read_bytes() == CONTENT[:100_000]


async def test_visual_studio_code_starts_as_it_does_elsewhere(
    reach: tuple[Client, Laptop],
) -> None:
    """Its extension runs `ssh -T -D`, whose shell reads a script, and stays for its proxy."""
    _, laptop = reach
    proxy = _free_port()
    process = await laptop.start_ssh(
        "-T", "-D", str(proxy), "-o", "ConnectTimeout=15", "unit", "bash"
    )
    assert process.stdin is not None
    assert process.stdout is not None
    script = (
        'echo "start: $HOME"\nuname -sm\n'
        "{ command -v curl || command -v wget; } >/dev/null && echo downloader\n"
        "command -v tar >/dev/null && echo tar\n"
        'echo "listeningOn==8080=="\nsleep 60\n'
    )
    process.stdin.write(script.encode())
    async with asyncio.timeout(30):
        begun = await process.stdout.readuntil(b"listeningOn==8080==\n")
    assert b"start: " in begun
    assert b"tar\n" in begun
    await eventually(lambda: _connects(proxy))
    ended = await laptop.run(
        "curl", "-sS", "--socks5", f"127.0.0.1:{proxy}", "http://127.0.0.1:8080/served"
    )
    assert ended.output == b"from the unit", ended
    process.terminate()
    await process.communicate()


async def test_what_is_not_allowed_is_refused_in_words(reach: tuple[Client, Laptop]) -> None:
    client, laptop = reach
    ended = await laptop.ssh("-l", "other", "unit", "true")
    assert ended.code == 255
    assert "Permission denied" in ended.errors
    ended = await laptop.ssh("-o", "LogLevel INFO", "-W", "10.96.0.1:443", "unit")
    assert ended.code != 0
    assert "only localhost of the unit is" in ended.errors
    ended = await laptop.ssh(
        "-o", "ExitOnForwardFailure yes", "-R", "0:localhost:1", "unit", "true"
    )
    assert ended.code == 255
    await client.units.revoke_tickets("demo")
    ended = await laptop.ssh("-o", "LogLevel INFO", "unit", "true")
    assert ended.code == 255
    assert "the ticket has been revoked" in ended.errors


async def test_open_sessions_end_with_the_tickets_of_the_unit(
    reach: tuple[Client, Laptop],
) -> None:
    client, laptop = reach
    running_ones = [
        await laptop.start_ssh("-o", "LogLevel INFO", host, "echo on; sleep 600")
        for host in ("unit", "keyed", "carried")
    ]
    for process in running_ones:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"on\n"
    await client.units.revoke_tickets("demo")
    async with asyncio.timeout(60):
        ended = [await process.communicate() for process in running_ones]
    assert [process.returncode for process in running_ones] == [255] * 3
    assert all(b"the login has ended: revoked" in errors for _, errors in ended)


async def _reversed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write((await reader.read())[::-1])
    await writer.drain()
    writer.close()


async def _answer(port: int, given: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(given)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer


async def _fetched(host: str, port: int) -> bytes:
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(b"GET /served HTTP/1.0\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer.partition(b"\r\n\r\n")[2]
