"""Keeps a delivery ours while its call runs, and detects when it no longer is."""

import asyncio
from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

from gpuruntime.bus.delivery import Delivery
from gpuruntime.bus.errors import BusError
from gpuruntime.bus.records import Records, StoredRecord
from gpuruntime.concurrency.clock import loop_time
from gpuruntime.worker.options import WorkerOptions


class Loss(StrEnum):
    """Why the delivery was lost.

    `over` means that the invocation ended elsewhere, for example by a cancel. `stood_still` means
    that this process did not run for longer than the ack wait: another worker may have taken over.
    """

    SUPERSEDED = "superseded"
    OVER = "over"
    STOOD_STILL = "stood_still"
    RELEASED = "released"


class Held(Protocol):
    @property
    def delivery(self) -> Delivery: ...


class DeliveryLease:
    """The lease extends the ack wait and reads the record three times per ack wait."""

    def __init__(
        self, held: Held, records: Records, mine: StoredRecord, options: WorkerOptions
    ) -> None:
        self.loss: Loss | None = None
        self._held = held
        self._records = records
        self._mine = mine
        self._options = options
        self._check_due = asyncio.Event()
        self._callbacks: list[Callable[[], object]] = []

    @property
    def is_lost(self) -> bool:
        """Return whether the attempt may not write; a released one may still write its end."""
        return self.loss is not None and self.loss is not Loss.RELEASED

    def request_check(self) -> None:
        self._check_due.set()

    def when_ended(self, callback: Callable[[], object]) -> None:
        self._callbacks.append(callback)
        if self.loss is not None:
            callback()

    def end(self, loss: Loss) -> None:
        """End the lease; the first reason is kept."""
        if self.loss is None:
            self.loss = loss
            for callback in self._callbacks:
                callback()

    def lose_to(self, current: StoredRecord | None) -> None:
        is_over = current is not None and current.record.state.is_terminal
        self.end(Loss.OVER if is_over else Loss.SUPERSEDED)

    async def run(self) -> None:
        ran_at = loop_time()
        while not self.is_lost:
            await self._until_due()
            if loop_time() - ran_at > self._options.ack_wait_seconds:
                self.end(Loss.STOOD_STILL)
                return
            ran_at = loop_time()
            await self._keep()

    async def _until_due(self) -> None:
        try:
            async with asyncio.timeout(self._options.ack_wait_seconds / 3):
                await self._check_due.wait()
        except TimeoutError:
            return
        self._check_due.clear()

    async def _keep(self) -> None:
        """Extend the ack wait and compare the record.

        An unreachable broker does not end the lease: a worker that takes over must write the
        record.
        """
        record = self._mine.record
        try:
            await self._held.delivery.keep()
            current = await self._records.read(record.serverlessRequestID, record.invocationID)
        except BusError:
            return
        if current is None or current.revision > self._mine.revision:
            self.lose_to(current)
