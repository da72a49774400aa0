"""Keeps a delivery ours while its call runs, and notices when it is not ours any more."""

import asyncio
from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

from gpuruntime.bus.delivery import Delivery
from gpuruntime.bus.errors import BusError
from gpuruntime.bus.records import Records, StoredRecord
from gpuruntime.worker.options import WorkerOptions


class Loss(StrEnum):
    """`over`: ended elsewhere, by a cancel for one. `stood_still`: this process did not run for so
    long that another may have taken over.
    """

    SUPERSEDED = "superseded"
    OVER = "over"
    STOOD_STILL = "stood_still"
    RELEASED = "released"


class Held(Protocol):
    @property
    def delivery(self) -> Delivery: ...


class DeliveryLease:
    """The message is kept, and the record looked at, three times in an ack wait."""

    def __init__(
        self, held: Held, records: Records, mine: StoredRecord, options: WorkerOptions
    ) -> None:
        self.loss: Loss | None = None
        self._held = held
        self._records = records
        self._mine = mine
        self._options = options
        self._looked_for = asyncio.Event()
        self._callbacks: list[Callable[[], object]] = []

    @property
    def is_lost(self) -> bool:
        """One that was released may still write its end."""
        return self.loss is not None and self.loss is not Loss.RELEASED

    def look(self) -> None:
        self._looked_for.set()

    def when_ended(self, callback: Callable[[], object]) -> None:
        self._callbacks.append(callback)
        if self.loss is not None:
            callback()

    def end(self, loss: Loss) -> None:
        """The first reason stands."""
        if self.loss is None:
            self.loss = loss
            for callback in self._callbacks:
                callback()

    def lose_to(self, current: StoredRecord | None) -> None:
        is_over = current is not None and current.record.state.is_terminal
        self.end(Loss.OVER if is_over else Loss.SUPERSEDED)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        ran_at = loop.time()
        while not self.is_lost:
            await self._until_due()
            if loop.time() - ran_at > self._options.ack_wait_seconds:
                self.end(Loss.STOOD_STILL)
                return
            ran_at = loop.time()
            await self._keep()

    async def _until_due(self) -> None:
        try:
            async with asyncio.timeout(self._options.ack_wait_seconds / 3):
                await self._looked_for.wait()
        except TimeoutError:
            return
        self._looked_for.clear()

    async def _keep(self) -> None:
        """A broker that is away takes nothing from us: whoever takes over writes the record."""
        record = self._mine.record
        try:
            await self._held.delivery.keep()
            current = await self._records.read(record.serverlessRequestID, record.invocationID)
        except BusError:
            return
        if current is None or current.revision > self._mine.revision:
            self.lose_to(current)
