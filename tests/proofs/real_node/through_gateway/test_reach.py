"""Units of a real node as their tenant reaches them, with nothing but the tenant's token."""

import asyncio
import random
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from gpuruntime.client import Client, NewTicket, connect
from gpuruntime.client.errors import CutOffError
from gpuruntime.client.loopback import LoopbackResolver
from gpuruntime.models.requests.tickets import Use
from gpuruntime.models.views.tickets import TicketView
from tests.eventually import eventually
from tests.proofs.openssh.laptop import Ended, Laptop
from tests.proofs.real_cluster.processes import free_port
from tests.proofs.real_node.configuration import PAUSE_IMAGE
from tests.proofs.real_node.images.oci_archive import Image
from tests.proofs.real_node.images.preloaded import BUSYBOX, PYTHON, Images
from tests.proofs.real_node.node import Node
from tests.proofs.real_node.through_gateway import far_sides as far
from tests.proofs.real_node.through_gateway.roles import Roles
from tests.rooms.gateway.containers.scripted_cluster import closed

pytestmark = pytest.mark.node

TOOLS: Final = "docker.io/library/tools:1"
NO_SHELL: Final = "docker.io/library/no-shell:1"
DONE: Final = Ended(code=0, output=b"", errors="")
CONTENT: Final = random.Random(11).randbytes(3_000_000)
HTTP: Final = {"name": "http", "port": 8080}
ECHO: Final = {"name": "echo", "port": far.WEB_SOCKET_PORT}
SERVING: Final = {
    "command": ["sh", "-c", 'python -c "$0" & exec python -m http.server 8080', far.SERVERS],
    "ports": [HTTP, ECHO],
}
IDLE: Final = {"command": ["sh", "-c", "trap exit TERM; sleep 1d & wait"]}
HTTPD: Final = "trap exit TERM; httpd -f -p 127.0.0.1:7000 & httpd -f -p 8080 & wait"
# `demo` has python3, `tools` has git and sftp-server beside a BusyBox, `far` has python3 without
# sh, and `bare` has one static program. The others are for tests that end them.
UNITS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "demo": (PYTHON, SERVING),
    "tools": (TOOLS, {"command": ["sh", "-c", HTTPD], "ports": [HTTP]}),
    "far": (NO_SHELL, {"command": ["python3", "-c", far.FAR_SIDES]}),
    "bare": (PAUSE_IMAGE, {}),
    "deleted": (PYTHON, SERVING),
    "suspended": (PYTHON, SERVING),
    "revoked": (PYTHON, SERVING),
}
# The gateway's promise: a revocation ends every connection in this time.
REVOKED_SECONDS: Final = 60.0


@pytest.fixture(scope="module")
def units(
    roles: Roles, real_node: Node, images: Images, tmp_path_factory: pytest.TempPathFactory
) -> Roles:
    """Start all units at once."""
    folder = tmp_path_factory.mktemp("images")
    for name, layers in ((TOOLS, ("files", "busybox", "tools")), (NO_SHELL, ("files", "python"))):
        archive = folder / f"{len(layers)}.tar"
        images.pack(archive, Image(name=name), *layers)
        real_node.take_image(archive)
    roles.seed(len(UNITS) + 1)
    for name, (image, template) in UNITS.items():
        roles.claim(name, image=image, template=template)
    for name in UNITS:
        roles.ready(name)
    return roles


@pytest.fixture
async def client(units: Roles) -> AsyncIterator[Client]:
    async with connect(units.options) as opened:
        yield opened


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(resolver=LoopbackResolver())
    async with aiohttp.ClientSession(connector=connector) as opened:
        yield opened


async def create_ticket(client: Client, unit: str, *uses: Use, port: str = "") -> TicketView:
    return (await client.units.ticket(unit, NewTicket(uses=uses, port=port))).data


async def laptop_of(units: Roles, client: Client, unit: str, folder: Path) -> Laptop:
    view = await create_ticket(client, unit, Use.SSH)
    return Laptop(folder, view, units.server, token_file=str(units.options.token_file))


