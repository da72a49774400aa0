import asyncio
import io
import json
import tracemalloc

import aiohttp
import pytest

from gpuruntime.embedded.apiserver.body_reader import LARGEST_BODY
from gpuruntime.embedded.apiserver.http_listener import LOOPBACK, STUCK_SECONDS, serve
from gpuruntime.embedded.apiserver.server import Server
from gpuruntime.embedded.objects.watches import Watches
from gpuruntime.errors import ConfigurationError
from tests.eventually import equals, eventually
from tests.rooms.embedded.calls import MAPS, call, make, names, new_server

IN_JSON = {"Content-Type": "application/json"}


async def test_an_answer_over_http_equals_the_servers_answer() -> None:
    server = new_server()
    made = make(server, "a")
    async with serve(server) as url, aiohttp.ClientSession() as session:
        answer = await session.get(f"{url}{MAPS}/a")
        assert (answer.status, await answer.json()) == (200, made)


async def test_a_watch_over_http_streams_lines() -> None:
    server = new_server()
    make(server, "a")
    async with serve(server) as url, aiohttp.ClientSession() as session:
        answer = await session.get(f"{url}{MAPS}?watch=1")
        first = json.loads(await answer.content.readline())
        make(server, "b")
        second = json.loads(await answer.content.readline())
        answer.close()
    assert [event["object"]["metadata"]["name"] for event in (first, second)] == ["a", "b"]


async def test_a_port_in_use_is_reported_in_one_line() -> None:
    async with serve(new_server()) as url:
        port = int(url.rpartition(":")[2])
        with pytest.raises(ConfigurationError, match=f"port {port} .* is in use"):
            async with serve(new_server(), port=port):
                pass


async def test_a_body_past_the_limit_is_413() -> None:
    body = b'{"data": {"x": "' + b"x" * LARGEST_BODY + b'"}}'
    async with serve(new_server()) as url, aiohttp.ClientSession() as session:
        answer = await session.post(url + MAPS, data=io.BytesIO(body), headers=IN_JSON)
        assert (answer.status, (await answer.json())["code"]) == (413, 413)


def watches_of(server: Server) -> Watches:
    (maps,) = (kind for kind in server.registry if kind.kind == "ConfigMap")
    return server.store.collection(maps).watches


async def test_a_watch_ends_when_its_client_leaves() -> None:
    server = new_server()
    watches = watches_of(server)
    async with serve(server) as url, aiohttp.ClientSession() as session:
        answer = await session.get(f"{url}{MAPS}?watch=1")
        assert len(watches) == 1
        answer.close()
        await eventually(lambda: len(watches), equals(0))


@pytest.mark.looptime
async def test_a_client_that_never_reads_is_disconnected_and_costs_no_more_than_the_history() -> (
    None
):
    """Write 20 MB that the client does not read; at most a tenth of it is kept in memory."""
    server = new_server(history_limit=10)
    make(server, "a")
    watches = watches_of(server)
    async with serve(server) as url:
        reader, writer = await asyncio.open_connection(LOOPBACK, int(url.rpartition(":")[2]))
        writer.write(f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: {LOOPBACK}\r\n\r\n".encode())
        await reader.readuntil(b"ADDED")
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # a socket's can
        tracemalloc.start()
        for number in range(200):
            call(server, "PATCH", f"{MAPS}/a", {"data": {"k": f"{number}" * 30_000}})
            await asyncio.sleep(0)
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(watches) == 1
        await asyncio.sleep(STUCK_SECONDS + 1)
        assert len(watches) == 0
        writer.close()
    assert kept < 4_000_000


async def test_a_thousand_open_watches_all_receive_an_event() -> None:
    server = new_server()
    connector = aiohttp.TCPConnector(limit=0)
    async with serve(server) as url, aiohttp.ClientSession(connector=connector) as session:
        answers = [await session.get(f"{url}{MAPS}?watch=1") for _ in range(1_000)]
        make(server, "a")
        for answer in answers:
            event = json.loads(await answer.content.readline())
            assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "a")
            answer.close()


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"Origin": "https://example.com"}, id="of another site"),
        pytest.param({"Origin": "null"}, id="of a sandboxed frame or a file"),
        pytest.param({"Origin": "http://localhost:3000"}, id="of another port"),
        pytest.param({"Sec-Fetch-Site": "cross-site"}, id="of another site without Origin"),
        pytest.param({"Sec-Fetch-Site": "same-site"}, id="of another port without Origin"),
        pytest.param({"Host": "example.com:8080"}, id="by a name of another owner"),
        pytest.param({"Host": "127.0.0.1.example.com"}, id="by a name like an address"),
        pytest.param({"Host": "localhost.example.com"}, id="by a name like localhost"),
        pytest.param({"Host": "cluster"}, id="by a name of the local network"),
        pytest.param({"Host": "192.168.1.1"}, id="by another address"),
        pytest.param({"Host": "[::1"}, id="by a malformed name"),
    ],
)
async def test_a_web_page_neither_reads_nor_writes(headers: dict[str, str]) -> None:
    """A page may send a POST without Content-Type, which is read as JSON."""
    server = new_server()
    make(server, "a")
    async with serve(server) as url, aiohttp.ClientSession() as session:
        answers = [
            await session.get(f"{url}{MAPS}/a", headers=headers),
            await session.get(f"{url}{MAPS}?watch=1", headers=headers),
            await session.delete(f"{url}{MAPS}/a", headers=headers),
            await session.post(
                url + MAPS,
                data=b'{"metadata": {"name": "b"}}',
                headers=headers,
                skip_auto_headers=("Content-Type",),
            ),
        ]
        assert [each.status for each in answers] == [403] * 4
        assert {(await each.json())["reason"] for each in answers} == {"Forbidden"}
    assert names(call(server, "GET", MAPS)) == ["a"]


async def test_a_web_page_is_refused_before_its_body_is_read() -> None:
    async with serve(new_server()) as url:
        reader, writer = await asyncio.open_connection(LOOPBACK, int(url.rpartition(":")[2]))
        head = f"POST {MAPS} HTTP/1.1\r\nHost: {LOOPBACK}\r\nOrigin: null\r\n"
        writer.write(f"{head}Content-Length: 1000\r\n\r\n".encode())
        try:
            async with asyncio.timeout(5):
                assert (await reader.readline()).startswith(b"HTTP/1.1 403")
        finally:
            writer.close()


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="by the address"),
        pytest.param({"Host": "LOCALHOST:8080"}, id="by localhost"),
        pytest.param({"Host": "dev.localhost:8080"}, id="by a name below localhost"),
        pytest.param({"Host": "[::1]:8080"}, id="by the address of version 6"),
        pytest.param({"Host": "127.0.0.2"}, id="by another loopback address"),
        pytest.param({"Sec-Fetch-Site": "none"}, id="from the address bar"),
        pytest.param({"Sec-Fetch-Site": "same-origin"}, id="from the same origin"),
    ],
)
async def test_a_program_of_this_machine_writes(headers: dict[str, str]) -> None:
    """A body without Content-Type is JSON, because `kubectl create --raw` sends none."""
    async with serve(new_server()) as url, aiohttp.ClientSession() as session:
        answer = await session.post(
            url + MAPS,
            data=b'{"metadata": {"name": "b"}}',
            headers=headers,
            skip_auto_headers=("Content-Type",),
        )
        assert answer.status == 201
