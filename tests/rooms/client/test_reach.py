"""Programs and ports of units through a gateway on loopback."""

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import attrs
import pytest
import pytest_asyncio
from aiohttp import WSMsgType, web

from gpuruntime.client import (
    AccessDeniedError,
    BusyError,
    Client,
    ConflictError,
    CutOffError,
    Output,
    TerminalSize,
    UnitRefusedError,
    UnusableInputError,
)
from gpuruntime.client.client import connect
from gpuruntime.client.loopback import LoopbackResolver, is_loopback_name
from gpuruntime.client.options import Options
from gpuruntime.client.reach import TicketSource
from gpuruntime.client.transport import connected
from gpuruntime.models.requests.tickets import CreateTicket, Use
from tests.eventually import eventually
from tests.rooms.client.gateway import TICKET, Site, reachable
from tests.rooms.kube.servers import serving


@attrs.frozen
class Here:
    site: Site
    client: Client


@pytest_asyncio.fixture
async def here(tmp_path: Path) -> AsyncIterator[Here]:
    async with (
        reachable(tmp_path) as site,
        connect(Options(server=site.address, most_attempts=1)) as client,
    ):
        yield Here(site, client)


async def test_a_program_has_its_streams_and_its_exit_code(here: Here) -> None:
    script = "read line; echo got $line; echo bad >&2; exit 7"
    async with here.client.exec("demo", ["sh", "-c", script]) as process:
        await process.write(b"hello\n")
        await process.end_input()
        found = [each async for each in process.output()]
    assert sorted(found, key=lambda each: each.is_error) == [
        Output(data=b"got hello\n"),
        Output(data=b"bad\n", is_error=True),
    ]
    assert process.exit_code == 7
    assert here.site.tickets[0]["uses"] == ["exec"]


async def test_a_program_on_a_terminal_has_its_size_and_every_later_one(here: Here) -> None:
    size = TerminalSize(columns=91, rows=37)
    # The size arrives once the shell runs.
    script = "until stty size | grep -v '^0 0'; do sleep 0.05; done; read line; stty size"
    async with here.client.exec("demo", ["sh", "-c", script], terminal=size) as process:
        output = process.output()
        assert b"37 91" in (await anext(output)).data
        await process.resize(TerminalSize(columns=120, rows=50))
        await process.write(b"\n")
        rest = b"".join([each.data async for each in output])
    assert b"50 120" in rest


@pytest.mark.looptime
async def test_a_caller_that_reads_nothing_still_shows_that_it_is_there() -> None:
    answers = 0

    async def chatty(request: web.BaseRequest) -> web.StreamResponse:
        response = web.WebSocketResponse(autoping=False)
        await response.prepare(request)
        await response.send_bytes(b"output")
        nonlocal answers
        async for message in response:
            answers += message.type is WSMsgType.PONG
        return response

    async with (
        serving(chatty) as address,
        connected(Options(server=address)) as transport,
        transport.web_socket(address.replace("http", "ws"), "t") as socket,
    ):
        await asyncio.sleep(65)
        while_unread = answers
        assert await socket.receive() == b"output"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(29):
                await socket.receive()
    assert (while_unread, answers) == (6, 6)


async def test_a_cut_connection_is_no_exit_code(here: Here) -> None:
    async with here.client.exec("demo", ["sleep", "60"]) as process:
        await eventually(lambda: here.site.programs.ran)
        here.site.cut()
        with pytest.raises(CutOffError, match="ended before the program did"):
            await process.wait()
    assert process.exit_code is None


async def test_a_program_that_does_not_exist_is_no_exit_code_either(here: Here) -> None:
    async with here.client.exec("demo", ["no-such-program"]) as process:
        with pytest.raises(UnitRefusedError, match="unit demo cannot run it"):
            await process.wait()


async def test_a_command_that_is_no_text_is_refused_here(here: Here) -> None:
    with pytest.raises(UnusableInputError, match="no UTF-8"):
        async with here.client.exec("demo", ["\udcff"]):
            pass
    assert here.site.presented == []


