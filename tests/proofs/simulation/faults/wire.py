"""The connection of one process to its API server, which may lose requests, answers and events.

A request that was sent arrives even if its sender has given up or crashed. Only its answer is
lost.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import Random
from typing import Final

import attrs

from gpuruntime.embedded.apiserver.server import Server
from gpuruntime.kube.errors import OutcomeUnknownError, UnreachableError
from gpuruntime.kube.transport import JSON, Request, Response, Socket, StreamResponse
from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject
from tests.faults import WRITES
from tests.proofs.simulation.checks.coverage import WriteCoverage
from tests.proofs.simulation.event_log import EventLog
from tests.proofs.simulation.faults.active_faults import LEASES, ActiveFaults, is_list
from tests.proofs.simulation.faults.kinds import FaultKind, PlannedFault
from tests.proofs.simulation.faults.stale_lists import ListedCollection, collection_of
from tests.proofs.simulation.faults.streams import DisturbedStream, RefusedStream
from tests.rooms.operations.cluster import SYSTEM

LATENCY: Final = (0.001, 0.02)
WATCH_LAG: Final = (0.001, 0.05)
FOR_EVER: Final = 1e9
# In this namespace the product writes Events about Leases only.
LEASE_EVENTS: Final = f"/namespaces/{SYSTEM}/events"
PAGE: Final = "4"


def refusal(status: int, reason: str, *, retry_after: float = 0.0) -> Response:
    body: JsonObject = {"kind": "Status", "apiVersion": "v1", "code": status, "reason": reason}
    headers = {"content-type": JSON}
    if retry_after:
        headers["retry-after"] = f"{retry_after:.0f}"
    return Response(
        status=status, headers=headers, body=codec.encode({**body, "message": "a fault"})
    )


def _describe(request: Request) -> str:
    """Return the request in words, without the API group of its path."""
    where = request.path.split("/namespaces/", 1)[-1]
    return f"{request.method} {where}"


def _in_short_pages(request: Request) -> Request:
    """Return the request with a smaller limit, so that lists have several pages."""
    query = tuple((name, PAGE if name == "limit" else value) for name, value in request.query)
    return attrs.evolve(request, query=query)


class Wire:
    """The connection of one incarnation of a process. A fault that crashes it calls `crash`."""

    def __init__(
        self,
        name: str,
        server: Server,
        event_log: EventLog,
        *,
        rng: Random,
        active_faults: ActiveFaults,
        crash: Callable[[PlannedFault], None],
        inspect: Callable[[Request], None],
        coverage: WriteCoverage,
    ) -> None:
        """Call `inspect` before each request, to check the process at that moment."""
        self.is_cut = False
        self.writes = 0
        self.lists = 0
        self._name = name
        self._server = server
        self._event_log = event_log
        self._rng = rng
        self._active_faults = active_faults
        self._crash = crash
        self._inspect = inspect
        self._coverage = coverage
        self._streams: dict[DisturbedStream, None] = {}
        # The number of open watches of each collection that was ever watched.
        self._open_watches: Counter[ListedCollection] = Counter()
        # What the server has forgotten: continue tokens, and versions before this one.
        self._expired_tokens: set[str] = set()
        self._gone_before = 0

    def cut(self) -> None:
        """Cut the process off, as if killed: requests in flight may land, but get no answer."""
        self.is_cut = True
        self.disturb_watches(FaultKind.WATCHES_RESET, 0.0)

    async def request(self, request: Request) -> Response:
        loop = asyncio.get_running_loop()
        what = _describe(request)
        if self.is_cut or loop.time() < self._outage_end(request):
            raise UnreachableError(f"{what}: no connection")
        self._inspect(request)
        self._count(request)
        fault = self._active_faults.hit(request)
        if request.method in WRITES and LEASES not in request.path:
            self._coverage.note(self._name, request, fault.kind if fault else None)
        self._event_log.write(self._name, f"{what}{f' !{fault.kind}' if fault else ''}")
        answered: asyncio.Future[Response] = loop.create_future()
        self._send(request, fault, answered)
        try:
            async with asyncio.timeout(request.timeout_seconds):
                return await answered
        except TimeoutError as error:
            raise OutcomeUnknownError(f"{what}: no answer") from error

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        return self._stream(request)

    def socket(
        self, request: Request, protocol: str
    ) -> AbstractAsyncContextManager[Socket | Response]:
        raise NotImplementedError(f"no simulated process opens a {protocol}: {request.path}")

    def disturb_watches(self, kind: FaultKind, until: float) -> None:
        """Disturb the open watches.

        A server may report a lost version with status 410 or with an ERROR event; HISTORY_LOST
        picks one.
        """
        if kind is FaultKind.HISTORY_LOST and self._rng.random() < 0.5:
            self._gone_before = self._server.store.version
        for stream in tuple(self._streams):
            match kind:
                case FaultKind.WATCHES_GONE:
                    stream.expire()
                case FaultKind.WATCHES_TORN:
                    stream.tear()
                case FaultKind.WATCHES_SILENT:
                    stream.silent_until = FOR_EVER
                case FaultKind.WATCHES_LATE:
                    stream.silent_until = until
                case _:
                    stream.break_off()

    def _count(self, request: Request) -> None:
        """Count writes and lists, except those of Leases and their Events, which never end."""
        if LEASES not in request.path and LEASE_EVENTS not in request.path:
            self.writes += request.method in WRITES
            self.lists += is_list(request)

    def _outage_end(self, request: Request) -> float:
        until = self._active_faults.partitioned_until
        return (
            max(until, self._active_faults.lease_lost_until) if LEASES in request.path else until
        )

    def _send(
        self, request: Request, fault: PlannedFault | None, answered: asyncio.Future[Response]
    ) -> None:
        what = _describe(request)
        kind = fault.kind if fault else None
        seconds = fault.seconds if fault else 0.0
        token = dict(request.query).get("continue", "")
        if kind is FaultKind.PAGE_EXPIRED:
            self._expired_tokens.add(token)
        if token in self._expired_tokens:
            self._answer_later(answered, refusal(410, "Expired"))
            return
        match kind:
            case FaultKind.UNREACHABLE:
                answered.set_exception(UnreachableError(f"{what}: refused"))
            case FaultKind.CRASH_BEFORE if fault:
                self._crash(fault)
            case FaultKind.DROPPED:
                self._fail_later(answered, OutcomeUnknownError(f"{what}: reset"))
            case FaultKind.CONFLICT:
                self._answer_later(answered, refusal(409, "Conflict"))
            case FaultKind.THROTTLED:
                self._answer_later(answered, refusal(429, "TooManyRequests", retry_after=seconds))
            case FaultKind.REFUSED_500:
                self._answer_later(answered, refusal(500, "InternalError"))
            case FaultKind.REFUSED_503:
                self._answer_later(answered, refusal(503, "ServiceUnavailable"))
            case _:
                late = seconds if kind in (FaultKind.LANDS_LATE, FaultKind.SLOW_BEFORE) else 0.0
                if kind is FaultKind.LANDS_LATE:
                    self._fail_later(answered, OutcomeUnknownError(f"{what}: reset"))
                loop = asyncio.get_running_loop()
                loop.call_later(late + self._latency(), self._arrive, request, fault, answered)
                if kind is FaultKind.CRASH_SENT and fault:
                    self._crash(fault)

    def _arrive(
        self, request: Request, fault: PlannedFault | None, answered: asyncio.Future[Response]
    ) -> None:
        response = self._answer_to(request)
        what = _describe(request)
        self._event_log.write(self._name, f"{what} -> {response.status}")
        kind = fault.kind if fault else None
        match kind:
            case FaultKind.ANSWER_LOST:
                self._fail_later(answered, OutcomeUnknownError(f"{what}: answer lost"))
            case FaultKind.ANSWER_500:
                self._answer_later(answered, refusal(504, "Timeout"))
            case FaultKind.ANSWER_GARBLED:
                self._answer_later(answered, attrs.evolve(response, body=response.body[:-9]))
            case FaultKind.CRASH_AFTER if fault:
                self._crash(fault)
            case FaultKind.SLOW_AFTER if fault:
                self._answer_later(answered, response, seconds=fault.seconds)
            case _:
                self._answer_later(answered, response)

    def _answer_to(self, request: Request) -> Response:
        if not is_list(request):
            return self._server.handle(request)
        stale_lists = self._active_faults.stale_lists
        stale_lists.note(request)
        return stale_lists.give(request, self._open_watches) or self._server.handle(
            _in_short_pages(request)
        )

    def _answer_later(
        self, answered: asyncio.Future[Response], response: Response, *, seconds: float = 0.0
    ) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(seconds + self._latency(), self._settle, answered, response)

    def _fail_later(self, answered: asyncio.Future[Response], error: Exception) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(self._latency(), self._settle, answered, error)

    def _settle(self, answered: asyncio.Future[Response], outcome: Response | Exception) -> None:
        if self.is_cut or answered.done():
            return
        if isinstance(outcome, Response):
            answered.set_result(outcome)
        else:
            answered.set_exception(outcome)

    def _latency(self) -> float:
        return self._rng.uniform(*LATENCY)

    @asynccontextmanager
    async def _stream(self, request: Request) -> AsyncIterator[StreamResponse]:
        await asyncio.sleep(self._latency())
        now, active_faults = asyncio.get_running_loop().time(), self._active_faults
        if self.is_cut or now < active_faults.partitioned_until:
            raise UnreachableError(f"watch {request.path}: no connection")
        if now < active_faults.watches_refused_until:
            yield RefusedStream(refusal(429, "TooManyRequests", retry_after=1.0))
            return
        version = dict(request.query).get("resourceVersion", "")
        if int(version) < self._gone_before:
            yield RefusedStream(refusal(410, "Expired"))
            return
        self._event_log.write(self._name, f"watch {_describe(request)} from {version}")
        inner = self._server.open_stream(request)
        stream = DisturbedStream(inner, lambda: self._rng.uniform(*WATCH_LAG))
        self._streams[stream] = None
        self._open_watches[collection_of(request)] += 1
        try:
            yield stream
        finally:
            self._open_watches[collection_of(request)] -= 1
            del self._streams[stream]
            inner.close()
