"""Streamed answers: watches, and single answers as a stream of one chunk."""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Final, Protocol

import attrs

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.embedded.apiserver.query_options import ListOptions
from gpuruntime.embedded.apiserver.status_errors import StatusError, expired, too_large_version
from gpuruntime.embedded.kubectl.object_forms import Form
from gpuruntime.embedded.objects.listing import list_page
from gpuruntime.embedded.objects.selection import Selection, WatchEvent
from gpuruntime.embedded.objects.store import Collection, Store
from gpuruntime.embedded.objects.versions import Change
from gpuruntime.embedded.objects.watches import Watch
from gpuruntime.kube.transport import JSON, Response

BOOKMARK_SECONDS: Final = 60.0
LAST_BOOKMARK_SECONDS: Final = 2.0  # before the end of a watch
LONGEST_WATCH_SECONDS: Final = 1800.0  # for a client that sets no timeout
FRAMES_A_CHUNK: Final = 256


class Stream(Protocol):
    """A StreamResponse of the transport; the caller that opened it closes it."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    def chunks(self) -> AsyncIterator[bytes]: ...

    def close(self) -> None: ...


@attrs.frozen(slots=True)
class WholeAnswer:
    """A single answer in place of a stream, mostly a refusal."""

    response: Response

    @property
    def status(self) -> int:
        return self.response.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self.response.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self.response.body

    def close(self) -> None:
        pass


class WatchStream:
    """A watch, registered when it is opened: no change is missed before it is read."""

    status: Final = 200
    headers: Final[Mapping[str, str]] = {"content-type": JSON}

    def __init__(
        self,
        store: Store,
        collection: Collection,
        selection: Selection,
        options: ListOptions,
        form: Form,
    ) -> None:
        self._store = store
        self._collection = collection
        self._options = options
        self._form = form
        begun_version = options.version if options.names_version else 0
        self._watch = Watch(selection, store.history_limit, begun_version=begun_version)
        self._refusal, self._initial = self._begin(selection)
        self._begun_version = store.version
        if self._refusal is None:
            collection.watches.add(self._watch)

    def close(self) -> None:
        self._collection.watches.remove(self._watch)

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            if self._refusal is not None:
                yield _frame("ERROR", self._refusal)
                return
            for first in range(0, len(self._initial), FRAMES_A_CHUNK):
                yield self._frames(self._initial[first : first + FRAMES_A_CHUNK])
            self._initial = []
            if self._options.wants_initial_events and self._options.wants_bookmarks:
                yield self._bookmark(self._begun_version, ends_initial_events=True)
            async for chunk in self._live():
                yield chunk
        finally:
            self.close()

    async def _live(self) -> AsyncIterator[bytes]:
        end = loop_time() + (self._options.timeout_seconds or LONGEST_WATCH_SECONDS)
        bookmark_at = _next_bookmark(loop_time(), end)
        now = loop_time()
        while now < end and not self._watch.is_over:
            moment = min(bookmark_at, end)
            await self._watch.wait_until(moment)
            events = self._watch.take(FRAMES_A_CHUNK)
            # A timer may fire early by the clock's resolution.
            now = loop_time() if events or self._watch.is_over else max(moment, loop_time())
            if events:
                yield self._frames(events)
            elif bookmark_at <= now < end:
                bookmark_at = _next_bookmark(now, end)
                if self._options.wants_bookmarks:
                    yield self._bookmark(self._store.version, ends_initial_events=False)

    def _begin(self, selection: Selection) -> tuple[bytes | None, list[WatchEvent]]:
        """Return the refusal that the watch sends, or the events before the first change."""
        options, collection = self._options, self._collection
        starts_whole = not options.version
        if options.wants_initial_events is not None:
            starts_whole = options.wants_initial_events
            if options.version > self._store.version:
                return _refused(too_large_version(options.version, self._store.version)), []
            if not starts_whole and not options.version:
                return None, []
        if starts_whole:
            page = list_page(self._store, collection, selection, ListOptions())
            return None, [("ADDED", stored) for stored in page.items]
        if options.version < collection.compacted_version:
            oldest = collection.compacted_version
            return _refused(expired(f"too old resource version: {options.version} ({oldest})")), []
        return None, list(_events(selection, collection.since(options.version)))

    def _frames(self, events: list[WatchEvent]) -> bytes:
        return b"".join(_frame(each, self._form.event_object(stored)) for each, stored in events)

    def _bookmark(self, version: int, *, ends_initial_events: bool) -> bytes:
        bookmark = self._form.bookmark(version, ends_initial_events=ends_initial_events)
        return _frame("BOOKMARK", bookmark)


def _events(selection: Selection, changes: list[Change]) -> Iterator[WatchEvent]:
    for change in changes:
        event = selection.event_for(change)
        if event is not None:
            yield event


def _refused(error: StatusError) -> bytes:
    return error.response().body.rstrip()


def _frame(event: str, body: bytes) -> bytes:
    return b'{"type":"' + event.encode() + b'","object":' + body + b"}\n"


def _next_bookmark(now: float, end: float) -> float:
    """Return the time of the next bookmark: every minute, and once just before the end."""
    last = end - LAST_BOOKMARK_SECONDS
    return min(now + BOOKMARK_SECONDS, last) if now < last else end
