import asyncio
import io
import json

import aiohttp
import pytest

from gpuruntime.errors import ConfigurationError
from gpuruntime.local.http import serve
from gpuruntime.local.reading import LARGEST_BODY
from tests.local.calls import MAPS, make, new_server

IN_JSON = {"Content-Type": "application/json"}


async def test_an_answer_over_http_is_that_of_the_server() -> None:
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


async def test_a_port_in_use_is_refused_with_one_line() -> None:
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


async def test_a_watch_ends_when_its_client_leaves() -> None:
    server = new_server()
    (maps,) = (kind for kind in server.registry if kind.kind == "ConfigMap")
    async with serve(server) as url, aiohttp.ClientSession() as session:
        answer = await session.get(f"{url}{MAPS}?watch=1")
        watches = server.store.collection(maps).watches
        assert len(watches) == 1
        answer.close()
        async with asyncio.timeout(5):
            while len(watches):  # noqa: ASYNC110  # what ends is a connection, which sets no event
                await asyncio.sleep(0)
