"""Faults of the installed kubernetes_asyncio, each a reason why `kube` does that part itself.

A test that fails here means that the library has changed: then the part may go through it.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from kubernetes_asyncio.client import ApiClient, Configuration, CoreV1Api
from kubernetes_asyncio.client.exceptions import ApiException
from kubernetes_asyncio.client.rest import RESTClientObject
from kubernetes_asyncio.config.kube_config import KubeConfigMerger
from kubernetes_asyncio.leaderelection.electionconfig import Config
from kubernetes_asyncio.leaderelection.leaderelection import LeaderElection
from kubernetes_asyncio.leaderelection.resourcelock.leaselock import LeaseLock
from kubernetes_asyncio.stream import WsApiClient
from kubernetes_asyncio.watch import Watch

from tests.rooms.kube.connect.kubeconfigs import write_kubeconfig
from tests.rooms.kube.servers import Handler, serving

A_DAY_SECONDS = 86_400


@asynccontextmanager
async def watching(handler: Handler) -> AsyncIterator[Any]:
    """Yield the library's Watch of Pods after version 5, with plain dicts as objects."""
    async with (
        serving(handler) as url,
        ApiClient(Configuration(host=url)) as client,
        Watch() as watch,
    ):
        watch.return_type = "object"
        pods = CoreV1Api(client).list_pod_for_all_namespaces
        yield watch.stream(pods, resource_version="5")


@pytest.mark.looptime
async def test_its_watch_waits_for_a_day_on_a_silent_connection() -> None:
    async def fall_silent(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.Event().wait()
        return response

    async with watching(fall_silent) as events:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(A_DAY_SECONDS):
                await anext(events)


@pytest.mark.looptime
async def test_its_watch_reconnects_without_any_pause_after_an_early_end() -> None:
    requests = 0
    enough = asyncio.Event()

    async def end_at_once(_: web.BaseRequest) -> web.Response:
        nonlocal requests
        requests += 1
        if requests == 100:
            enough.set()
        return web.Response()

    async def consume(events: Any) -> None:
        await anext(events)

    loop = asyncio.get_running_loop()
    async with watching(end_at_once) as events:
        started = loop.time()
        consumer = asyncio.create_task(consume(events))
        await enough.wait()
        assert loop.time() - started < 0.1
        consumer.cancel()
        await asyncio.wait({consumer})


async def test_its_watch_yields_half_a_line_as_an_event() -> None:
    half = '{"type": "ADDED", "object": {"metadata": {"na'

    async def break_off(_: web.BaseRequest) -> web.Response:
        return web.Response(text=half)

    async with watching(break_off) as events:
        assert await anext(events) == half


async def test_its_watch_answers_an_expired_version_with_the_same_version() -> None:
    versions: list[str] = []

    async def expired(request: web.BaseRequest) -> web.Response:
        versions.append(request.query["resourceVersion"])
        status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
        return web.json_response({"type": "ERROR", "object": status})

    async with watching(expired) as events:
        with pytest.raises(ApiException, match="Expired"):
            await anext(events)
    assert versions == ["5", "5"]


async def test_its_exec_asks_for_a_version_that_cannot_end_the_input() -> None:
    offered: list[str] = []

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        offered.append(request.headers["Sec-WebSocket-Protocol"])
        response = web.WebSocketResponse()
        await response.prepare(request)
        return response

    async with serving(handler) as url, WsApiClient(Configuration(host=url)) as client:
        run = CoreV1Api(client).connect_get_namespaced_pod_exec
        assert await run("p", "default", command="true") == ""
    assert offered == ["v4.channel.k8s.io"]


@pytest.mark.looptime
async def test_its_elector_leaves_its_leader_at_work_after_a_lost_connection() -> None:
    """The elector ends with the transport's error, and cancels nothing that it has started."""
    leading: list[asyncio.Task[None] | None] = []

    async def lead() -> None:
        leading.append(asyncio.current_task())
        await asyncio.Event().wait()

    async def serve_until_created(request: web.BaseRequest) -> web.Response:
        if request.method == "POST":
            return web.json_response(await request.json(), status=201)
        if leading and request.transport is not None:
            request.transport.abort()
        status = {"kind": "Status", "code": 404, "reason": "NotFound"}
        return web.json_response(status, status=404)

    async with serving(serve_until_created) as url, ApiClient(Configuration(host=url)) as client:
        lock = LeaseLock("lease", "default", "ours", client)
        elector = LeaderElection(Config(lock, 15, 10, 2, lead, None))
        with pytest.raises(aiohttp.ClientError):
            await elector.run()
        await asyncio.sleep(A_DAY_SECONDS)
        (task,) = leading
        assert task is not None
        assert not task.done()
        task.cancel()
        await asyncio.wait({task})


def test_its_merger_takes_the_context_of_the_last_file_where_kubectl_takes_the_first(
    tmp_path: Path,
) -> None:
    first = write_kubeconfig(tmp_path, "https://127.0.0.1:1", name="first")
    last = write_kubeconfig(tmp_path, "https://127.0.0.1:2", name="last")
    last.write_text(last.read_text().replace("current-context: dev", "current-context: prod"))

    merged = KubeConfigMerger(f"{first}:{last}").config
    assert merged is not None
    assert merged["current-context"] == "prod"


@asynccontextmanager
async def requesting(handler: Handler) -> AsyncIterator[tuple[Any, str]]:
    """Yield the library's REST client as it is made, and the address of a server."""
    async with serving(handler) as url:
        client = RESTClientObject(Configuration(host=url))
        try:
            yield client, url
        finally:
            await client.close()


async def ok(_: web.BaseRequest) -> web.Response:
    return web.Response(text="ok")


async def test_its_rest_client_takes_no_bytes_for_a_json_body() -> None:
    async with requesting(ok) as (client, url):
        with pytest.raises(TypeError, match="bytes is not JSON serializable"):
            await client.request("PUT", url, body=b"{}", _preload_content=False)


async def test_its_rest_client_follows_redirects() -> None:
    async def redirect(request: web.BaseRequest) -> web.Response:
        if request.path == "/there":
            return web.Response(text="elsewhere")
        return web.Response(status=307, headers={"Location": "/there"})

    async with requesting(redirect) as (client, url):
        response = await client.request("GET", f"{url}/here", _preload_content=False)
        assert await response.text() == "elsewhere"


async def test_its_session_repeats_a_write_whose_connection_died() -> None:
    seen: list[str] = []

    async def die_once(request: web.BaseRequest) -> web.Response:
        seen.append(request.method)
        if seen == ["GET", "PUT"]:
            assert request.transport is not None
            request.transport.abort()
        return web.Response(text="ok")

    async with requesting(die_once) as (client, url):
        for method in ("GET", "PUT"):
            response = await client.request(method, url, _preload_content=False)
            await response.read()
    assert seen == ["GET", "PUT", "PUT"]


async def test_its_session_rejects_our_token_if_netrc_knows_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login someone password else\n")
    monkeypatch.setenv("NETRC", str(netrc))
    async with requesting(ok) as (client, url):
        headers = {"Authorization": "Bearer ours"}
        with pytest.raises(ValueError, match="Cannot combine AUTHORIZATION header"):
            await client.request("GET", url, headers=headers, _preload_content=False)
