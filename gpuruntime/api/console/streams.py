"""Streams of server-sent events: bounded in number, in memory and in time.

A change in the cluster costs a stream nothing: changes are counted, and a stream compares the
count a few times a second. A reader that does not take an event in time loses its stream. The
browser reopens a stream that ends without an error, so that rights are checked regularly.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeAlias

import attrs
import structlog
from aiohttp import hdrs, web

from gpuruntime.api.cluster_link import ClusterLink
from gpuruntime.api.errors import CrowdedError
from gpuruntime.concurrency.clock import loop_time
from gpuruntime.concurrency.waiting import is_set_within
from gpuruntime.models.kubernetes.metadata import Key, KubernetesObject
from gpuruntime.operations.lookup.caches import Caches

# Returns the events since its last call.
EventSource: TypeAlias = Callable[[], bytes]

EVENT_STREAM: Final = "text/event-stream"
HEARTBEAT: Final = b": still here\n\n"
_HEADERS: Final = {
    str(hdrs.CONTENT_TYPE): f"{EVENT_STREAM}; charset=utf-8",
    # Tell proxies not to buffer the stream.
    "X-Accel-Buffering": "no",
}

log = structlog.get_logger()


@attrs.frozen(kw_only=True, slots=True)
class StreamLimits:
    """Limits of streams; `most_each` is for each caller, if callers are identified."""

    most: int = 128
    most_each: int = 32
    pause_seconds: float = 0.5
    heartbeat_seconds: float = 15.0
    # The longest that a reader may take for one event.
    write_seconds: float = 10.0
    # A withdrawn right may work for this long.
    life_seconds: float = 300.0


class Changes:
    """Counts changes of the caches; create it before their informers run."""

    def __init__(self, caches: Caches) -> None:
        self.number = 0
        caches.stock.add_handler(self._count)
        caches.units.add_handler(self._count)
        caches.pools.add_handler(self._count)
        caches.storages.add_handler(self._count)

    def _count(self, _: Key, *__: KubernetesObject | None) -> None:
        self.number += 1


class Streams:
    def __init__(
        self,
        changes: Changes,
        connection: Callable[[], ClusterLink],
        limits: StreamLimits = StreamLimits(),
    ) -> None:
        self._changes = changes
        self._connection = connection
        self._limits = limits
        self._open: Counter[str] = Counter()
        self._ending = asyncio.Event()

    def __len__(self) -> int:
        return self._open.total()

    async def end(self, _: web.Application) -> None:
        """End all streams at once."""
        self._ending.set()

    async def serve(
        self, request: web.Request, sources: Sequence[EventSource], *, reader: str = ""
    ) -> web.StreamResponse:
        """Send events until the reader leaves or is slow, the cluster is away, or the time is
        over.
        """
        with self._place(reader):
            response = web.StreamResponse(headers=_HEADERS)
            try:
                await response.prepare(request)
            except ConnectionError:  # the reader left while its rights were checked
                return response
            if request.method != hdrs.METH_HEAD:
                await self._send_changes(request, response, sources)
            return response

    @contextmanager
    def _place(self, reader: str) -> Iterator[None]:
        is_full = len(self) >= self._limits.most
        if is_full or (reader and self._open[reader] >= self._limits.most_each):
            raise CrowdedError("too many streams are open: close one of them first")
        self._open[reader] += 1
        try:
            yield
        finally:
            self._open[reader] -= 1
            self._open += Counter()  # drops readers without a stream

    async def _send_changes(
        self, request: web.Request, response: web.StreamResponse, sources: Sequence[EventSource]
    ) -> None:
        begun_at = sent_at = loop_time()
        version: object = None
        while loop_time() - begun_at < self._limits.life_seconds and self._may_continue(request):
            events, now = b"", self._version()
            if now != version:
                events, version = b"".join(each() for each in sources), now
            if not events and loop_time() - sent_at >= self._limits.heartbeat_seconds:
                events = HEARTBEAT
            if events:
                sent_at = loop_time()
                if not await self._is_sent(request, response, events):
                    return
            await self._pause()

    def _version(self) -> object:
        """Return a value that stays the same while no news can have come."""
        return self._changes.number, self._connection().is_queue_connected

    def _may_continue(self, request: web.Request) -> bool:
        """Return whether to go on; aiohttp reports a lost reader only by a missing transport."""
        is_read = request.transport is not None
        return is_read and not self._ending.is_set() and self._connection().is_serving

    async def _is_sent(
        self, request: web.Request, response: web.StreamResponse, events: bytes
    ) -> bool:
        try:
            async with asyncio.timeout(self._limits.write_seconds):
                await response.write(events)
        except TimeoutError:
            log.info("reader of a stream dropped: it does not take its events")
            if request.transport is not None:
                request.transport.abort()
            return False
        except ConnectionError:
            return False
        return True

    async def _pause(self) -> None:
        await is_set_within(self._ending, self._limits.pause_seconds)
