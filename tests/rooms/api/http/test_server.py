"""Invalid requests on the wire: bytes that are not HTTP, half bodies, oversized headers."""

import asyncio
import gzip
import json
import re
from collections.abc import AsyncIterator

import pytest
import structlog

from tests.rooms.api.service import UNITS, Service, service
from tests.rooms.operations.cluster import Cluster
from tests.row_ids import in_words

pytestmark = pytest.mark.looptime

HEALTH = b"GET /api/v1/health HTTP/1.1\r\nHost: here\r\n\r\n"
LAST = b"GET /api/v1/health HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n"


@pytest.fixture
async def api() -> AsyncIterator[Service]:
    async with service(Cluster()) as served:
        yield served
        assert served.replica.transport.written() == [], "bad input reached the cluster"


def post(body: bytes, *headers: bytes, length: int | None = None) -> bytes:
    told = b"Content-Length: %d" % (len(body) if length is None else length)
    lines = (
        b"POST %s HTTP/1.1" % UNITS.encode(),
        b"Host: here",
        b"Content-Type: application/json",
        *((told,) if length != -1 else ()),
        *headers,
    )
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


async def exchange(api: Service, *parts: bytes, ends: bool = False) -> bytes:
    """Send the bytes; return all that comes until the server closes or is silent for a while."""
    port = api.client.port
    assert port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
        if ends:
            writer.write_eof()
        return await asyncio.wait_for(reader.read(-1), 300)
    finally:
        writer.close()


def statuses(answer: bytes) -> list[int]:
    return [int(found) for found in re.findall(rb"HTTP/1\.[01] (\d{3}) ", answer)]


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "HTTPS"),
        (b"hello\r\n\r\n", "method"),
        (b"GET / HTTP/9.9\r\nHost: here\r\n\r\n", "status line"),
        (b"GET / HTTP/1.1\r\n\r\n", "Host"),
        (b"GET / HTTP/1.1\r\nHost: here\r\nA b: c\r\n\r\n", "header token"),
        (b"GET / HTTP/1.1\r\nHost: here\r\nA: \x00\r\n\r\n", "header value"),
        (b"GET /\xff HTTP/1.1\r\nHost: here\r\n\r\n", "url"),
        (b"GET / HTTP/1.1\r\nHost: here\r\n" + b"A: b\r\n" * 1000 + b"\r\n", "many headers"),
        (post(b"{}", b"Content-Length: 3"), "Content-Length"),
        (post(b"{}", b"Transfer-Encoding: chunked"), "Transfer-Encoding"),
        (post(b"{}", b"Content-Length: -2", length=-1), "Content-Length"),
    ],
    ids=in_words,
)
async def test_invalid_bytes_are_400_in_the_apis_shape_and_end_the_connection(
    api: Service, sent: bytes, words: str
) -> None:
    with structlog.testing.capture_logs() as lines:
        answer = await exchange(api, sent)
    head, _, body = answer.partition(b"\r\n\r\n")
    error = json.loads(body)["error"]
    assert statuses(answer) == [400]
    assert error["code"] == "invalid_request"
    assert words.lower() in error["message"].lower()
    assert re.search(rb"X-Request-Id: [0-9a-f]{32}", head)
    assert b"Server: gpuruntime" in head
    assert [line["log_level"] for line in lines] == ["debug"]


LARGE: dict[str, bytes] = {
    "one header": b"GET / HTTP/1.1\r\nHost: here\r\nA: " + b"a" * 40_000 + b"\r\n\r\n",
    "its target": b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\nHost: here\r\n\r\n",
    "all headers together": b"GET / HTTP/1.1\r\nHost: here\r\n"
    + (b"A: " + b"a" * 8000 + b"\r\n") * 5,
}


@pytest.mark.parametrize("sent", LARGE.values(), ids=LARGE)
async def test_a_head_is_bounded_while_it_is_read(api: Service, sent: bytes) -> None:
    answer = await exchange(api, sent)
    assert statuses(answer) == [431]
    error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
    assert error["code"] == "head_too_large"
    assert "larger than 32768 bytes" in error["message"]


async def test_a_head_below_the_bound_is_served_after_others(api: Service) -> None:
    large = HEALTH.replace(b"\r\n\r\n", b"\r\nA: " + b"a" * 20_000 + b"\r\n\r\n")
    assert statuses(await exchange(api, large, large, LAST)) == [200, 200, 200]


async def test_requests_sent_in_one_go_are_answered_in_their_order(api: Service) -> None:
    nowhere = HEALTH.replace(b"health", b"nowhere")
    answer = await exchange(api, HEALTH * 3 + nowhere + post(b"{}") + LAST)
    assert statuses(answer) == [200, 200, 200, 404, 400, 200]


async def test_half_a_body_creates_nothing_and_blocks_nothing(api: Service) -> None:
    half = post(b'{"operationID":', length=100)
    assert await exchange(api, half, ends=True) == b""
    assert statuses(await exchange(api, half)) == [408]
    assert (await api.call("GET", "/api/v1/health")).status == 200


async def test_a_body_of_broken_chunks_is_refused(api: Service) -> None:
    chunked = post(b"2\r\n{}\r\nzz\r\n", b"Transfer-Encoding: chunked", length=-1)
    assert statuses(await exchange(api, chunked)) == [400]


@pytest.mark.parametrize("encoding", [b"gzip", b"deflate", b"br", b"surprise"])
async def test_a_compressed_body_is_refused_unread(api: Service, encoding: bytes) -> None:
    body = gzip.compress(b" " * 2_000_000)
    answer = await exchange(api, post(body, b"Content-Encoding: " + encoding) + LAST)
    assert statuses(answer) == [415, 200]
    assert b"without Content-Encoding" in answer


async def test_a_body_with_identity_encoding_is_read(api: Service) -> None:
    answer = await exchange(api, post(b"{}", b"Content-Encoding: identity") + LAST)
    assert statuses(answer) == [400, 200]


async def test_a_body_is_requested_only_after_every_check_without_it(api: Service) -> None:
    asking = b"Expect: 100-continue"
    assert statuses(await exchange(api, post(b"", asking, length=2), b"{}" + LAST)) == [
        100,
        400,
        200,
    ]
    too_large = await exchange(api, post(b"", asking, length=2**30))
    assert statuses(too_large) == [413]


async def test_an_unknown_expectation_is_ignored(api: Service) -> None:
    answer = await exchange(api, post(b"{}", b"Expect: a miracle") + LAST)
    assert statuses(answer) == [400, 200]
