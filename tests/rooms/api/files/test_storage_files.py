"""Files of a storage through the API: which requests pass, and what is sent on where."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.rooms.api.files.upstream import (
    FILES,
    Upstream,
    add_storage,
    answer,
    filing,
    put_service,
    request,
    saying,
    send,
    set_condition,
    until_closed,
)
from tests.rooms.api.http.test_server import statuses
from tests.rooms.api.service import service
from tests.rooms.operations.cluster import Cluster
from tests.row_ids import in_words

pytestmark = pytest.mark.looptime

DESTINATION = b"Destination: "


def error_of(received: bytes) -> dict[str, Any]:
    error: dict[str, Any] = json.loads(received.partition(b"\r\n\r\n")[2])["error"]
    return error


def head_of(received: bytes) -> bytes:
    return received.partition(b"\r\n\r\n")[0]


def lines_of(received: bytes) -> set[bytes]:
    """Return the head's lines in lower case, as names of headers may come in any case."""
    return {line.lower() for line in head_of(received).split(b"\r\n")}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/a.bin"),
        ("HEAD", "/a.bin"),
        ("OPTIONS", "/"),
        ("PROPFIND", "/a/"),
        ("PUT", "/%E4%BD%A0/b%20c"),
        ("PATCH", "/a.bin"),
        ("DELETE", "/100%25.txt?x=../..&y=%2e"),
        ("MKCOL", "/new"),
        ("GET", ""),
        ("GET", "/"),
        ("HEAD", "/"),
        ("PROPFIND", "/"),
    ],
)
async def test_every_method_reaches_the_file_server_with_its_path(method: str, path: str) -> None:
    async with filing() as (api, upstream):
        upstream.script = saying(answer("200 OK"))
        assert statuses(await send(api, request(method, path))) == [200]
        assert upstream.line == f"{method} {FILES}{path} HTTP/1.1"


@pytest.mark.parametrize("method", ["POST", "LOCK", "TRACE"])
async def test_other_methods_are_405_with_the_allowed_ones(method: str) -> None:
    async with filing() as (api, upstream):
        received = await send(api, request(method))
        assert statuses(received) == [405]
        assert (
            b"Allow: COPY, DELETE, GET, HEAD, MKCOL, MOVE, OPTIONS, PATCH, PROPFIND, PUT"
            in received
        )
        assert upstream.requests == []


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "MKCOL", "COPY", "MOVE"])
async def test_changes_need_a_writable_accessor(method: str) -> None:
    async with filing(writable=False) as (api, upstream):
        received = await send(api, request(method, "/a", DESTINATION + f"{FILES}/b".encode()))
        assert statuses(received) == [405]
        assert b"Allow: GET, HEAD, OPTIONS, PROPFIND\r\n" in received
        assert statuses(await send(api, request("GET"))) == [200]
        assert [one[:3] for one in upstream.requests] == [b"GET"]


@pytest.mark.parametrize("path", ["/../b", "/%2e%2e/b", "/%252e%252e/b", "/a%00", "//a", "/a%5cb"])
async def test_a_path_that_may_lead_out_is_400_without_a_request(path: str) -> None:
    async with filing() as (api, upstream):
        received = await send(api, request("GET", path))
        assert statuses(received) == [400]
        assert error_of(received)["details"][0]["field"] == "path"
        assert upstream.requests == []


async def test_a_storage_that_does_not_exist_is_404() -> None:
    async with filing() as (api, _):
        for name in ("other", "%2e%2e", "Models", "a" * 70):
            root = f"/api/v1/gpu-storages/{name}/files"
            received = await send(api, request("GET", "/a", root=root))
            assert statuses(received)[0] in (400, 404)
        assert error_of(await send(api, request(root="/api/v1/gpu-storages/other/files")))[
            "code"
        ] == ("gpustorage_not_found")


async def test_an_accessor_that_is_off_is_409() -> None:
    async with filing(enabled=False) as (api, upstream):
        received = await send(api, request())
        assert (statuses(received), error_of(received)["code"]) == ([409], "accessor_off")
        assert "accessor.enabled" in error_of(received)["message"]
        assert upstream.requests == []


async def test_an_accessor_that_is_not_ready_is_503_with_its_reason() -> None:
    cluster = Cluster()
    async with filing(cluster) as (api, upstream):
        words = "accessor: ErrImagePull: no such image"
        set_condition(cluster, status="False", reason="AccessorFailed", message=words)
        await asyncio.sleep(1)
        received = await send(api, request())
        assert (statuses(received), error_of(received)["code"]) == ([503], "service_unavailable")
        assert words in error_of(received)["message"]
        assert b"Retry-After: " in received
        assert upstream.requests == []


