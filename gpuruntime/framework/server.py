"""The server of a function: the worker beside it calls it over the unix socket that they share.

    from gpuruntime.framework import serve

    def handle(call):
        return {"hello": call.payload["name"]}

    serve(handle)

A plain function runs in a thread and waits for no other call. A coroutine function runs on the
loop, and is cancelled when the worker breaks off its call.

If the function raises, the worker retries later, and the invocation keeps the type, the message
and the end of the traceback. With `reports_errors=False` it keeps only what a CallError says, and
the log has the rest. After SIGTERM, calls in progress may end.
"""

import asyncio
import inspect
import logging
import signal
import socket
import traceback
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs
import msgspec
from aiohttp import web

from gpuruntime.concurrency.waiting import is_set_within
from gpuruntime.framework.call_logs import calling, format_lines
from gpuruntime.framework.calls import Answer, Call, CallError
from gpuruntime.framework.mounts import place_of
from gpuruntime.models.kinds.functions import Framework
from gpuruntime.models.kinds.invocations import FunctionError

log = logging.getLogger(__name__)

Handler: TypeAlias = Callable[[Call], Any]
DEFAULTS: Final = Framework()
# The end of a traceback says where the function failed.
MOST_TRACEBACK_BYTES: Final = 2_048
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
    handler: Handler,
    *,
    framework: Framework = DEFAULTS,
    grace_seconds: float = GRACE_SECONDS,
    reports_errors: bool = True,
) -> None:
    """Serve the function until SIGTERM or SIGINT."""
    format_lines()
    asyncio.run(_serve_until_signalled(handler, framework, grace_seconds, reports_errors))


@asynccontextmanager
async def serving(
    handler: Handler, framework: Framework = DEFAULTS, *, reports_errors: bool = True
) -> AsyncIterator["Server"]:
    """Serve the function while the context is open."""
    server = Server(handler, reports_errors=reports_errors)
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
    def __init__(self, handler: Handler, *, reports_errors: bool = True) -> None:
        self._handler = handler
        self._reports_errors = reports_errors
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
        with calling(call):
            try:
                given = await self._handle(call)
                answer = given if isinstance(given, Answer) else Answer(body=given)
                body = _encoder.encode(answer)
            except Exception as error:  # noqa: BLE001  # whatever a user's function raises
                body = _encoder.encode(Answer(statusCode=500, error=self._reported(error)))
        return web.Response(body=body, content_type="application/json")

    def _reported(self, error: Exception) -> FunctionError:
        """Log the error, and return what its caller may see of it."""
        said = FunctionError(type=type(error).__name__, message=str(error) or "failed")
        if isinstance(error, CallError):
            log.warning("call failed: %s", error)
            return said
        log.error("call failed", exc_info=error)
        if not self._reports_errors:
            return FunctionError(message="the function failed: its log says why")
        return attrs.evolve(said, traceback=_end_of(traceback.format_exception(error)))

    async def _handle(self, call: Call) -> Any:
        if inspect.iscoroutinefunction(self._handler):
            return await self._handler(call)
        run = partial(copy_context().run, self._handler, call)
        return await asyncio.get_running_loop().run_in_executor(self._threads, run)


def _end_of(lines: list[str]) -> str:
    """Return the last whole lines that have room, or the end of a longer last line."""
    text = "".join(lines).encode(errors="replace")
    end = text[-MOST_TRACEBACK_BYTES:]
    whole = end if end == text else end.partition(b"\n")[2] or end
    return whole.decode(errors="ignore")


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
    handler: Handler,
    framework: Framework,
    grace_seconds: float,
    reports_errors: bool,
) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    async with serving(handler, framework, reports_errors=reports_errors) as server:
        log.info("serving on %s", place_of(framework.socketPath))
        await stopping.wait()
        await server.stop(grace_seconds=grace_seconds)
