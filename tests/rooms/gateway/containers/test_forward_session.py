"""Forwards: bytes, half closes, and ends, by each way to a port."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import attrs
import pytest

from gpuruntime.embedded.apiserver.socket_pair import PairedSocket
from gpuruntime.gateway.connections import Connections, End
from gpuruntime.gateway.containers.forward_session import ForwardSessions
from gpuruntime.gateway.containers.port_dialer import PortDialer
from gpuruntime.gateway.containers.session import SessionTimes
from gpuruntime.gateway.errors import Code, GatewayError
from gpuruntime.kube.client import Client
from gpuruntime.models.kinds.templates import Port
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.requests.tickets import Use
from tests.rooms.gateway.containers.scripted_cluster import (
    ScriptedCluster,
    Site,
    closed,
    new_connections,
    serving,
    visitor,
)

DECLARED = 8000
LOOPBACK = 9000
TIMES = SessionTimes(idle_seconds=100.0)
NO_RELAY = b'\x03{"metadata":{},"status":"Failure","code":500,"message":"no sh"}'
MISSING = (
    b'\x03{"metadata":{},"status":"Failure","details":'
    b'{"causes":[{"reason":"ExitCode","message":"127"}]}}'
)
FAILED = MISSING.replace(b"127", b"1")
SUCCESS = b'\x03{"metadata":{},"status":"Success"}'
Far = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Echo until the caller's half ends, then say goodbye and close."""
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    writer.write(b"bye")
    writer.close()


async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """End our half at once, and keep what comes until the caller's half ends."""
    writer.write(b"hello")
    writer.write_eof()
    LEFT.append(await reader.read())
    writer.close()


LEFT: list[bytes] = []


