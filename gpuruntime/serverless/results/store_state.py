"""The state of the result store: whether it is usable, and how old the waiting results are.

Contract: after a failure one task alone prepares the store again. Meanwhile all records are turned
away without using the store. Memory does not grow with the records that wait.
"""

import asyncio
from collections.abc import AsyncIterable, Callable
from datetime import datetime, timedelta
from random import Random
from typing import Final

import attrs
import structlog

from gpuruntime.bus.records import StoredRecord
from gpuruntime.concurrency.clock import loop_time
from gpuruntime.meter import Meter
from gpuruntime.serverless.results.store import ResultStore, ResultStoreError, StoreAwayError

log = structlog.get_logger()

FIRST_PAUSE_SECONDS: Final = 0.5
LONGEST_PAUSE_SECONDS: Final = 10.0
SWEEP_SECONDS: Final = 300.0
MEASURE_SECONDS: Final = 5.0


@attrs.define(slots=True)
class OldestUnkept:
    """The oldest record turned away lately; a record that still waits returns in that time."""

    window_seconds: float
    _before: datetime | None = None
    _now: datetime | None = None
    _began: float = 0.0

    def note(self, written_at: datetime, at: float) -> None:
        self._turn(at)
        self._now = min(self._now or written_at, written_at)

    def written_at(self, at: float) -> datetime | None:
        self._turn(at)
        return min(filter(None, (self._before, self._now)), default=None)

    def _turn(self, at: float) -> None:
        windows = int((at - self._began) / self.window_seconds)
        if windows:
            self._before = self._now if windows == 1 else None
            self._now = None
            self._began = at


class StoreState:
    def __init__(
        self,
        store: ResultStore,
        *,
        retention_seconds: float,
        window_seconds: float,
        now: Callable[[], datetime],
        rng: Random,
        meter: Meter,
    ) -> None:
        """`window_seconds` is longer than any record takes to be redelivered."""
        self.problem = "the store was not checked yet"
        self._store = store
        self._retention = timedelta(seconds=retention_seconds)
        self._oldest = OldestUnkept(window_seconds)
        self._now = now
        self._rng = rng
        self._meter = meter
        self._pause_seconds = 0.0
        self._failed = asyncio.Event()
        self._failed.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._heal(), name="heal store")
            tasks.create_task(self._sweep(), name="sweep store")
            tasks.create_task(self._measure(), name="measure store")

    async def keep(
        self, stored: StoredRecord, parts: AsyncIterable[bytes], *, written_at: datetime
    ) -> bool:
        """Return whether the record can be acked; if not, it must be redelivered."""
        if not self.problem and await self._try(stored, parts, written_at):
            return True
        self._oldest.note(written_at, loop_time())
        return False

    async def _try(
        self, stored: StoredRecord, parts: AsyncIterable[bytes], written_at: datetime
    ) -> bool:
        record = stored.record
        try:
            is_news = await self._store.keep(stored, parts, written_at=written_at)
        except StoreAwayError as error:
            self._fail(error)
            return False
        except ResultStoreError as error:
            self._count_error()
            log.warning(
                "result refused",
                function=record.serverlessRequestID,
                invocation=record.invocationID,
                reason=str(error),
            )
            return False
        self._pause_seconds = 0.0
        self._meter.count("results_stored_total" if is_news else "results_known_total")
        return True

    async def _heal(self) -> None:
        """Prepare the store after each failure. Only a kept record resets the pause.

        A store that can be prepared may still be unable to keep records.
        """
        while True:
            await self._failed.wait()
            await asyncio.sleep(self._pause_seconds * self._rng.uniform(0.5, 1.0))
            longer = max(2 * self._pause_seconds, FIRST_PAUSE_SECONDS)
            self._pause_seconds = min(longer, LONGEST_PAUSE_SECONDS)
            self._failed.clear()
            try:
                await self._store.prepare()
            except ResultStoreError as error:
                self._fail(error)
                continue
            if not self._failed.is_set():
                log.info("result store ready")
                self.problem = ""

    def _fail(self, error: ResultStoreError) -> None:
        self._count_error()
        if str(error) != self.problem:
            log.warning("result store unavailable", reason=str(error))
        self.problem = str(error)
        self._failed.set()

    async def _sweep(self) -> None:
        """Sweep in each replica: the others do not find rows that one has deleted."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS * self._rng.uniform(0.5, 1.0))
            if self.problem:
                continue
            try:
                swept = await self._store.sweep(self._now() - self._retention)
            except ResultStoreError as error:
                self._fail(error)
            else:
                self._meter.count("results_swept_total", swept)

    async def _measure(self) -> None:
        while True:
            oldest = self._oldest.written_at(loop_time())
            age = (self._now() - oldest).total_seconds() if oldest else 0.0
            self._meter.gauge("results_oldest_unstored_seconds", max(age, 0.0))
            self._meter.gauge("results_store_up", 0 if self.problem else 1)
            await asyncio.sleep(MEASURE_SECONDS)

    def _count_error(self) -> None:
        self._meter.count("results_database_errors_total")