@pytest.mark.parametrize(
    ("owner", "address"),
    [("another", "127.0.0.1"), ("", "127.0.0.1"), (None, "None"), (None, "localhost"), (None, "")],
)
async def test_a_service_that_is_not_the_storages_own_or_has_no_address_is_503(
    owner: str | None, address: str
) -> None:
    async with filing() as (api, upstream):
        made = (await api.call("GET", "/api/v1/gpu-storages/models")).data
        assert made["accessor"]["enabled"]
        uid = next(iter(api.services.objects.values())).metadata.ownerReferences[0].uid
        put_service(api, upstream.port, owner=uid if owner is None else owner, address=address)
        assert statuses(await send(api, request())) == [503]
        assert upstream.requests == []


@pytest.mark.parametrize("body", [b"", b"ok"])
async def test_a_connection_refused_at_first_is_retried(body: bytes) -> None:
    cluster, upstream = Cluster(), Upstream()
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    async with service(cluster) as api, asyncio.TaskGroup() as tasks:
        add_storage(api, cluster, port)
        length = b"Content-Length: %d" % len(body)
        asking = tasks.create_task(send(api, request("PUT", "/a", length, body=body)))
        await asyncio.sleep(0.5)
        async with await asyncio.start_server(upstream.serve, "127.0.0.1", port):
            assert statuses(await asking) == [200]
    assert len(upstream.requests) == 1


async def test_an_unreachable_file_server_is_502() -> None:
    cluster = Cluster()
    async with filing(cluster) as (api, upstream):
        add_storage(api, cluster, 1, name="gone")
        received = await send(api, request(root="/api/v1/gpu-storages/gone/files"))
        assert (statuses(received), error_of(received)["code"]) == ([502], "upstream_fault")
        assert "storage gone cannot be reached" in error_of(received)["message"]
        assert upstream.requests == []


async def test_headers_of_the_caller_do_not_change_the_address() -> None:
    async with filing() as (api, upstream):
        told = (b"X-Forwarded-Host: 127.0.0.2:9", b"Forwarded: host=127.0.0.2")
        assert statuses(await send(api, request("GET", "/a", *told))) == [200]
        assert upstream.head["host"] == f"127.0.0.1:{upstream.port}"


async def test_credentials_and_connection_headers_are_not_sent_on() -> None:
    sent = (
        b"Authorization: Bearer secret",
        b"Cookie: session=secret",
        b"Proxy-Authorization: Basic secret",
        b"TE: trailers",
        b"Upgrade: websocket",
        b"Keep-Alive: 5",
        b"Connection: X-Mine",
        b"X-Mine: here",
    )
    async with filing() as (api, upstream):
        assert statuses(await send(api, request("GET", "/a", *sent))) == [200]
        assert b"secret" not in upstream.requests[0]
        assert set(upstream.head) == {"host", "connection"}


async def test_other_request_headers_are_sent_on_and_none_is_added() -> None:
    sent = {
        "range": "bytes=0-1,5-",
        "if-range": '"abc"',
        "if-none-match": '"a", W/"b"',
        "if-modified-since": "Wed, 21 Oct 2015 07:28:00 GMT",
        "depth": "1",
        "overwrite": "F",
        "accept-encoding": "gzip",
        "x-update-range": "append",
    }
    lines = tuple(f"{name}: {value}".encode() for name, value in sent.items())
    async with filing() as (api, upstream):
        assert statuses(await send(api, request("GET", "/a", *lines))) == [200]
        assert {**sent, "connection": "close"}.items() <= upstream.head.items()
        assert set(upstream.head) == {*sent, "host", "connection"}


async def test_answer_headers_come_back_except_those_about_the_host() -> None:
    kept = (
        b"Content-Range: bytes 0-2/7",
        b'ETag: "abc"',
        b"Accept-Ranges: bytes",
        b"Content-Encoding: gzip",
        b"Vary: A",
        b"Vary: B",
    )
    dropped = (
        b"Set-Cookie: a=secret",
        b"WWW-Authenticate: Basic realm=secret",
        b"Strict-Transport-Security: secret",
        b"Clear-Site-Data: secret",
        b"Cache-Control: public, max-age=31536000, secret",
        b"Access-Control-Allow-Origin: secret",
        b"X-Frame-Options: secret",
        b"Server: secret",
        b"Connection: X-Mine",
        b"X-Mine: secret",
    )
    async with filing() as (api, upstream):
        upstream.script = saying(answer("206 Partial Content", *kept, *dropped, body=b"abc"))
        received = await send(api, request())
        assert statuses(received) == [206]
        assert received.endswith(b"\r\n\r\nabc")
        assert b"secret" not in received
        assert {line.lower() for line in kept} <= lines_of(received)
        assert b"Content-Security-Policy: sandbox" in head_of(received)
        assert b"allow-same-origin" not in head_of(received)
        assert b"X-Content-Type-Options: nosniff" in head_of(received)
        assert b"Cache-Control: no-store" in head_of(received)


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
async def test_an_answer_without_a_body_stays_without_one(status: str) -> None:
    async with filing() as (api, upstream):
        upstream.script = saying(f'HTTP/1.1 {status}\r\nETag: "a"\r\n\r\n'.encode())
        received = await send(api, request())
        assert received.endswith(b"\r\n\r\n")
        assert b'etag: "a"' in lines_of(received)


