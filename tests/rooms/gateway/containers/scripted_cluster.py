"""A cluster whose Pods are a list and whose WebSockets have a test at their other end."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import aiohttp
import attrs
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from gpuruntime.embedded.apiserver.socket_pair import PairedSocket, socket_pair
from gpuruntime.gateway.connections import ConnectionOptions, Connections
from gpuruntime.gateway.errors import GatewayError, error_answer
from gpuruntime.gateway.gate import Visitor
from gpuruntime.kube.transport import Request, Response, Socket, StreamResponse
from gpuruntime.meter import NullMeter
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.templates import Port, Template
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitSpec
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.requests.tickets import Use
from gpuruntime.tickets.tokens import Claims

NAMESPACE = "lab"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
UID = "6d1d2b1e"
Serve = Callable[[web.Request, Visitor], Awaitable[web.StreamResponse]]


def pod(name: str, *, created: str = "2026-01-01T00:00:00Z", **more: Any) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": NAMESPACE,
        "labels": {labels.UNIT_UID: UID},
        "creationTimestamp": created,
    }
    if more.get("is_deleted"):
        metadata["deletionTimestamp"] = created
    return {"metadata": metadata, "status": {"phase": more.get("phase", "Running")}}


class ScriptedCluster:
    """Each WebSocket waits in `opened`; a refusal is yielded instead of one."""

    def __init__(self, *pods: dict[str, Any]) -> None:
        self.pods = list(pods or (pod("demo-1"),))
        self.refusal: Response | None = None
        self.unreadable: Response | None = None
        self.requests: list[Request] = []
        self.opened: asyncio.Queue[PairedSocket] = asyncio.Queue()

    async def request(self, request: Request) -> Response:
        self.requests.append(request)
        body = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": self.pods}
        return self.unreadable or Response(status=200, body=json.dumps(body).encode())

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        raise NotImplementedError(request.path)

    @asynccontextmanager
    async def socket(self, request: Request, protocol: str) -> AsyncIterator[Socket | Response]:
        del protocol
        self.requests.append(request)
        if self.refusal is not None:
            yield self.refusal
            return
        ours, theirs = socket_pair()
        self.opened.put_nowait(theirs)
        try:
            yield ours
        finally:
            await ours.close()


def unit(*ports: Port) -> GPUUnit:
    return GPUUnit(
        metadata=ObjectMeta(name="demo", namespace=NAMESPACE, uid=UID),
        spec=GPUUnitSpec(specName="g1.1", template=Template(ports=ports)),
    )


def visitor(use: Use, *ports: Port, port: int | None = None) -> Visitor:
    claims = Claims(
        jti="t",
        uid=UID,
        unit="demo",
        gen=0,
        use=(use,),
        iat=0,
        exp=int(NOW.timestamp()) + 100_000,
        sub="somebody",
    )
    return Visitor(claims=claims, unit=unit(*ports), use=use, port=port)


OPTIONS = ConnectionOptions(
    all=100, per_unit=100, per_ticket=100, exec_per_unit=2, grace_seconds=5.0, ends_unknown=False
)


def new_connections() -> Connections:
    return Connections(OPTIONS, now=lambda: NOW, watch_age=lambda: 0.0, meter=NullMeter())


@attrs.frozen
class Site:
    """A server of one kind of session, and a client of it."""

    client: TestClient[web.Request, web.Application]

    def open(self, query: str = "", *, protocols: tuple[str, ...] = (), **more: Any) -> Any:
        more = {"autoping": True, "max_msg_size": 2**21} | more
        return self.client.ws_connect(f"/{query}", protocols=protocols, **more)

    async def refusal(self, query: str = "", **headers: str) -> tuple[int, str]:
        """Return status and message of an answer that opens no WebSocket."""
        opening = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
            "Sec-WebSocket-Protocol": "v5.channel.k8s.io",
        }
        answer = await self.client.get(f"/{query}", headers={**opening, **headers})
        return answer.status, (await answer.json())["error"]["message"]


@asynccontextmanager
async def serving(serve: Serve, visitor: Visitor) -> AsyncIterator[Site]:
    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            return await serve(request, visitor)
        except GatewayError as error:
            return error_answer(error)

    app = web.Application()
    app.router.add_get("/{path:.*}", handle)
    async with TestClient(TestServer(app)) as client:
        yield Site(client)


async def closed(socket: aiohttp.ClientWebSocketResponse) -> tuple[list[Any], int | None, str]:
    """Return the messages to the end, the code of the end and its words."""
    messages: list[Any] = []
    try:
        async with asyncio.timeout(30):
            while True:
                message = await socket.receive()
                if message.type not in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT):
                    return messages, socket.close_code, message.extra or ""
                messages.append(message.data)
    except TimeoutError as error:
        raise AssertionError(f"it never ended, after {messages[-20:]}") from error
