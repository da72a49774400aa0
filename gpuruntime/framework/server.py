"""Serves a function of yours to the worker beside it, over the unix socket that they share.

    from gpuruntime.framework import serve

    def handle(call):
        return {"hello": call.payload["name"]}

    serve(handle)

A plain function runs in a thread and waits for no other call, a coroutine function runs on the
loop. Where it raises, the worker tries again later: of a CallError the words go with the
invocation, of all else only that it failed, and the traceback is in the log. A coroutine is
cancelled when the worker breaks off its call. SIGTERM lets the calls in hand end.
"""

import asyncio
import inspect
import logging
import signal
import socket
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
from aiohttp import web

from gpuruntime.concurrency.waiting import is_set_within
from gpuruntime.framework.calls import Answer, Call, CallError
from gpuruntime.framework.mounts import place_of
from gpuruntime.models.kinds.functions import Framework

log = logging.getLogger(__name__)

Handler: TypeAlias = Callable[[Call], Any]
DEFAULTS: Final = Framework()
# A payload of a mebibyte, and what is around it.
MOST_BYTES: Final = 4 * 1024 * 1024
GRACE_SECONDS: Final = 25.0
# The worker may be another user in a Pod of its own: nobody else sees the folder.
SOCKET_MODE: Final = 0o666
# The highest concurrency that a unit may declare: how many calls there are is the worker's matter,
# and one that waited for a thread would lose the time of its attempt unseen.
MOST_AT_ONCE: Final = 1000

_calls = msgspec.json.Decoder(Call)
_encoder = msgspec.json.Encoder()


def serve(
    handler: Handler, *, framework: Framework = DEFAULTS, grace_seconds: float = GRACE_SECONDS
) -> None:
    """Until SIGTERM or SIGINT."""
    asyncio.run(_serve_until_told(handler, framework, grace_seconds))


@asynccontextmanager
async def serving(handler: Handler, framework: Framework = DEFAULTS) -> AsyncIterator["Server"]:
    """While entered."""
    server = Server(handler)
    app = web.Application(client_max_size=MOST_BYTES)
    app.router.add_get(framework.healthPath, server.health)
    app.router.add_post(framework.invokePath, server.invoke)
    runner = web.AppRunner(
        app,
        access_log=None,
        handle_signals=False,
        handler_cancellation=True,
        shutdown_timeout=0.5,
    )
    await runner.setup()
    try:
        await web.SockSite(runner, _bound(place_of(framework.socketPath))).start()
        yield server
    finally:
        await runner.cleanup()
        server.close()


class Server:
    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._threads = ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="call")
        self._in_hand = 0
        self._is_stopping = False
        self._idle = asyncio.Event()
        self._idle.set()

    async def health(self, _: web.Request) -> web.Response:
        if self._is_stopping:
            return web.Response(status=503, text="stopping\n")
        return web.Response(text="ok\n")

    async def invoke(self, request: web.Request) -> web.Response:
        try:
            call = _calls.decode(await request.read())
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return web.Response(status=400, text=f"no call: {error}\n")
        self._in_hand += 1
        self._idle.clear()
        try:
            return await self._answer(call)
        finally:
            self._in_hand -= 1
            if self._in_hand == 0:
                self._idle.set()

    async def stop(self, *, grace_seconds: float) -> None:
        """The worker hears that it should send no more; what is in hand ends in its time."""
        self._is_stopping = True
        await is_set_within(self._idle, grace_seconds)

    def close(self) -> None:
        """What still runs in a thread is waited for by nobody here."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _answer(self, call: Call) -> web.Response:
        try:
            given = await self._handle(call)
        except CallError as error:
            given = Answer(statusCode=500, error=str(error) or "failed")
        answer = given if isinstance(given, Answer) else Answer(body=given)
        return web.Response(body=_encoder.encode(answer), content_type="application/json")

    async def _handle(self, call: Call) -> Any:
        if inspect.iscoroutinefunction(self._handler):
            return await self._handler(call)
        run = partial(copy_context().run, self._handler, call)
        return await asyncio.get_running_loop().run_in_executor(self._threads, run)


def _bound(path: Path) -> socket.socket:
    """One that was left by a killed process is in nobody's way."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_socket():
        path.unlink()
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(str(path))
    path.chmod(SOCKET_MODE)
    return bound


async def _serve_until_told(handler: Handler, framework: Framework, grace_seconds: float) -> None:
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    async with serving(handler, framework) as server:
        log.info("serving on %s", place_of(framework.socketPath))
        await told.wait()
        await server.stop(grace_seconds=grace_seconds)