@asynccontextmanager
async def listening(far: Far) -> AsyncIterator[int]:
    server = await asyncio.start_server(far, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@attrs.frozen
class Scene:
    cluster: ScriptedCluster
    connections: Connections
    site: Site
    dialled: list[int]


@asynccontextmanager
async def scene(
    port: int, *, address: int = 0, times: SessionTimes = TIMES
) -> AsyncIterator[Scene]:
    """Serve forwards to one port of a unit whose declared port is at `address` of this machine."""
    dialled: list[int] = []

    def address_of(_: GPUUnit, declared: int) -> tuple[str, int]:
        dialled.append(declared)
        if not address:
            raise GatewayError(Code.UPSTREAM_FAULT, "the Service has no address")
        return "127.0.0.1", address

    cluster, connections = ScriptedCluster(), new_connections()
    dialer = PortDialer(Client(cluster), address_of, connect_seconds=5.0)
    sessions = ForwardSessions(dialer, connections, times)
    admitted = visitor(Use.FORWARD, Port(name="http", port=DECLARED), port=port)
    async with serving(sessions.serve, admitted) as site:
        yield Scene(cluster, connections, site, dialled)


async def test_a_declared_port_is_reached_by_the_service() -> None:
    async with (
        listening(echo) as address,
        scene(DECLARED, address=address) as at,
        at.site.open() as caller,
    ):
        await caller.send_bytes(b"hello")
        assert (await caller.receive()).data == b"hello"
        await caller.send_str("end")
        messages, code, _ = await closed(caller)
        assert (messages, code) == ([b"bye", "end"], 1000)
        assert (at.dialled, at.cluster.requests) == ([DECLARED], [])


async def test_the_far_sides_half_close_leaves_the_callers_half_open() -> None:
    LEFT.clear()
    async with (
        listening(leave) as address,
        scene(DECLARED, address=address) as at,
        at.site.open() as caller,
    ):
        assert [(await caller.receive()).data for _ in range(2)] == [b"hello", "end"]
        await caller.send_bytes(b"still")
        await caller.send_str("end")
        assert (await closed(caller))[1] == 1000
    assert LEFT == [b"still"]


async def test_ten_megabytes_pass_unchanged() -> None:
    bulk = os.urandom(10_000_000)
    async with (
        listening(echo) as address,
        scene(DECLARED, address=address) as at,
        at.site.open() as caller,
        asyncio.TaskGroup() as tasks,
    ):

        async def send() -> None:
            for start in range(0, len(bulk), 50_000):
                await caller.send_bytes(bulk[start : start + 50_000])
            await caller.send_str("end")

        tasks.create_task(send())
        messages, _, _ = await closed(caller)
    assert b"".join(each for each in messages if each != "end") == bulk + b"bye"


async def test_a_port_without_a_listener_is_refused() -> None:
    async with listening(echo) as address:
        pass
    async with scene(DECLARED, address=address) as at, at.site.open() as caller:
        _, code, words = await closed(caller)
        assert (code, words[:28]) == (4502, "nothing answers at port 8000")
    async with scene(DECLARED) as at, at.site.open() as caller:
        assert await closed(caller) == ([], 4502, "the Service has no address")


async def test_a_caller_that_leaves_ends_the_connection() -> None:
    ended = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            await reader.read()
        ended.set()
        writer.close()

    async with listening(wait) as address, scene(DECLARED, address=address) as at:
        async with at.site.open() as caller:
            await caller.send_bytes(b"hello")
        async with asyncio.timeout(10):
            await ended.wait()


async def test_an_idle_forward_ends() -> None:
    times = SessionTimes(idle_seconds=0.3)
    async with (
        listening(echo) as address,
        scene(DECLARED, address=address, times=times) as at,
        at.site.open() as caller,
    ):
        assert await closed(caller) == ([], 4408, "no byte has passed for 0.3 s")


async def test_a_forward_ends_with_its_connection() -> None:
    async with (
        listening(echo) as address,
        scene(DECLARED, address=address) as at,
        at.site.open() as caller,
    ):
        await caller.send_bytes(b"x")
        await caller.receive()
        at.connections.end_all(End.REVOKED)
        assert (await closed(caller))[1] == 4403


@pytest.mark.parametrize("message", ["END", "", "end "])
async def test_another_text_is_refused(message: str) -> None:
    async with (
        listening(echo) as address,
        scene(DECLARED, address=address) as at,
        at.site.open() as caller,
    ):
        await caller.send_str(message)
        _, code, words = await closed(caller)
        assert (code, "the only text is 'end'" in words) == (1008, True)


async def test_a_browsers_own_sub_protocol_is_chosen_and_its_ticket_is_not() -> None:
    offered = ("gpuruntime.ticket.secret", "bytes")
    async with scene(LOOPBACK) as at, at.site.open(protocols=offered) as caller:
        assert caller.protocol == "bytes"


async def test_a_request_without_an_upgrade_or_a_port_is_refused() -> None:
    async with scene(LOOPBACK) as at:
        assert await at.site.refusal(Upgrade="h2c") == (
            400,
            "this path is a WebSocket: open one",
        )
    dialer = PortDialer(Client(ScriptedCluster()), lambda *_: ("", 0), connect_seconds=1.0)
    sessions = ForwardSessions(dialer, new_connections(), TIMES)
    async with serving(sessions.serve, visitor(Use.FORWARD)) as site:
        assert await site.refusal() == (400, "name a port: ?port=8080")


async def relay_of(at: Scene) -> PairedSocket:
    """Return the server's end of the command that tries to be a relay."""
    async with asyncio.timeout(10):
        relay = await at.cluster.opened.get()
    request = at.cluster.requests[-1]
    assert request.path.endswith("/pods/demo-1/exec")
    assert ("container", "runtime") in request.query
    assert [value for name, value in request.query if name == "command"][3:5] == [
        "relay",
        str(LOOPBACK),
    ]
    return relay


async def test_an_undeclared_port_is_reached_by_a_relay_and_never_by_the_service() -> None:
    async with scene(LOOPBACK, address=1) as at, at.site.open() as caller:
        relay = await relay_of(at)
        await relay.send(b"\x02relay\n")
        await caller.send_bytes(b"hello")
        assert await relay.receive() == b"\x00hello"
        await relay.send(b"\x01back")
        assert (await caller.receive()).data == b"back"
        await caller.send_str("end")
        assert await relay.receive() == b"\xff\x00"
        await relay.send(SUCCESS)
        await relay.close()
        assert await closed(caller) == ([], 1000, "")
        assert at.dialled == []


async def test_the_relays_end_waits_for_the_bytes_before_it() -> None:
    async with scene(LOOPBACK) as at, at.site.open() as caller:
        relay = await relay_of(at)
        for message in (b"\x02relay\nen", b"\x02d 4\n", b"\x01ab", b"\x01cd", b"\x02late\n"):
            await relay.send(message)
        messages = [(await caller.receive()).data for _ in range(3)]
        assert messages == [b"ab", b"cd", "end"]
        await caller.send_bytes(b"still")
        assert await relay.receive() == b"\x00still"


async def test_bytes_that_overtake_the_relays_first_word_are_not_lost() -> None:
    """Servers such as those of SSH speak first, and the streams of a container race."""
    async with scene(LOOPBACK) as at, at.site.open() as caller:
        relay = await relay_of(at)
        for message in (b"\x01SSH", b"\x02relay\n", b"\x01-2.0", b"\x02end 7\n"):
            await relay.send(message)
        messages = [(await caller.receive()).data for _ in range(3)]
        assert messages == [b"SSH", b"-2.0", "end"]


@pytest.mark.parametrize("words", [b"end x\n", b"end \n", b"end -1\n", b"end " + b"9" * 99])
async def test_an_end_that_is_no_number_ends_nothing(words: bytes) -> None:
    async with scene(LOOPBACK) as at, at.site.open() as caller:
        relay = await relay_of(at)
        for message in (b"\x02relay\n", b"\x02" + words, b"\x01on"):
            await relay.send(message)
        assert (await caller.receive()).data == b"on"


async def test_a_relay_that_cannot_connect_says_why() -> None:
    async with scene(LOOPBACK) as at, at.site.open() as caller:
        relay = await relay_of(at)
        for message in (b"\x02relay\n", b"\x02Connection refused\n", FAILED):
            await relay.send(message)
        await relay.close()
        _, code, words = await closed(caller)
        assert (code, words) == (4502, "the port cannot be reached: Connection refused")


async def test_a_relay_that_is_killed_has_its_exit_code_as_words() -> None:
    killed = (
        b'\x03{"status":"Failure","details":{"causes":[{"reason":"ExitCode","message":"137"}]}}'
    )
    async with scene(LOOPBACK) as at, at.site.open() as caller:
        relay = await relay_of(at)
        for message in (b"\x02relay\n", b"\x01x", b"\x02end 1\n", killed):
            await relay.send(message)
        await relay.close()
        *_, code, words = await closed(caller)
        assert (code, words) == (
            4502,
            "the port cannot be reached: its relay ended with exit code 137",
        )


@pytest.mark.parametrize("ending", [NO_RELAY, MISSING], ids=["no sh", "no program"])
async def test_without_a_relay_the_kubelet_forwards(ending: bytes) -> None:
    async with scene(LOOPBACK) as at, at.site.open() as caller:
        relay = await relay_of(at)
        await relay.send(ending)
        await relay.close()
        kubelet = await at.cluster.opened.get()
        request = at.cluster.requests[-1]
        assert request.path.endswith("/pods/demo-1/portforward")
        assert request.query == (("ports", str(LOOPBACK)),)
        port = LOOPBACK.to_bytes(2, "little")
        for message in (b"\x00" + port, b"\x01" + port, b"\x00hello"):
            await kubelet.send(message)
        assert (await caller.receive()).data == b"hello"
        await caller.send_bytes(b"back")
        assert await kubelet.receive() == b"\x00back"
        await caller.send_str("end")
        await kubelet.send(b"\x00bye")
        await kubelet.close()
        assert await closed(caller) == ([b"bye"], 1000, "")


async def test_a_port_that_the_kubelet_cannot_reach_is_refused() -> None:
    async with scene(LOOPBACK) as at, at.site.open() as caller:
        relay = await relay_of(at)
        await relay.send(MISSING)
        await relay.close()
        kubelet = await at.cluster.opened.get()
        port = LOOPBACK.to_bytes(2, "little")
        for message in (b"\x00" + port, b"\x01" + port, b"\x01connection refused"):
            await kubelet.send(message)
        _, code, words = await closed(caller)
        assert (code, "port 9000: connection refused" in words) == (4502, True)


async def test_a_unit_without_a_pod_is_said() -> None:
    async with scene(LOOPBACK) as at:
        at.cluster.pods.clear()
        async with at.site.open() as caller:
            _, code, words = await closed(caller)
            assert (code, words) == (
                4502,
                "unit demo runs no Pod: see its conditions, and retry",
            )
