"""A Transport that fails by a script: what a network and a busy server do, on command.

`FaultyTransport` goes around any other transport. Each rule says for which requests it is meant,
how many of them it lets pass first, and how many it hits. Everything asked for is written down.
"""

import asyncio
import random
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import cast

import attrs

from gpuruntime.kube.errors import OutcomeUnknownError, UnreachableError
from gpuruntime.kube.transport import JSON, Request, Response, StreamResponse, Transport
from gpuruntime.models.encoding import codec

WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


@attrs.frozen(kw_only=True)
class Fault:
    """What happens to one request: waits, then at most one of the others, then waits."""

    before_seconds: float = 0.0
    after_seconds: float = 0.0
    # The server is never asked.
    is_unreachable: bool = False
    is_dropped: bool = False
    answer: Response | None = None
    # The server does it, and the answer does not arrive.
    is_answer_lost: bool = False
    # The caller hears of a lost answer first, and the server does it so much later.
    lands_after_seconds: float | None = None
    # Called once the request is done or lost, before its caller hears of it.
    then: Callable[[], None] | None = None


UNREACHABLE = Fault(is_unreachable=True)
DROPPED = Fault(is_dropped=True)
ANSWER_LOST = Fault(is_answer_lost=True)


def slow(*, before: float = 0.0, after: float = 0.0) -> Fault:
    return Fault(before_seconds=before, after_seconds=after)


def landing_late(seconds: float) -> Fault:
    return Fault(lands_after_seconds=seconds)


def refused(status: int, reason: str, *, headers: Mapping[str, str] | None = None) -> Fault:
    """The API server says no, in its own words."""
    body = codec.encode(
        {"kind": "Status", "apiVersion": "v1", "code": status, "reason": reason, "message": "no"}
    )
    return Fault(
        answer=Response(
            status=status, headers={"content-type": JSON, **(headers or {})}, body=body
        )
    )


@attrs.define(kw_only=True)
class Rule:
    fault: Fault
    method: str
    path: re.Pattern[str]
    skip: int
    times: int

    def hits(self, request: Request) -> bool:
        if not re.fullmatch(self.method, request.method) or not self.path.search(request.path):
            return False
        if self.skip:
            self.skip -= 1
            return False
        if not self.times:
            return False
        self.times -= 1
        return True


class FaultyTransport:
    """Late writes land as tasks of the test's own group."""

    def __init__(
        self,
        inner: Transport,
        *,
        tasks: asyncio.TaskGroup | None = None,
        latency: Callable[[], float] = lambda: 0.0,
        watch_lag: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`latency` is waited for before and after each request, `watch_lag` before a chunk."""
        self.sent: list[Request] = []
        self._inner = inner
        self._tasks = tasks
        self._latency = latency
        self._watch_lag = watch_lag
        self._rules: list[Rule] = []
        self._is_cut = False
        self._held = re.compile("")
        self._flowing = asyncio.Event()
        self._flowing.set()

    def on(self, method: str, path: str, fault: Fault, *, skip: int = 0, times: int = 1) -> None:
        """Both texts are patterns: of the whole method, and of a part of the path."""
        self._rules.append(
            Rule(fault=fault, method=method, path=re.compile(path), skip=skip, times=times)
        )

    def on_write(self, number: int, fault: Fault) -> None:
        """The write of that number from now on, the first being 0."""
        self.on("|".join(sorted(WRITES)), "", fault, skip=number)

    def clear(self) -> None:
        self._rules.clear()

    def cut(self) -> None:
        """As of a killed process: what is on the wire may arrive, nothing more is heard."""
        self._is_cut = True
        self._flowing.set()

    def hold_watches(self, path: str = "") -> None:
        """Caches stand still until `release_watches`; those alone whose path has the pattern."""
        self._held = re.compile(path)
        self._flowing.clear()

    def release_watches(self) -> None:
        self._flowing.set()

    def written(self) -> list[str]:
        """The writes that were tried, as `METHOD path`."""
        return [f"{each.method} {each.path}" for each in self.sent if each.method in WRITES]

    async def request(self, request: Request) -> Response:
        if self._is_cut:
            raise UnreachableError(f"{request.method} {request.path}: cut off")
        self.sent.append(request)
        rule = next((rule for rule in self._rules if rule.hits(request)), None)
        fault = rule.fault if rule else Fault()
        await asyncio.sleep(self._latency() + fault.before_seconds)
        try:
            response = await self._performed(request, fault)
        finally:
            if fault.then:
                fault.then()
        await asyncio.sleep(self._latency() + fault.after_seconds)
        if fault.is_answer_lost or self._is_cut:
            raise OutcomeUnknownError(f"{request.method} {request.path}: answer lost")
        return response

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        return self._stream(request)

    async def _performed(self, request: Request, fault: Fault) -> Response:
        if fault.is_unreachable:
            raise UnreachableError(f"{request.method} {request.path}: no connection")
        if fault.is_dropped:
            raise OutcomeUnknownError(f"{request.method} {request.path}: dropped")
        if fault.lands_after_seconds is not None:
            assert self._tasks, "late writes need a TaskGroup"
            self._tasks.create_task(self._land(request, fault.lands_after_seconds))
            raise OutcomeUnknownError(f"{request.method} {request.path}: on its way")
        return fault.answer or await self._inner.request(request)

    async def _land(self, request: Request, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self._inner.request(request)

    @asynccontextmanager
    async def _stream(self, request: Request) -> AsyncIterator[StreamResponse]:
        if self._is_cut:
            raise UnreachableError(f"watch {request.path}: cut off")
        async with self._inner.stream(request) as stream:
            yield _LaggingStream(stream, lambda: self._pause(request.path))

    async def _pause(self, path: str) -> None:
        await asyncio.sleep(self._watch_lag())
        if self._held.search(path):
            await self._flowing.wait()
        if self._is_cut:
            raise UnreachableError("watch: cut off")


class _LaggingStream:
    def __init__(self, inner: StreamResponse, pause: Callable[[], Awaitable[None]]) -> None:
        self._inner = inner
        self._pause = pause

    @property
    def status(self) -> int:
        return self._inner.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._inner.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        chunks = cast("AsyncGenerator[bytes, None]", self._inner.chunks())
        async with aclosing(chunks):
            async for chunk in chunks:
                await self._pause()
                yield chunk


def around(rng: random.Random, seconds: float) -> Callable[[], float]:
    """A latency between half and one and a half of what is named."""
    return lambda: seconds * rng.uniform(0.5, 1.5)