async def test_programs_have_their_streams_and_exit_codes(units: Roles) -> None:
    async with asyncio.TaskGroup() as tasks:
        ways = [
            tasks.create_task(units.run(*words, given=given))
            for words, given in (
                (("units", "exec", "-i", "demo", "--", "sh", "-c", "cat; exit 7"), b"given"),
                (("units", "shell", "demo"), b"echo given\nexit 7\n"),
                (("units", "ssh", "demo", "--", "cat; exit 7"), b"given"),
            )
        ]
    for way in ways:
        ended = way.result()
        assert (ended.code, ended.output.strip(), ended.errors) == (7, b"given", "")


async def test_curl_and_a_websocket_reach_ports_with_a_ticket(
    units: Roles, client: Client, session: aiohttp.ClientSession
) -> None:
    view = await create_ticket(client, "demo", Use.HTTP, port="http")
    origin = view.url.partition("/.gpuruntime")[0]
    header = f"Authorization: Bearer {view.ticket}"
    ended = await units.program("curl", "-sS", "-H", header, f"{origin}/etc/passwd")
    assert ended.output.startswith(b"root:x:0:0:"), ended
    view = await create_ticket(client, "demo", Use.HTTP, port="echo")
    origin = view.url.partition("/.gpuruntime")[0]
    headers = {"Authorization": f"Bearer {view.ticket}"}
    async with session.ws_connect(f"{origin}/", headers=headers) as socket:
        await socket.send_bytes(b"over and back")
        assert await socket.receive_bytes(timeout=20) == b"over and back"


async def test_folders_are_copied_both_ways(units: Roles, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "inner").mkdir(parents=True)
    (tree / "inner/big").write_bytes(CONTENT)
    for unit in ("demo", "tools"):
        there, back = f"{unit}:/tmp/{tmp_path.name}", tmp_path / unit
        for words in ((str(tree), there), (there, str(back))):
            ended = await units.run("units", "cp", "-r", *words)
            assert ended.code == 0, ended
        assert (back / "inner/big").read_bytes() == CONTENT


async def test_a_forward_of_the_command_line_reaches_both_kinds_of_ports(units: Roles) -> None:
    command = ("-m", "gpuruntime", "units", "forward", "demo", ":http", f":{far.LOOPBACK_PORT}")
    process = await units.start(sys.executable, *command)
    assert process.stdout
    async with asyncio.timeout(30):
        lines = [await process.stdout.readline() for _ in range(2)]
    http, loopback = (int(line.split(b" ")[0].rpartition(b":")[2]) for line in lines)
    assert b"root:x:0" in await exchange(http, b"GET /etc/passwd HTTP/1.0\r\n\r\n")
    assert await exchange(loopback, b"quiet" * 100_000) == b"QUIET" * 100_000
    process.terminate()
    await process.communicate()


async def exchange(port: int, given: bytes) -> bytes:
    """Send bytes and a half close to a local port, and return all that comes back."""
    async with asyncio.timeout(30):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(given)
        writer.write_eof()
        data = await reader.read()
        writer.close()
        await writer.wait_closed()
    return data


@pytest.mark.parametrize("unit", ["demo", "tools"])
async def test_scp_and_sftp_copy_equal_bytes_with_and_without_a_server_in_the_image(
    units: Roles, client: Client, tmp_path: Path, unit: str
) -> None:
    laptop = await laptop_of(units, client, unit, tmp_path)
    (tmp_path / "big").write_bytes(CONTENT)
    for number, flags in enumerate([(), ("-O",)] if unit == "demo" else [()]):
        assert await laptop.scp(*flags, "big", "unit:/tmp/big") == DONE
        assert await laptop.scp(*flags, "unit:/tmp/big", f"back{number}") == DONE
        assert (tmp_path / f"back{number}").read_bytes() == CONTENT
    ended = await laptop.sftp("cp /tmp/big /tmp/copy", "get /tmp/copy again", host="unit")
    assert ended.code == 0, ended
    assert (tmp_path / "again").read_bytes() == CONTENT


