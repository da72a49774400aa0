"""Requests and streams over real connections: deadlines, lost answers, no request sent twice."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiohttp import web

from gpuruntime.kube.client import server_version
from gpuruntime.kube.connect.sessions import CONNECT_TIMEOUT_SECONDS
from gpuruntime.kube.connect.sources import Kubeconfig
from gpuruntime.kube.errors import NotLeadingError, OutcomeUnknownError, UnreachableError
from gpuruntime.kube.http import HttpTransport, connect
from gpuruntime.kube.transport import MERGE_PATCH, Request
from tests.rooms.kube.connect.kubeconfigs import write_kubeconfig
from tests.rooms.kube.servers import Handler, serving

WRITES = ["POST", "PUT", "PATCH", "DELETE"]


@asynccontextmanager
async def connected(config: Path) -> AsyncIterator[HttpTransport]:
    transport = await connect(Kubeconfig(str(config)), now=lambda: datetime.now(UTC))
    try:
        yield transport
    finally:
        await transport.close()


@asynccontextmanager
async def talking(directory: Path, handler: Handler) -> AsyncIterator[HttpTransport]:
    async with serving(handler) as url, connected(write_kubeconfig(directory, url)) as transport:
        yield transport


async def test_a_request_arrives_as_it_was_made(tmp_path: Path) -> None:
    seen: list[tuple[str, str, bytes, dict[str, str]]] = []

    async def handler(request: web.BaseRequest) -> web.Response:
        body = await request.read()
        seen.append((request.method, request.path_qs, body, dict(request.headers)))
        return web.Response(status=201, body=b"made", headers={"X-Thing": "1"})

    async with serving(handler) as url:
        config = write_kubeconfig(tmp_path, f"{url}/prefix/", user={"token": "t0"})
        async with connected(config) as transport:
            response = await transport.request(
                Request(
                    method="PATCH",
                    path="/api/v1/a%20b",
                    query=(("labelSelector", "a in (b,c)"), ("limit", "5")),
                    body=b'{"exact": "bytes"}',
                    content_type=MERGE_PATCH,
                    accept="application/json;as=Table",
                )
            )
    method, path, body, headers = seen[0]
    assert (response.status, response.body, response.headers["x-thing"]) == (201, b"made", "1")
    assert method == "PATCH"
    assert path == "/prefix/api/v1/a%20b?labelSelector=a+in+%28b%2Cc%29&limit=5"
    assert body == b'{"exact": "bytes"}'
    assert headers["Authorization"] == "Bearer t0"
    assert headers["Content-Type"] == MERGE_PATCH
    assert headers["Accept"] == "application/json;as=Table"
    assert headers["Accept-Encoding"] == "identity"


@pytest.mark.parametrize("method", WRITES)
async def test_a_write_whose_connection_dies_is_unknown_and_never_repeated(
    tmp_path: Path, method: str
) -> None:
    seen: list[str] = []

    async def handler(request: web.BaseRequest) -> web.Response:
        seen.append(request.method)
        if request.method != "GET":
            assert request.transport is not None
            request.transport.abort()
        return web.Response()

    async with talking(tmp_path, handler) as transport:
        await transport.request(Request(method="GET", path="/"))
        with pytest.raises(OutcomeUnknownError, match="no answer: the connection died"):
            await transport.request(Request(method=method, path="/", body=b"{}"))
    assert seen == ["GET", method]


async def test_an_answer_that_breaks_off_is_unknown(tmp_path: Path) -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"kind":')
        assert request.transport is not None
        request.transport.close()
        return response

    async with talking(tmp_path, handler) as transport:
        with pytest.raises(OutcomeUnknownError):
            await transport.request(Request(method="PUT", path="/", body=b"{}"))


async def test_a_refused_connection_certainly_changed_nothing(tmp_path: Path) -> None:
    async with serving(lambda _: asyncio.sleep(0, web.Response())) as url:
        pass
    config = write_kubeconfig(tmp_path, url)
    async with connected(config) as transport:
        with pytest.raises(UnreachableError, match=f"cannot connect to {url}"):
            await transport.request(Request(method="POST", path="/", body=b"{}"))


async def test_a_dead_server_at_the_start_is_one_line_with_file_fault_and_remedy(
    tmp_path: Path,
) -> None:
    async with serving(lambda _: asyncio.sleep(0, web.Response())) as url:
        pass
    config = write_kubeconfig(tmp_path, url)
    async with connected(config) as transport:
        with pytest.raises(UnreachableError) as caught:
            await server_version(transport)
    message = str(caught.value)
    assert message.startswith(f"cannot connect to {url} (kubeconfig {config}, context dev)")
    assert message.endswith("check that the API server runs and can be reached from here")
    assert "\n" not in message


async def test_the_version_of_a_server_is_read(tmp_path: Path) -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        assert request.path == "/version"
        return web.json_response({"gitVersion": "v1.34.2"})

    async with talking(tmp_path, handler) as transport:
        assert await server_version(transport) == "v1.34.2"


async def hang(_: web.BaseRequest) -> web.Response:
    await asyncio.Event().wait()
    return web.Response()


@pytest.mark.looptime
async def test_a_silent_server_is_given_up_at_the_deadline(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    async with talking(tmp_path, hang) as transport:
        started = loop.time()
        with pytest.raises(OutcomeUnknownError, match="no answer within 3 s"):
            await transport.request(Request(method="PUT", path="/", timeout_seconds=3.0))
        assert loop.time() - started == pytest.approx(3.0, abs=0.1)


@pytest.mark.looptime
async def test_a_handshake_that_hangs_ends_before_the_deadline_as_not_sent(
    tmp_path: Path,
) -> None:
    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    loop = asyncio.get_running_loop()
    server = await asyncio.start_server(swallow, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        config = write_kubeconfig(tmp_path, f"https://127.0.0.1:{port}")
        async with connected(config) as transport:
            started = loop.time()
            with pytest.raises(UnreachableError):
                await transport.request(Request(method="PUT", path="/"))
            assert loop.time() - started <= CONNECT_TIMEOUT_SECONDS + 1
    await asyncio.sleep(0)


async def redirect(request: web.BaseRequest) -> web.Response:
    assert request.path == "/here"
    return web.Response(status=307, text="moved", headers={"Location": "/there"})


@pytest.mark.parametrize(("method", "body"), [("GET", None), ("PUT", b"{}")])
async def test_a_redirect_is_an_answer_and_is_not_followed(
    tmp_path: Path, method: str, body: bytes | None
) -> None:
    async with talking(tmp_path, redirect) as transport:
        response = await transport.request(Request(method=method, path="/here", body=body))
    assert (response.status, response.body) == (307, b"moved")


async def test_a_redirect_of_a_stream_is_an_answer_and_is_not_followed(tmp_path: Path) -> None:
    async with (
        talking(tmp_path, redirect) as transport,
        transport.stream(Request(method="GET", path="/here")) as stream,
    ):
        assert (stream.status, [chunk async for chunk in stream.chunks()]) == (307, [b"moved"])


async def test_a_netrc_entry_for_the_server_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        return web.Response(text=request.headers["Authorization"])

    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login someone password else\n")
    monkeypatch.setenv("NETRC", str(netrc))
    async with serving(handler) as url:
        config = write_kubeconfig(tmp_path, url, user={"token": "ours"})
        async with connected(config) as transport:
            response = await transport.request(Request(method="GET", path="/"))
    assert response.body == b"Bearer ours"


async def test_a_shut_fence_stops_a_write_before_its_first_byte(tmp_path: Path) -> None:
    seen: list[str] = []

    async def handler(request: web.BaseRequest) -> web.Response:
        seen.append(request.path)
        return web.Response()

    def fence() -> None:
        raise NotLeadingError("not leading")

    async with talking(tmp_path, handler) as transport:
        with pytest.raises(NotLeadingError):
            await transport.request(Request(method="PUT", path="/", fence=fence))
    assert seen == []


@pytest.mark.looptime
async def test_a_stream_may_outlast_the_timeout_of_a_request(tmp_path: Path) -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for number in range(3):
            await asyncio.sleep(3600)
            await response.write(b"event %d\n" % number)
        return response

    async with (
        talking(tmp_path, handler) as transport,
        transport.stream(Request(method="GET", path="/")) as stream,
    ):
        assert stream.status == 200
        received = [chunk async for chunk in stream.chunks()]
    assert b"".join(received) == b"event 0\nevent 1\nevent 2\n"


@pytest.mark.looptime
async def test_the_head_of_a_stream_has_a_deadline(tmp_path: Path) -> None:
    async with talking(tmp_path, hang) as transport:
        with pytest.raises(OutcomeUnknownError, match="no answer within 4 s"):
            async with transport.stream(Request(method="GET", path="/", timeout_seconds=4.0)):
                pass


async def test_a_broken_stream_is_unreachable_and_not_an_end(tmp_path: Path) -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"half a li")
        assert request.transport is not None
        request.transport.abort()
        return response

    async with (
        talking(tmp_path, handler) as transport,
        transport.stream(Request(method="GET", path="/")) as stream,
    ):
        with pytest.raises(UnreachableError, match="the stream broke"):
            _ = [chunk async for chunk in stream.chunks()]


async def test_streams_and_requests_never_share_a_connection(tmp_path: Path) -> None:
    ports: dict[str, set[int]] = {"/stream": set(), "/request": set()}

    async def handler(request: web.BaseRequest) -> web.Response:
        ports[request.path].add(request.get_extra_info("peername")[1])
        return web.Response(body=b"done")

    async with talking(tmp_path, handler) as transport:
        for _ in range(2):
            await transport.request(Request(method="GET", path="/request"))
            async with transport.stream(Request(method="GET", path="/stream")) as stream:
                _ = [chunk async for chunk in stream.chunks()]
    assert ports["/stream"].isdisjoint(ports["/request"])