REFUSALS = {
    "a ticket that counts no more": (403, "ticket_refused", AccessDeniedError),
    "a suspended unit that nothing wakes": (503, "unit_suspended", ConflictError),
    "a cluster that is silent": (503, "revocation_unknown", BusyError),
}


@pytest.mark.parametrize(("status", "code", "wanted"), REFUSALS.values(), ids=REFUSALS)
async def test_a_refusal_of_the_gateway_keeps_its_code_and_words(
    here: Here, status: int, code: str, wanted: type[BusyError]
) -> None:
    here.site.refusals["exec"] = (status, {"code": code, "message": "because"})
    with pytest.raises(wanted, match="because") as refused:
        async with here.client.exec("demo", ["true"]):
            pass
    assert refused.value.code == code
    assert TICKET not in str(refused.value)


GREETING = b"hello "


async def upper(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Greet, and answer only after the end of the input, so that a half close has to arrive."""
    writer.write(GREETING)
    writer.write((await reader.read()).upper())
    writer.close()


@pytest_asyncio.fixture
async def port() -> AsyncIterator[int]:
    server = await asyncio.start_server(upper, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def asked(listens_at: int, text: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", listens_at)
    writer.write(text)
    writer.write_eof()
    try:
        return (await reader.read()).removeprefix(GREETING)
    finally:
        writer.close()


async def test_forwarded_connections_end_one_way_at_a_time(here: Here, port: int) -> None:
    text = b"abc" * 1_000_000
    async with here.client.forward("demo", port) as listens_at:
        answers = [await asked(listens_at, each) for each in (b"one", text, b"")]
    assert answers == [b"ONE", text.upper(), b""]
    assert len(here.site.tickets) == 1


async def test_a_broken_connection_is_aborted_and_the_next_one_works(
    here: Here, port: int
) -> None:
    told: list[str] = []
    async with here.client.forward("demo", port, tell=told.append) as listens_at:
        reader, writer = await asyncio.open_connection("127.0.0.1", listens_at)
        assert await reader.readexactly(len(GREETING)) == GREETING
        here.site.cut()
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()
        assert await asked(listens_at, b"next") == b"NEXT"
    assert [f"port {port} of unit demo" in each for each in told] == [True]


async def test_a_port_without_a_listener_is_told_of(here: Here) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = free.getsockname()[1]
    told: list[str] = []
    async with here.client.forward("demo", closed, tell=told.append) as listens_at:
        with pytest.raises(ConnectionResetError):
            await asked(listens_at, b"x")
    assert [each.partition(": ")[0] for each in told] == [
        f"port {closed} of unit demo takes no connections"
    ]


async def test_a_revoked_ticket_is_replaced_once(here: Here, port: int) -> None:
    async with here.client.forward("demo", port) as listens_at:
        here.site.revoked.add(f"{TICKET}1")
        assert await asked(listens_at, b"x") == b"X"
    assert here.site.presented == [f"{TICKET}1", f"{TICKET}2"]


@pytest.mark.looptime
async def test_a_ticket_is_replaced_after_half_of_its_life(here: Here) -> None:
    request = CreateTicket(uses=(Use.FORWARD,), port="80", seconds=100)
    source = TicketSource(here.client.units, "demo", request)
    first = await source.current()
    await asyncio.sleep(45)
    assert await source.current() is first
    await asyncio.sleep(10)
    second, third = await source.current(), await source.current()
    assert (second.ticket, third is second) == (f"{TICKET}2", True)


NAMES = {"localhost": True, "8080--demo.LOCALHOST.": True, "localhost.example.com": False}


@pytest.mark.parametrize(("name", "is_here"), NAMES.items(), ids=NAMES)
def test_names_below_localhost_are_this_machine(name: str, is_here: bool) -> None:
    assert is_loopback_name(name) is is_here


async def test_no_resolver_is_asked_about_them() -> None:
    resolver = LoopbackResolver()
    for family, addresses in (
        (socket.AF_UNSPEC, ["127.0.0.1", "::1"]),
        (socket.AF_INET, ["127.0.0.1"]),
        (socket.AF_INET6, ["::1"]),
    ):
        found = await resolver.resolve("no.such.localhost", 80, family)
        assert [each["host"] for each in found] == addresses
    await resolver.close()