async def test_git_clones_over_ssh(units: Roles, client: Client, tmp_path: Path) -> None:
    laptop = await laptop_of(units, client, "tools", tmp_path)
    there = f"/tmp/{tmp_path.name}"
    script = (
        f"git init -q --template= {there} && cd {there} && echo kept >file && git add . &&"
        " git -c user.name=a -c user.email=a@example.com commit -q -m first"
    )
    assert await laptop.ssh("unit", script) == DONE
    ended = await laptop.run("git", "clone", "-q", f"unit:{there}", "clone")
    assert ended.code == 0, ended
    assert (tmp_path / "clone/file").read_text() == "kept\n"


@asynccontextmanager
async def tunnel(laptop: Laptop, *flags: str, port: int) -> AsyncIterator[None]:
    """Run `ssh -N` until it listens at the port of this machine."""
    process = await laptop.start_ssh("-N", "-o", "ExitOnForwardFailure yes", *flags, "unit")
    try:
        await eventually(lambda: is_listening(port))
        yield
    finally:
        process.terminate()
        await process.communicate()


def is_listening(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


async def test_ssh_forwards_ports_a_proxy_and_a_socket(
    units: Roles, client: Client, tmp_path: Path
) -> None:
    laptop = await laptop_of(units, client, "demo", tmp_path)
    loopback, at_path, proxy = free_port(), free_port(), free_port()
    flags = (
        *("-L", f"{loopback}:localhost:{far.LOOPBACK_PORT}"),
        *("-L", f"{at_path}:{far.SOCKET}"),
        *("-D", str(proxy)),
    )
    async with tunnel(laptop, *flags, port=proxy):
        for port in (loopback, at_path):
            assert await exchange(port, b"quiet" * 100_000) == b"QUIET" * 100_000
        curl = ("curl", "-sS", "--max-time", "20", "--socks5-hostname", f"127.0.0.1:{proxy}")
        ended = await laptop.run(*curl, "http://localhost:8080/etc/passwd")
        assert ended.output.startswith(b"root:x:0"), ended
        assert (await laptop.run(*curl, "http://kubernetes.default.svc/")).code != 0


async def test_busybox_forwards_ports_and_no_sockets(
    units: Roles, client: Client, tmp_path: Path
) -> None:
    laptop = await laptop_of(units, client, "tools", tmp_path)
    loopback, at_path = free_port(), free_port()
    flags = ("-L", f"{loopback}:localhost:7000", "-L", f"{at_path}:/tmp/none")
    async with tunnel(laptop, *flags, port=at_path):
        found = await exchange(loopback, b"GET /etc/passwd HTTP/1.0\r\n\r\n")
        assert b"root:x:0" in found
        assert await exchange(at_path, b"") == b""


async def test_an_image_without_sh_says_so(units: Roles, client: Client, tmp_path: Path) -> None:
    laptop = await laptop_of(units, client, "bare", tmp_path)
    async with asyncio.TaskGroup() as tasks:
        shell = tasks.create_task(units.run("units", "shell", "bare"))
        copied = tasks.create_task(units.run("units", "cp", "bare:/pause", "pause"))
        ssh = tasks.create_task(laptop.ssh("unit", "true"))
        sftp = tasks.create_task(laptop.sftp("ls", host="unit"))
        ran = tasks.create_task(
            units.run("units", "exec", "far", "--", "python3", "-c", "exit(7)")
        )
    assert (shell.result().code, ssh.result().code, ran.result().code) == (125, 125, 7)
    for task in (shell, ssh, sftp):
        assert "the image has no sh" in task.result().errors, task.result()
    assert '"sh": executable file not found' in copied.result().errors


async def forward(
    session: aiohttp.ClientSession, view: TicketView, port: int, *messages: bytes | str
) -> tuple[bytes, int | None, str]:
    """Return what came back of a port, with the code and the words of the end."""
    headers = {"Authorization": f"Bearer {view.ticket}"}
    async with session.ws_connect(f"{view.forwardURL}?port={port}", headers=headers) as socket:
        for message in messages:
            await (
                socket.send_str(message)
                if isinstance(message, str)
                else socket.send_bytes(message)
            )
        got, code, words = await closed(socket)
    return b"".join(got), code, words


async def seen_by_far_sides(units: Roles) -> list[str]:
    read = f"print(open({far.SEEN!r}).read(), end='')"
    ended = await units.run("units", "exec", "far", "--", "python3", "-c", read)
    return sorted(ended.output.decode().splitlines())


async def test_the_kubelet_ends_a_forward_with_either_half_of_its_far_side(
    units: Roles, client: Client, session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    """The image has no sh, so there is no relay in the container, and the kubelet forwards."""
    said = tmp_path.name
    view = await create_ticket(client, "far", Use.FORWARD)
    headers = {"Authorization": f"Bearer {view.ticket}"}
    waiting = f"{view.forwardURL}?port={far.WAITS}"
    async with session.ws_connect(waiting, headers=headers) as half_closed:
        await half_closed.send_bytes(said.encode())
        await half_closed.send_str("end")
        half = await forward(session, view, far.HALF_CLOSES, said.encode())
        assert half[:2] == (b"hello", 1000)
        assert (await forward(session, view, far.CLOSES, b"x"))[:2] == (b"bye", 1000)
        data, code, words = await forward(session, view, far.RESETS, b"x")
        assert (data, code) == (b"", 4502)
        assert f"error forwarding port {far.RESETS}" in words
        data, code, words = await forward(session, view, far.SILENT, b"x")
        assert (data, code) == (b"", 4502)
        # The half close of the caller is not passed on, even now.
        assert f"{far.WAITS} {said}" not in await seen_by_far_sides(units)
        with pytest.raises(TimeoutError):
            await half_closed.receive(timeout=0.1)
    # The end of the caller's connection ends the far side's.
    await eventually(
        lambda: seen_by_far_sides(units),
        lambda seen: f"{far.WAITS} {said}" in seen,
        poll_seconds=0.5,
        within_seconds=60,
    )
    # It had received what was sent before it ended.
    assert f"{far.HALF_CLOSES} {said}" in await seen_by_far_sides(units)


@pytest.mark.usefixtures("units")
async def test_a_container_that_dies_ends_a_forward_like_any_far_side(
    client: Client, session: aiohttp.ClientSession
) -> None:
    view = await create_ticket(client, "far", Use.FORWARD)
    assert (await forward(session, view, far.DIES, b"x"))[:2] == (b"last words", 1000)


@pytest.mark.parametrize("way", ["deleted", "suspended", "revoked"])
async def test_connections_end_with_their_tickets(
    units: Roles, client: Client, session: aiohttp.ClientSession, tmp_path: Path, way: str
) -> None:
    laptop = await laptop_of(units, client, way, tmp_path)
    view = await create_ticket(client, way, Use.HTTP, port="echo")
    url = f"{view.url.partition('/.gpuruntime')[0]}/"
    headers = {"Authorization": f"Bearer {view.ticket}"}
    async with (
        session.ws_connect(url, headers=headers) as socket,
        client.exec(way, ("sleep", "600")) as program,
    ):
        await socket.send_bytes(b"on")
        assert await socket.receive_bytes(timeout=20) == b"on"
        ssh = await laptop.start_ssh("-o", "LogLevel INFO", "unit", "echo on; sleep 600")
        assert ssh.stdout
        assert await ssh.stdout.readline() == b"on\n"
        match way:
            case "deleted":
                await client.units.delete(way)
            case "suspended":
                await client.units.suspend(way)
            case _:
                await client.units.revoke_tickets(way)
        async with asyncio.timeout(REVOKED_SECONDS):
            await closed(socket)
            with pytest.raises(CutOffError):
                await program.wait()
            _, errors = await ssh.communicate()
        assert (ssh.returncode, b"the login has ended" in errors) == (255, True), errors
    if way == "deleted":
        units.claim(way, image=BUSYBOX, template=IDLE)
        units.ready(way)
    # A unit that is created again under the name has another origin.
    wanted = {"deleted": 404, "suspended": 503, "revoked": 403}
    assert await status_of(session, url, headers) == wanted[way]


async def status_of(session: aiohttp.ClientSession, url: str, headers: dict[str, str]) -> int:
    async with session.get(url, headers=headers) as reply:
        return reply.status
