"""A proxy between one process and its API server: it passes everything on, and fails by a script.

The process connects by plain HTTP, so it needs no certificate; its token is passed on with its
requests. Reads and watches are passed on unchanged. Each write gets a number, and the script
decides what happens to it. Writes of Leases and Events are counted apart, because they are sent by
the clock and belong to no story.
"""

import asyncio
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from enum import StrEnum
from pathlib import Path
from threading import Thread
from typing import Final

import aiohttp
import attrs
import yarl
from aiohttp import web

LOOPBACK: Final = "127.0.0.1"
WRITES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
# Headers that belong to one connection, or that the sender of a body sets itself.
HOP_BY_HOP: Final = frozenset(
    {"connection", "content-length", "host", "keep-alive", "transfer-encoding"}
)
START_SECONDS: Final = 10.0
CLOSING_SECONDS: Final = 0.25


class Traffic(StrEnum):
    WRITE = "write"
    LEASE = "lease"
    EVENT = "event"
    READ = "read"
    WATCH = "watch"


@attrs.frozen
class Write:
    """A write; its number counts from 1 over the life of the proxy."""

    number: int
    method: str
    path: str

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@attrs.frozen(kw_only=True)
class Fault:
    """The course of one write: on its way to the server, there, and on the way back."""

    # Called before the server receives the write, and after it is done; the caller knows neither.
    before: Callable[[], None] | None = None
    after: Callable[[], None] | None = None
    # The connection breaks instead of an answer.
    is_request_lost: bool = False
    is_answer_lost: bool = False
    # The connection breaks at once, and the server carries out the write this much later.
    lands_after_seconds: float | None = None
    held_seconds: float = 0.0
    # Answered in place of the server, which receives the write only if `is_done`.
    refusal: "Refusal | None" = None
    is_done: bool = False


@attrs.frozen
class Refusal:
    """A refusal by the API server, or by a gateway before it if there is no reason."""

    status: int
    reason: str = ""
    retry_after_seconds: int | None = attrs.field(default=None, kw_only=True)

    def to_response(self) -> web.Response:
        after = self.retry_after_seconds
        headers = {} if after is None else {"Retry-After": str(after)}
        if not self.reason:
            return web.Response(status=self.status, headers=headers, text="the gateway says no")
        body = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": "the proxy says no",
            "reason": self.reason,
            "code": self.status,
        }
        return web.json_response(body, status=self.status, headers=headers)


Script = Callable[[Write], Fault | None]

REQUEST_LOST: Final = Fault(is_request_lost=True)
ANSWER_LOST: Final = Fault(is_answer_lost=True)


def nothing(_: Write) -> Fault | None:
    """Cause no fault: the script of a healthy network."""
    return None


def nth(number: int, fault: Fault) -> Script:
    """Return a script that fails the write of this number, counted from 1 from now on."""
    left = number

    def script(_: Write) -> Fault | None:
        nonlocal left
        left -= 1
        return None if left else fault

    return script


def first_of_each(fault: Fault) -> Script:
    """Return a script that fails the first attempt of every write and passes its retry."""
    seen: set[str] = set()

    def script(write: Write) -> Fault | None:
        if str(write) in seen:
            seen.remove(str(write))
            return None
        seen.add(str(write))
        return fault

    return script


