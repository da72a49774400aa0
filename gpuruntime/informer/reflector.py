"""The reflector mirrors one collection into a store: list, watch, resume, relist.

`recovery` decides the next state after each outcome, such as a relist after a 410. This module
only makes the attempts.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Generic, TypeVar, assert_never

import structlog

from gpuruntime.concurrency.batches import batches
from gpuruntime.concurrency.clock import loop_time
from gpuruntime.concurrency.garbage_collection import paused_collector
from gpuruntime.informer.recovery import (
    Empty,
    EventReceived,
    Health,
    Listed,
    ListFailed,
    ListRead,
    Outcome,
    PageRead,
    State,
    StoreDiverged,
    Watching,
    WindowEnded,
    WindowOpened,
    advance,
    error_of,
    judge_list,
    was_open,
)
from gpuruntime.informer.source import Source
from gpuruntime.informer.store import version_number
from gpuruntime.informer.writer import Draft, Writer
from gpuruntime.kube.errors import KubeError
from gpuruntime.kube.watch import Bookmark, Change
from gpuruntime.models.kubernetes.metadata import KubernetesObject

ObjectT = TypeVar("ObjectT", bound=KubernetesObject)

# After this many steps the loop gets a turn, so that a stall lasts a few milliseconds at most.
EVENTS_WITHOUT_PAUSE = 200
OBJECTS_WITHOUT_PAUSE = 100
ANNOUNCEMENTS_WITHOUT_PAUSE = 1_000

# Outcomes that clear `error`. A page does not: until the last page, readers see the old store.
ANSWERS = (ListRead, WindowOpened, EventReceived)

log = structlog.get_logger()


class Reflector(Generic[ObjectT]):
    """Reflector lists and watches by turns in one task: no event is applied during a list."""

    def __init__(self, source: Source[ObjectT], writer: Writer[ObjectT]) -> None:
        self._source = source
        self._writer = writer
        self._draft = writer.begin_list()
        self._health = Health()
        self._needs_relist = False
        self.state: State = Empty()
        # The last failure; None once the server has answered again.
        self.error: KubeError | None = None
        self._failed_at = 0.0
        self._answered_at = float("-inf")
        # Set once the first list has been announced. Calls of handlers before that announce
        # objects that existed already: they are the backlog of a work queue.
        self.synced = asyncio.Event()
        # Set at each step. A caller that waits for the next step clears it first.
        self.moved = asyncio.Event()
        self.windows_opened = 0

    async def run(self) -> None:
        while True:
            outcome = await self._attempt()
            self._advance(outcome)
            if isinstance(outcome, ListRead):
                await self._adopt_list(outcome.version)
            self._health = self._health.after(outcome)
            self._source.gauge("informer_failures_in_a_row", self._health.failures)
            await asyncio.sleep(self._health.delay_seconds(outcome, self._source.rng))

    @property
    def failing_seconds(self) -> float:
        """Return for how many seconds the informer has been failing, or 0."""
        return 0.0 if self.error is None else loop_time() - self._failed_at

    @property
    def silent_seconds(self) -> float:
        """Return the seconds since the last list, window or event; infinite before the first."""
        return loop_time() - self._answered_at

    def request_relist(self) -> None:
        """Ask for a new list because the store has diverged.

        It begins after the next event or bookmark.
        """
        self._needs_relist = True

    async def _attempt(self) -> Outcome:
        match self.state:
            case Empty():
                return await self._list(self.state)
            case Listed() | Watching():
                return await self._watch(self.state.version)
            case _:
                assert_never(self.state)

    def _advance(self, outcome: Outcome) -> None:
        self.state = advance(self.state, outcome)
        self.moved.set()
        error = error_of(outcome)
        if error is not None and was_open(outcome):
            self._source.count("informer_failures_total", error=type(error).__name__)
            log.info("watch broke off", resource=str(self._source), error=str(error))
        elif error is not None:
            self._source.count("informer_failures_total", error=type(error).__name__)
            if type(error) is not type(self.error):
                log.warning("informer failed", resource=str(self._source), error=str(error))
            if self.error is None:
                self._failed_at = loop_time()
            self.error = error
        elif isinstance(outcome, ANSWERS):
            self._answered_at = loop_time()
            if self.error is not None:
                log.info("informer recovered", resource=str(self._source))
                self.error = None

    async def _list(self, state: Empty) -> Outcome:
        if not state.continue_token:
            self._draft = self._writer.begin_list()
            self._needs_relist = False
        try:
            with paused_collector():
                version = await self._read_pages(self._draft, state.continue_token)
        except KubeError as error:
            return ListFailed(error=error)
        return judge_list(state, version, self._draft.known_version)

    async def _read_pages(self, draft: Draft[ObjectT], continue_token: str) -> int:
        """Read the pages and return the version of the list, which every page carries."""
        while True:
            page = await self._source.page(continue_token)
            async for items in batches(page.items, OBJECTS_WITHOUT_PAUSE):
                draft.add(items)
            continue_token = page.continue_token
            if not continue_token:
                return version_number(page.resource_version, f"list {self._source}")
            self._advance(PageRead(continue_token=continue_token))

    async def _adopt_list(self, version: int) -> None:
        """Replace the store by the list, then announce every object that differs."""
        before = self._writer.adopt_list(self._draft, version)
        store = self._writer.store
        keys = [*before, *(key for key, _ in store.items() if key not in before)]
        async for batch in batches(keys, ANNOUNCEMENTS_WITHOUT_PAUSE):
            for key in batch:
                old, new = before.pop(key, None), store.get(key)
                if old is not new:
                    self._writer.announce(key, old, new)
        if self.synced.is_set():
            self._source.count("informer_relists_total")
        self.synced.set()

    async def _watch(self, version: int) -> Outcome:
        opened_at: float | None = None
        error: KubeError | None = None
        try:
            async with self._source.window(version) as events:
                opened_at = loop_time()
                self._advance(WindowOpened())
                self.windows_opened += 1
                await self._apply_all(events)
        except KubeError as caught:
            error = caught
        if self._needs_relist and error is None:
            return StoreDiverged()
        cause = "ended" if error is None else type(error).__name__
        self._source.count("informer_watch_restarts_total", cause=cause)
        return WindowEnded(
            lived_seconds=0.0 if opened_at is None else loop_time() - opened_at,
            has_advanced=isinstance(self.state, Watching) and self.state.version > version,
            error=error,
        )

    async def _apply_all(self, events: AsyncIterator[Change[ObjectT] | Bookmark]) -> None:
        number = 0
        async for event in events:
            self._apply(event)
            if self._needs_relist:
                return
            number += 1
            if number % EVENTS_WITHOUT_PAUSE == 0:
                await asyncio.sleep(0)

    def _apply(self, event: Change[ObjectT] | Bookmark) -> None:
        match event:
            case Change():
                self._source.count("informer_events_total", type=event.type)
                self._advance(EventReceived(version=self._writer.apply(event)))
            case Bookmark(resource_version=""):
                pass
            case Bookmark():
                self._apply_bookmark(event)
            case _:
                assert_never(event)

    def _apply_bookmark(self, bookmark: Bookmark) -> None:
        version = version_number(bookmark.resource_version, f"bookmark of {self._source}")
        if not isinstance(self.state, Empty) and version < self.state.version:
            log.warning("server was set back", resource=str(self._source), version=version)
            self.request_relist()
            return
        self._writer.note_version(version)
        self._advance(EventReceived(version=version))
