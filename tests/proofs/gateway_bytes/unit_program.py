"""The program of a unit, as a process: `python -m tests.proofs.gateway_bytes.unit_program`.

It prints its ports as a JSON object. `http` serves the paths below, a connection to `pour` gets
bytes without end, and nothing is read from a connection to `stuck`.
"""

import asyncio
import hashlib
import json
import sys
from contextlib import suppress
from typing import Final, NoReturn

from aiohttp import web

from tests.proofs.gateway_bytes.pieces import MIB, pieces

_POURED: Final = bytes(32 * 1024)
# It holds what waits for it, which nothing else refers to.
_NEVER: Final = asyncio.Event()


async def greet(_: web.Request) -> web.Response:
    return web.Response(text="ok")


async def send_pieces(request: web.Request) -> web.StreamResponse:
    count = int(request.query["mib"])
    response = web.StreamResponse(headers={"Content-Length": str(count * MIB)})
    await response.prepare(request)
    for piece in pieces(count):
        await response.write(piece)
    return response


async def take_pieces(request: web.Request) -> web.Response:
    digest = hashlib.sha256()
    async for data in request.content.iter_any():
        digest.update(data)
    return web.Response(text=digest.hexdigest())


async def count_bytes(request: web.Request) -> web.Response:
    count = 0
    async for data in request.content.iter_any():
        count += len(data)
    return web.Response(text=str(count))


async def echo(request: web.Request) -> web.StreamResponse:
    socket = web.WebSocketResponse(max_msg_size=0, compress=False)
    await socket.prepare(request)
    async for message in socket:
        await socket.send_bytes(message.data)
    return socket


async def pour(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    with suppress(ConnectionError):
        while True:
            await response.write(_POURED)
    return response


async def pour_messages(request: web.Request) -> web.StreamResponse:
    socket = web.WebSocketResponse(compress=False)
    await socket.prepare(request)
    with suppress(ConnectionError):
        while True:
            await socket.send_bytes(_POURED)
    return socket


async def take_nothing(request: web.Request) -> NoReturn:
    """Leave the body, or the messages of a WebSocket, where they are."""
    if request.headers.get("Upgrade"):
        await web.WebSocketResponse().prepare(request)
    assert request.transport is not None
    request.transport.pause_reading()
    await _NEVER.wait()
    raise AssertionError


async def pour_bytes(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while True:
            writer.write(_POURED)
            await writer.drain()


async def keep_unread(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.transport.pause_reading()  # type: ignore[attr-defined]  # it reads, too
    await _NEVER.wait()


async def serve() -> NoReturn:
    app = web.Application()
    app.add_routes(
        [
            web.get("/", greet),
            web.get("/pieces", send_pieces),
            web.post("/pieces", take_pieces),
            web.post("/count", count_bytes),
            web.get("/echo", echo),
            web.get("/pour", pour),
            web.get("/pour-messages", pour_messages),
            web.get("/stuck", take_nothing),
            web.post("/stuck", take_nothing),
        ]
    )
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
    ports = {"http": runner.addresses[0][1]}
    for name, serving in (("pour", pour_bytes), ("stuck", keep_unread)):
        server = await asyncio.start_server(serving, "127.0.0.1", 0, backlog=1024)
        ports[name] = server.sockets[0].getsockname()[1]
    sys.stdout.write(f"{json.dumps(ports)}\n")
    sys.stdout.flush()
    await _NEVER.wait()
    raise AssertionError


if __name__ == "__main__":
    asyncio.run(serve())