class Proxy:
    """The proxy itself; code outside of its loop calls it through `soon`."""

    def __init__(
        self,
        upstream: str,
        session: aiohttp.ClientSession,
        tasks: asyncio.TaskGroup,
        tls: ssl.SSLContext | None,
    ) -> None:
        self.url = ""
        self.script: Script = nothing
        self.writes: list[Write] = []
        self.counts: Counter[Traffic] = Counter()
        self._upstream = upstream
        self._session = session
        self._tasks = tasks
        self._tls = tls or True
        self._loop = asyncio.get_running_loop()
        self._landing: set[asyncio.Task[web.StreamResponse]] = set()
        self._open: dict[int, tuple[web.BaseRequest, Traffic]] = {}
        self._dark_until = 0.0

    @property
    def is_busy(self) -> bool:
        """Return whether a write is in progress, even if its caller is gone."""
        return bool(self._landing)

    def soon(self, action: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(action)

    def cut_watches(self) -> None:
        self._cut({Traffic.WATCH})

    def go_dark(self, seconds: float) -> None:
        """Break every connection, and every new connection for these seconds."""
        self._dark_until = self._loop.time() + seconds
        self._cut(set(Traffic))

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        kind = traffic_of(request)
        self.counts[kind] += 1
        self._open[id(request)] = (request, kind)
        try:
            if self._loop.time() < self._dark_until:
                return _broken(request)
            return await self._pass_on(request, kind)
        except (aiohttp.ClientError, ConnectionError):
            # One side is gone, so the connection to the other side breaks, too.
            return _broken(request)
        finally:
            del self._open[id(request)]

    def drop(self) -> None:
        """Cancel the writes that have not reached the server yet; they never will."""
        for task in self._landing:
            task.cancel()

    async def _pass_on(self, request: web.BaseRequest, kind: Traffic) -> web.StreamResponse:
        body = await request.read()
        if kind is not Traffic.WRITE:
            return await self._stream(request, body)
        write = Write(len(self.writes) + 1, request.method, request.rel_url.raw_path)
        self.writes.append(write)
        # A separate task: a write that was sent continues when its process dies.
        task = self._tasks.create_task(self._write(request, body, write), name=str(write))
        self._landing.add(task)
        task.add_done_callback(self._landing.discard)
        return await asyncio.shield(task)

    async def _write(
        self, request: web.BaseRequest, body: bytes, write: Write
    ) -> web.StreamResponse:
        fault = self.script(write) or Fault()
        if fault.before:
            fault.before()
        if fault.is_request_lost:
            return _broken(request)
        if fault.lands_after_seconds is not None:
            _broken(request)
            await asyncio.sleep(fault.lands_after_seconds)
        if fault.refusal and not fault.is_done:
            return fault.refusal.to_response()
        try:
            answer = await self._exchange(request, body)
        except aiohttp.ClientError:
            return _broken(request)
        return await self._answered(request, fault, answer)

    async def _answered(
        self, request: web.BaseRequest, fault: Fault, answer: web.Response
    ) -> web.StreamResponse:
        if fault.after:
            fault.after()
        await asyncio.sleep(fault.held_seconds)
        if fault.is_answer_lost:
            return _broken(request)
        return fault.refusal.to_response() if fault.refusal else answer

    async def _exchange(self, request: web.BaseRequest, body: bytes) -> web.Response:
        async with self._asked(request, body) as answer:
            return web.Response(
                status=answer.status, headers=_passed(answer.headers), body=await answer.read()
            )

    async def _stream(self, request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        async with self._asked(request, body) as answer:
            response = web.StreamResponse(status=answer.status, headers=_passed(answer.headers))
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response

    @asynccontextmanager
    async def _asked(
        self, request: web.BaseRequest, body: bytes
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send the request upstream; a connection whose answer was not read to its end is not
        reused.
        """
        answer = await self._session.request(
            request.method,
            yarl.URL(self._upstream + request.raw_path, encoded=True),
            headers=_passed(request.headers),
            data=body or None,
            ssl=self._tls,
            allow_redirects=False,
        )
        try:
            yield answer
        finally:
            _abort(answer)

    def _cut(self, kinds: Collection[Traffic]) -> None:
        for request, kind in tuple(self._open.values()):
            if kind in kinds:
                _broken(request)


@asynccontextmanager
async def serving(upstream: str, tls: ssl.SSLContext | None = None) -> AsyncIterator[Proxy]:
    """Run a proxy on a free port, in the caller's loop."""
    timeout, connector = aiohttp.ClientTimeout(total=None), aiohttp.TCPConnector(limit=0)
    async with (
        aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False
        ) as session,
        asyncio.TaskGroup() as tasks,
    ):
        made = Proxy(upstream, session, tasks, tls)
        front = web.Server(made.handle, handler_cancellation=True, access_log=None)
        runner = web.ServerRunner(front, shutdown_timeout=0.01)
        await runner.setup()
        try:
            await web.TCPSite(runner, LOOPBACK, 0).start()
            made.url = f"http://{LOOPBACK}:{runner.addresses[0][1]}"
            yield made
        finally:
            await runner.cleanup()
            made.drop()


@contextmanager
def proxy(upstream: str, certificate: Path) -> Iterator[Proxy]:
    """Run a proxy in a separate thread, for tests that block."""
    started: Future[tuple[Proxy, Callable[[], object]]] = Future()

    async def main() -> None:
        tls = ssl.create_default_context(cafile=certificate)
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        async with serving(upstream, tls) as made:
            started.set_result((made, lambda: loop.call_soon_threadsafe(stopped.set)))
            await stopped.wait()
        # Aborted connections close in later iterations of the loop.
        await asyncio.sleep(CLOSING_SECONDS)

    thread = Thread(target=lambda: asyncio.run(main()), name=f"proxy of {upstream}")
    thread.start()
    made, stop = started.result(timeout=START_SECONDS)
    try:
        yield made
    finally:
        stop()
        thread.join()


def traffic_of(request: web.BaseRequest) -> Traffic:
    path = request.rel_url.raw_path
    if request.method not in WRITES:
        return Traffic.WATCH if "watch" in request.rel_url.query else Traffic.READ
    if path.startswith("/apis/coordination.k8s.io/"):
        return Traffic.LEASE
    return Traffic.EVENT if "events" in path.split("/") else Traffic.WRITE


def _passed(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in HOP_BY_HOP}


def _broken(request: web.BaseRequest) -> web.Response:
    """Abort the connection; the returned response is never sent."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def _abort(answer: aiohttp.ClientResponse) -> None:
    if answer.connection is not None and answer.connection.transport is not None:
        answer.connection.transport.abort()
    answer.close()
