"""Servers that answer as a test scripts them, and a proxy between a client and the real API."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import aiohttp
import attrs
from aiohttp import web

from gpuruntime.client.client import Client, connect
from gpuruntime.client.options import Options
from tests.rooms.kube.servers import serving

Answerer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
_OF_ONE_HOP = {"connection", "content-length", "host", "transfer-encoding"}


@attrs.frozen
class Received:
    """A request as the server received it."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)


class Script:
    """A server that gives its answers in order, and repeats the last one."""

    def __init__(self, *answers: Answerer) -> None:
        self.received: list[Received] = []
        self.moments: list[float] = []
        self._answers = list(answers)

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        if "Expect" in request.headers:
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await request.read()
        self.received.append(
            Received(request.method, request.path_qs, dict(request.headers), body)
        )
        self.moments.append(asyncio.get_running_loop().time())
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return await answer(request)


def answer(data: object, status: int = 200, **headers: str) -> Answerer:
    return raw(json.dumps({"data": data}).encode(), status, **headers)


def page(items: list[Any], following: str = "") -> Answerer:
    return raw(json.dumps({"data": items, "next": following}).encode())


def problem(status: int, code: str, **headers: str) -> Answerer:
    error = {"code": code, "message": f"it is {code}", "details": []}
    return raw(json.dumps({"error": error}).encode(), status, **headers)


def raw(
    body: bytes, status: int = 200, *, content_type: str = "application/json", **headers: str
) -> Answerer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def say(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=body, status=status, content_type=content_type, headers=named)

    return say


async def lost(request: web.BaseRequest) -> web.StreamResponse:
    """Receive the request, and end the connection without an answer."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def silent(_: web.BaseRequest) -> web.StreamResponse:
    await asyncio.sleep(3600)
    return web.Response()


@asynccontextmanager
async def asking(script: Script, **options: Any) -> AsyncIterator[Client]:
    async with serving(script) as address, client_of(address, **options) as client:
        yield client


@asynccontextmanager
async def client_of(address: str, **options: Any) -> AsyncIterator[Client]:
    async with connect(Options(server=address, **options), rng=Random(5)) as client:
        yield client


class LossyProxy:
    """A proxy that loses the first `losses` answers to `method`."""

    def __init__(self, api: str, *, method: str = "", losses: int = 0) -> None:
        self.sent: list[Received] = []
        self._api = api
        self._method = method
        self._losses = losses

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        self.sent.append(Received(request.method, request.path_qs, dict(request.headers), body))
        headers = {n: v for n, v in request.headers.items() if n.lower() not in _OF_ONE_HOP}
        async with (
            aiohttp.ClientSession() as session,
            session.request(
                request.method, self._api + request.path_qs, data=body or None, headers=headers
            ) as given,
        ):
            content = await given.read()
        if request.method == self._method and self._losses:
            self._losses -= 1
            return await lost(request)
        kept = {n: v for n, v in given.headers.items() if n.lower() not in _OF_ONE_HOP}
        return web.Response(body=content, status=given.status, headers=kept)