async def test_head_returns_a_files_length() -> None:
    async with filing() as (api, upstream):
        upstream.script = saying(b"HTTP/1.1 200 OK\r\nContent-Length: 700000000000\r\n\r\n")
        received = await send(api, request("HEAD"))
        assert b"Content-Length: 700000000000\r\n" in received
        assert received.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("method", ["COPY", "MOVE"])
async def test_a_destination_in_the_same_storage_is_sent_as_a_path(method: str) -> None:
    async with filing() as (api, upstream):
        there = DESTINATION + f"http://here{FILES}/b%20c".encode()
        assert statuses(await send(api, request(method, "/a", there))) == [200]
        assert upstream.head["destination"] == f"{FILES}/b%20c"


@pytest.mark.parametrize(
    "there",
    [
        (),
        (DESTINATION + f"{FILES}/b".encode(), DESTINATION + f"{FILES}/c".encode()),
        (DESTINATION + b"/api/v1/gpu-storages/other/files/b",),
        (DESTINATION + f"http://elsewhere{FILES}/b".encode(),),
        (DESTINATION + f"{FILES}/../../other/files/b".encode(),),
    ],
    ids=in_words,
)
async def test_any_other_destination_is_400(there: tuple[bytes, ...]) -> None:
    async with filing() as (api, upstream):
        received = await send(api, request("MOVE", "/a", *there))
        assert statuses(received) == [400]
        assert error_of(received)["details"][0]["field"] == "Destination"
        assert upstream.requests == []


async def test_a_redirect_within_the_storage_is_passed_on() -> None:
    async with filing() as (api, upstream):
        upstream.script = saying(answer("301 Moved", f"Location: {FILES}/a/".encode()))
        received = await send(api, request())
        assert statuses(received) == [301]
        assert f"Location: {FILES}/a/".encode() in received
        assert len(upstream.requests) == 1


async def test_sized_and_chunked_bodies_keep_their_framing() -> None:
    bodies: list[bytes] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = upstream.head
        if "content-length" in head:
            bodies.append(await reader.readexactly(int(head["content-length"])))
        else:
            bodies.append(await reader.readuntil(b"0\r\n\r\n"))
        writer.write(answer("201 Created"))

    async with filing() as (api, upstream):
        upstream.script = script
        told = request("PUT", "/a", b"Content-Length: 6", body=b"abcdef")
        assert statuses(await send(api, told)) == [201]
        chunks = b"3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n"
        chunked = request("PUT", "/a", b"Transfer-Encoding: chunked", body=chunks)
        assert statuses(await send(api, chunked)) == [201]
        assert statuses(await send(api, request("PUT", "/a", b"Content-Length: 0"))) == [201]
        assert bodies[0] == b"abcdef"
        assert b"abc" in bodies[1]
        assert bodies[1].endswith(b"0\r\n\r\n")
        assert bodies[2] == b""


async def test_compressed_bodies_and_any_media_type_are_sent_on_unchanged() -> None:
    async with filing() as (api, upstream):
        sent = (b"Content-Encoding: gzip", b"Content-Type: text/x", b"Content-Length: 3")
        upstream.script = saying(answer("201 Created"), then=until_closed)
        assert statuses(await send(api, request("PUT", "/a", *sent, body=b"abc"))) == [201]
        assert upstream.head["content-encoding"] == "gzip"
        assert upstream.head["content-type"] == "text/x"


async def test_the_body_is_requested_once_the_file_server_takes_it() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(3) == b"abc"
        writer.write(answer("201 Created"))

    async with filing() as (api, upstream):
        upstream.script = script
        asking = (b"Expect: 100-continue", b"Content-Length: 3")
        received = await send(api, request("PUT", "/a", *asking), b"abc")
        assert statuses(received) == [100, 201]
        assert "expect" not in upstream.head
    async with filing(writable=False) as (api, _):
        assert statuses(await send(api, request("PUT", "/a", *asking))) == [405]


async def test_a_file_may_be_larger_and_slower_than_other_bodies() -> None:
    loop = asyncio.get_running_loop()
    pieces, piece = 4, bytes(600_000)

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(pieces * len(piece))
        writer.write(answer("201 Created"))

    async with filing() as (api, upstream):
        upstream.script = script

        async def body() -> AsyncIterator[bytes]:
            for _ in range(pieces):
                await asyncio.sleep(30)
                yield piece

        began = loop.time()
        length = {"Content-Length": str(pieces * len(piece))}
        async with api.client.put(f"{FILES}/a", data=body(), headers=length) as received:
            assert received.status == 201
        assert loop.time() - began > 100
