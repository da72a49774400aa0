"""The server of a function: the worker beside it calls it over the unix socket that they share.

    from gpuruntime.framework import serve

    def handle(call):
        return {"hello": call.payload["name"]}

    serve(handle)

A plain function runs in a thread and waits for no other call. A coroutine function runs on the
loop, and is cancelled when the worker breaks off its call.

If the function raises, the worker retries later. The invocation keeps the message of a CallError;
for any other error it says only that the call failed, and the traceback is in the log. After
SIGTERM, calls in progress may end.
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
# Room for a payload of one mebibyte and the members around it.
MOST_BYTES: Final = 4 * 1024 * 1024
GRACE_SECONDS: Final = 25.0
# The worker may run as another user of the Pod; only the Pod sees the folder.
SOCKET_MODE: Final = 0o666
# The highest concurrency that a unit may declare. The worker limits the calls: a call that waited
# for a thread here would lose time of its attempt unnoticed.
MOST_AT_ONCE: Final = 1000

_calls = msgspec.json.Decoder(Call)
_encoder = msgspec.json.Encoder()


def serve(
    handler: Handler, *, framework: Framework = DEFAULTS, grace_seconds: float = GRACE_SECONDS
) -> None:
    """Serve the function until SIGTERM or SIGINT."""
    asyncio.run(_serve_until_signalled(handler, framework, grace_seconds))


@asynccontextmanager
async def serving(handler: Handler, framework: Framework = DEFAULTS) -> AsyncIterator["Server"]:
    """Serve the function while the context is open."""
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
        self._in_progress = 0
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
            return web.Response(status=400, text=f"not a call: {error}\n")
        self._in_progress += 1
        self._idle.clear()
        try:
            return await self._answer(call)
        finally:
            self._in_progress -= 1
            if self._in_progress == 0:
                self._idle.set()

    async def stop(self, *, grace_seconds: float) -> None:
        """Fail the health check, so that the worker sends no more calls, and let those in progress
        end.
        """
        self._is_stopping = True
        await is_set_within(self._idle, grace_seconds)

    def close(self) -> None:
        """Close the threads without waiting for calls that still run in them."""
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
    """Return a socket at the path; a socket left by a killed process is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_socket():
        path.unlink()
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(str(path))
    path.chmod(SOCKET_MODE)
    return bound


async def _serve_until_signalled(
    handler: Handler, framework: Framework, grace_seconds: float
) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    async with serving(handler, framework) as server:
        log.info("serving on %s", place_of(framework.socketPath))
        await stopping.wait()
        await server.stop(grace_seconds=grace_seconds)
