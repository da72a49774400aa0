"""File servers and callers that break off, send invalid data, never end or never begin."""

import asyncio
import hashlib
import socket
from contextlib import ExitStack, suppress

import pytest

from gpuruntime.api.auth.access import Principal, Role
from gpuruntime.api.auth.tokens import TokenGuard
from gpuruntime.api.files.limits import FileLimits
from tests.eventually import equals, eventually
from tests.options import configured
from tests.rooms.api.files.test_storage_files import error_of
from tests.rooms.api.files.upstream import (
    CUT,
    FILES,
    Script,
    Upstream,
    add_storage,
    answer,
    filing,
    request,
    saying,
    send,
    until_closed,
)
from tests.rooms.api.http.test_server import exchange, statuses
from tests.rooms.api.service import Service
from tests.rooms.operations.cluster import Cluster
from tests.row_ids import in_words

pytestmark = pytest.mark.looptime

LIMITS = configured(FileLimits, most_bytes=1_000_000, idle_seconds=20.0, longest_seconds=100.0)
BEGIN = b"HTTP/1.1 200 OK\r\n"
CHUNKED = BEGIN + b"Transfer-Encoding: chunked\r\n\r\n"
# More bytes than all sockets and buffers of a transfer hold.
MUCH = 64_000_000


async def idle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send nothing more, until the other side closes."""
    await until_closed(reader, writer)


def endless(each: bytes, *, every_seconds: float = 0.0) -> Script:
    async def script(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(each)
            await writer.drain()
            await asyncio.sleep(every_seconds)

    return script


async def assert_let_go(upstream: Upstream, *, within_seconds: float = 5.0) -> None:
    await eventually(
        lambda: upstream.open, equals(0), within_seconds=within_seconds, poll_seconds=0.1
    )


def assert_cut(received: bytes, *, begun: bytes) -> None:
    """Assert that the head and a part came, and that the connection then broke."""
    assert statuses(received) == [200]
    assert begun in received
    assert received.endswith(CUT)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\r\n\r\n",
        b"hello\r\n\r\n",
        b"HTTP/1.1 200",
        BEGIN + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nab",
        BEGIN + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nab",
        BEGIN + b"Content-Length: -2\r\n\r\nab",
        BEGIN + b"Content-Length: 2\r\nA: b\rc\r\n\r\nab",
        BEGIN + b"Content-Length: 2\r\nA: b\x00c\r\n\r\nab",
        BEGIN + b"Content-Length: 2\r\nA: b\xe9c\r\n\r\nab",
        BEGIN + b"Content-Length: 2\r\nA b: c\r\n\r\nab",
        BEGIN + b"Content-Length: 2\r\nA: " + b"a" * 20_000 + b"\r\n\r\nab",
        BEGIN + b"A: b\r\n" * 2_000 + b"\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 199 What\r\n\r\n",
        b"HTTP/1.1 999 What\r\nContent-Length: 0\r\n\r\n",
        BEGIN + b"Content-Length: 2000000\r\n\r\n",
        *(
            b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: %s\r\n\r\n" % there
            for there in (
                b"http://169.254.169.254/latest",
                b"//elsewhere/",
                b"/api/v1/gpu-storages/other/files/a",
                b"/api/v1/gpu-units",
                FILES.encode() + b"/../../../gpu-units",
                b"",
            )
        ),
    ],
    ids=in_words,
)
async def test_an_invalid_answer_is_502_and_none_of_it_is_passed_on(said: bytes) -> None:
    async with filing(limits=LIMITS) as (api, upstream):
        upstream.script = saying(said)
        received = await send(api, request())
        assert (statuses(received), error_of(received)["code"]) == ([502], "upstream_fault")
        assert len(upstream.requests) == 1


@pytest.mark.parametrize("version", ["1.1", "1.0"])
@pytest.mark.parametrize(
    ("said", "more"),
    [
        (BEGIN + b"Content-Length: 9\r\n\r\nabc", b""),
        (CHUNKED + b"3\r\nabc\r\n", b""),
        (CHUNKED + b"3\r\nabc\r\n", b"zz\r\n"),
        (CHUNKED + b"3\r\nabc\r\n", b"5\r\nab"),
    ],
)
async def test_an_incomplete_answer_ends_as_a_broken_connection(
    said: bytes, more: bytes, version: str
) -> None:
    async with filing(limits=LIMITS) as (api, upstream):

        async def later(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await asyncio.sleep(1)
            writer.write(more)

        upstream.script = saying(said, then=later)
        sent = request().replace(b"HTTP/1.1", f"HTTP/{version}".encode())
        received = await send(api, sent)
        assert_cut(received, begun=b"abc")
        assert b"0\r\n\r\n" not in received


async def test_bytes_after_an_answers_end_are_dropped() -> None:
    smuggled = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nsecret!"
    async with filing(limits=LIMITS) as (api, upstream):
        upstream.script = saying(answer("200 OK", body=b"ab") + smuggled)
        received = await exchange(
            api, request().replace(b"Connection: close", b"A: b"), request("GET", "/b")
        )
        assert b"secret" not in received
        assert len(upstream.requests) <= 2


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 3\r\nTransfer-Encoding: chunked",
        b"Content-Length: 3\r\nContent-Length: 4",
        b"Transfer-Encoding: chunked, identity",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        b"Transfer-Encoding : chunked",
        b"Transfer-Encoding:\x0bchunked",
        b"Content-Length: +3",
        b"A: b\rTransfer-Encoding: chunked",
    ],
)
async def test_ambiguous_framing_is_400_without_a_request(framing: bytes) -> None:
    async with filing(limits=LIMITS) as (api, upstream):
        received = await send(api, request("PUT", "/a", framing, body=b"0\r\n\r\nGET / HTTP/1.1"))
        assert statuses(received)[:1] == [400]
        assert upstream.requests == []


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nA: "])
async def test_a_silent_file_server_is_504_after_the_idle_time(said: bytes) -> None:
    loop = asyncio.get_running_loop()
    async with filing(limits=LIMITS) as (api, upstream):
        upstream.script = saying(said, then=idle)
        began = loop.time()
        received = await send(api, request())
        assert (statuses(received), error_of(received)["code"]) == ([504], "timeout")
        assert "sent nothing for 20 s" in error_of(received)["message"]
        assert LIMITS.idle_seconds <= loop.time() - began < LIMITS.idle_seconds + 2
        await assert_let_go(upstream)


async def test_a_dripping_answer_head_is_504() -> None:
    async with filing(limits=LIMITS) as (api, upstream):
        upstream.script = saying(BEGIN, then=endless(b"A: b\r\n", every_seconds=5))
        assert statuses(await send(api, request())) == [504]
        await assert_let_go(upstream, within_seconds=10)


async def test_an_answer_that_falls_silent_is_cut() -> None:
    async with filing(limits=LIMITS) as (api, upstream):
        upstream.script = saying(BEGIN + b"Content-Length: 9\r\n\r\nabc", then=idle)
        assert_cut(await send(api, request()), begun=b"abc")
        await assert_let_go(upstream)


async def test_a_dripping_answer_is_cut_after_the_longest_time() -> None:
    loop = asyncio.get_running_loop()
    async with filing(limits=LIMITS) as (api, upstream):
        upstream.script = saying(CHUNKED, then=endless(b"1\r\na\r\n", every_seconds=5))
        began = loop.time()
        assert_cut(await send(api, request()), begun=b"a")
        assert LIMITS.longest_seconds <= loop.time() - began < LIMITS.longest_seconds + 2
        await assert_let_go(upstream, within_seconds=10)


async def test_an_endless_answer_is_cut_at_the_size_limit() -> None:
    async with filing(limits=LIMITS) as (api, upstream):
        upstream.script = saying(CHUNKED, then=endless(b"2710\r\n" + b"a" * 10_000 + b"\r\n"))
        received = await send(api, request())
        assert_cut(received, begun=b"a" * 1_000)
        assert len(received) < LIMITS.most_bytes + 10_000
        await assert_let_go(upstream)


async def test_a_body_that_is_too_large_is_413_early_or_midway() -> None:
    async with filing(limits=LIMITS) as (api, upstream):
        told = request("PUT", "/a", b"Content-Length: 1000001", b"Expect: 100-continue")
        assert statuses(await send(api, told)) == [413]
        assert upstream.requests == []
        upstream.script = until_closed
        chunk = b"186a0\r\n" + b"a" * 100_000 + b"\r\n"
        chunked = request("PUT", "/a", b"Transfer-Encoding: chunked", body=chunk * 12)
        assert statuses(await send(api, chunked)) == [413]
        await assert_let_go(upstream)


async def test_a_body_that_never_comes_is_408() -> None:
    async with filing(limits=LIMITS) as (api, upstream):
        upstream.script = until_closed
        received = await send(api, request("PUT", "/a", b"Content-Length: 9", body=b"abc"))
        assert (statuses(received), error_of(received)["code"]) == ([408], "body_timeout")
        assert "no byte of the body came" in error_of(received)["message"]
        await assert_let_go(upstream)


async def test_half_a_body_reaches_the_file_server_as_a_broken_one() -> None:
    ends: list[bytes] = []

    async def script(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        ends.append(await reader.read(-1))

    async with filing(limits=LIMITS) as (api, upstream):
        upstream.script = script
        await left(api, request("PUT", "/a", b"Transfer-Encoding: chunked", body=b"3\r\nabc\r\n"))
        await assert_let_go(upstream)
        assert b"abc" in ends[0]
        assert not ends[0].endswith(b"0\r\n\r\n")


async def test_a_file_server_that_takes_nothing_is_504() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(40)
        await until_closed(reader, writer)

    async with filing(limits=configured(FileLimits, idle_seconds=20.0)) as (api, upstream):
        upstream.script = script
        assert api.client.port
        reader, writer = await asyncio.open_connection("127.0.0.1", api.client.port)
        writer.write(request("PUT", "/a", b"Content-Length: %d" % MUCH))
        writer.write(b"a" * MUCH)
        received = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 100)
        assert statuses(received) == [504]
        writer.transport.abort()
        await assert_let_go(upstream, within_seconds=30)


async def test_an_answer_that_does_not_wait_for_the_body_is_passed_on() -> None:
    async with filing(limits=LIMITS) as (api, upstream):
        upstream.script = saying(answer("403 Forbidden", body=b"no"), then=idle)
        received = await send(api, request("PUT", "/a", b"Content-Length: 900", body=b"abc"))
        assert statuses(received) == [403]
        assert received.endswith(b"no")
        await assert_let_go(upstream)


async def left(api: Service, sent: bytes, *, after: bytes = b"") -> None:
    """Send, and leave after a second or once `after` was received."""
    assert api.client.port
    reader, writer = await asyncio.open_connection("127.0.0.1", api.client.port)
    writer.write(sent)
    if after:
        await reader.readuntil(after)
    else:
        await asyncio.sleep(1)
    writer.transport.abort()


@pytest.mark.parametrize(
    ("script", "after"),
    [
        (idle, b""),
        (saying(CHUNKED + b"1\r\na\r\n", then=idle), b"a\r\n"),
        (saying(CHUNKED, then=endless(b"1\r\na\r\n")), b"a\r\n"),
    ],
)
async def test_a_caller_that_leaves_ends_its_download(script: Script, after: bytes) -> None:
    async with filing() as (api, upstream):
        upstream.script = script
        await left(api, request(), after=after)
        await assert_let_go(upstream)


async def test_a_caller_that_leaves_during_its_upload_ends_it() -> None:
    async with filing() as (api, upstream):
        upstream.script = until_closed
        await left(api, request("PUT", "/a", b"Content-Length: 9", body=b"abc"))
        await assert_let_go(upstream)


async def test_slow_transfers_block_no_other_and_are_limited_by_429() -> None:
    limits = configured(FileLimits, at_once=20)
    async with filing(limits=limits) as (api, upstream), asyncio.TaskGroup() as tasks:
        upstream.script = saying(CHUNKED + b"1\r\na\r\n", then=idle)
        slow = [tasks.create_task(send(api, request())) for _ in range(limits.at_once)]
        await eventually(lambda: upstream.open, equals(limits.at_once))
        received = await send(api, request())
        assert (statuses(received), error_of(received)["code"]) == ([429], "too_many_requests")
        assert (await api.call("GET", "/api/v1/health")).status == 200
        for each in slow:
            each.cancel()
        await assert_let_go(upstream)
        upstream.script = saying(answer("200 OK"))
        assert statuses(await send(api, request())) == [200]
        assert upstream.line == f"GET {FILES}/a.bin HTTP/1.1"


async def test_transfers_of_one_caller_are_limited() -> None:
    limits = configured(FileLimits, at_once=8, at_once_each=2)
    table = {
        hashlib.sha256(name.encode()).digest(): Principal(name=name, role=Role.OPERATOR)
        for name in ("greedy", "other")
    }

    def asking(who: str) -> bytes:
        return request("GET", "/a.bin", f"Authorization: Bearer {who}".encode())

    async with (
        filing(limits=limits, guard=TokenGuard(lambda: table)) as (api, upstream),
        asyncio.TaskGroup() as tasks,
    ):
        upstream.script = saying(CHUNKED + b"1\r\na\r\n", then=idle)
        slow = [tasks.create_task(send(api, asking("greedy"))) for _ in range(2)]
        await eventually(lambda: upstream.open, equals(len(slow)))
        received = await send(api, asking("greedy"))
        assert (statuses(received), error_of(received)["code"]) == ([429], "too_many_requests")
        assert "greedy has 2 file transfers in progress" in error_of(received)["message"]
        upstream.script = saying(answer("200 OK"))
        assert statuses(await send(api, asking("other"))) == [200]
        for each in slow:
            each.cancel()
        await assert_let_go(upstream)
        assert statuses(await send(api, asking("greedy"))) == [200]


async def test_a_file_server_that_accepts_no_connection_is_502_soon() -> None:
    cluster = Cluster()
    async with filing(cluster) as (api, _):
        with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
            port = full.getsockname()[1]
            with ExitStack() as stack:
                for _ in range(2):  # fills the backlog, so that the next connection waits
                    stack.enter_context(knocking(port))
                add_storage(api, cluster, port, name="full")
                await asyncio.sleep(1)
                received = await send(api, request(root="/api/v1/gpu-storages/full/files"))
        assert (statuses(received), error_of(received)["code"]) == ([502], "upstream_fault")
        assert "cannot be reached" in error_of(received)["message"]


def knocking(port: int) -> socket.socket:
    made = socket.socket()
    made.setblocking(False)
    with suppress(BlockingIOError):
        made.connect(("127.0.0.1", port))
    return made
