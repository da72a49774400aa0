"""A Transport that fails by a script, as a network and a busy server do.

`FaultyTransport` wraps any other transport. Each rule says which requests it matches, how many of
them it passes first, and how many it hits. Every request is recorded.
"""

import asyncio
import random
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import cast

import attrs

from gpuruntime.kube.errors import OutcomeUnknownError, UnreachableError
from gpuruntime.kube.transport import JSON, Request, Response, Socket, StreamResponse, Transport
from gpuruntime.models.encoding import codec

WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


@attrs.frozen(kw_only=True)
class Fault:
    """The course of one request: a delay, then at most one fault, then another delay."""

    before_seconds: float = 0.0
    after_seconds: float = 0.0
    # The server never receives the request.
    is_unreachable: bool = False
    is_dropped: bool = False
    answer: Response | None = None
    # The server carries out the request, and its answer is lost.
    is_answer_lost: bool = False
    # The caller sees a lost answer first, and the server carries out the request this much later.
    lands_after_seconds: float | None = None
    # Called once the request is done or lost, before its caller learns the outcome.
    then: Callable[[], None] | None = None


UNREACHABLE = Fault(is_unreachable=True)
DROPPED = Fault(is_dropped=True)
ANSWER_LOST = Fault(is_answer_lost=True)


def slow(*, before: float = 0.0, after: float = 0.0) -> Fault:
    return Fault(before_seconds=before, after_seconds=after)


def landing_late(seconds: float) -> Fault:
    return Fault(lands_after_seconds=seconds)


def refused(status: int, reason: str, *, headers: Mapping[str, str] | None = None) -> Fault:
    """Return a fault that answers with a Status of the API server."""
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
    """A transport that applies the rules of a test; writes that land late run as tasks of its
    group.
    """

    def __init__(
        self,
        inner: Transport,
        *,
        tasks: asyncio.TaskGroup | None = None,
        latency: Callable[[], float] = lambda: 0.0,
        watch_lag: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Wait `latency` before and after each request, and `watch_lag` before each chunk of a
        watch.
        """
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
        """Add a rule; `method` matches the whole method, `path` any part of the path, both as
        patterns.
        """
        self._rules.append(
            Rule(fault=fault, method=method, path=re.compile(path), skip=skip, times=times)
        )

    def on_write(self, number: int, fault: Fault) -> None:
        """Apply the fault to the write of this number, counted from 0 from now on."""
        self.on("|".join(sorted(WRITES)), "", fault, skip=number)

    def clear(self) -> None:
        self._rules.clear()

    def cut(self) -> None:
        """Cut the process off as a kill does: requests in flight may arrive, answers do not."""
        self._is_cut = True
        self._flowing.set()

    def hold_watches(self, path: str = "") -> None:
        """Stop the watches whose path matches the pattern until `release_watches`."""
        self._held = re.compile(path)
        self._flowing.clear()

    def release_watches(self) -> None:
        self._flowing.set()

    def written(self) -> list[str]:
        """Return the attempted writes as `METHOD path`."""
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

    def socket(
        self, request: Request, protocol: str
    ) -> AbstractAsyncContextManager[Socket | Response]:
        if self._is_cut:
            raise UnreachableError(f"{request.method} {request.path}: cut off")
        return self._inner.socket(request, protocol)

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
    """Return a latency between half and one and a half times the given seconds."""
    return lambda: seconds * rng.uniform(0.5, 1.5)
