"""The caller's end of a session closes in order, wherever its reader stands."""

import asyncio

from aiohttp import ClientSession, WSMsgType, web
from aiohttp.test_utils import TestServer

from gpuruntime.gateway.containers.caller_socket import (
    CLOSING_SECONDS,
    Close,
    CloseCode,
    accept,
)


async def test_a_close_after_a_message_takes_the_callers_answer() -> None:
    taken: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def session(request: web.Request) -> web.StreamResponse:
        caller = await accept(request, protocols=(), largest=1024)
        assert await caller.receive() == b"a"
        began_at = asyncio.get_running_loop().time()
        await caller.close(Close(CloseCode.DONE, "over"))
        taken.set_result(asyncio.get_running_loop().time() - began_at)
        return caller.response

    app = web.Application()
    app.router.add_get("/", session)
    async with TestServer(app) as server, ClientSession() as client:
        async with client.ws_connect(server.make_url("/")) as web_socket:
            await web_socket.send_bytes(b"a")
            ended = await web_socket.receive()
            assert (ended.type, ended.data, ended.extra) == (WSMsgType.CLOSE, 1000, "over")
        assert await taken < CLOSING_SECONDS / 2
