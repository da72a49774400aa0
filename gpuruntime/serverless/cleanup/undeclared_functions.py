"""Functions that nobody declares any more: their invocations end, and their consumer goes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import attrs
import structlog

from gpuruntime.bus.errors import BusError
from gpuruntime.controller.controller import DONE, Result
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.operations.lookup.caches import FUNCTION, Cache
from gpuruntime.serverless.cleanup.orphans import Orphans
from gpuruntime.serverless.scaling.consumers import Consumers
from gpuruntime.serverless.scaling.queue_depths import DepthPoller
from gpuruntime.serverless.scaling.workers import SERVING

log = structlog.get_logger()

AGAIN_SECONDS: Final = 5.0
CATCH_UP_SECONDS: Final = 30.0


@attrs.frozen(kw_only=True, slots=True)
class UndeclaredFunctions:
    """Only what the cluster itself shows to be gone, after a while, is taken for gone.

    `grace_seconds`: a template that was just made may not have come to this process yet.
    """

    units: Cache[GPUUnit]
    readings: DepthPoller
    consumers: Consumers
    orphans: Orphans
    catch_up: Callable[[], Awaitable[None]]
    grace_seconds: float
    # Since when nobody declares it, as seen here; loop time.
    since: dict[str, float] = attrs.field(factory=dict)

    async def reconcile(self, function: str) -> Result:
        now = asyncio.get_running_loop().time()
        left = self.since.setdefault(function, now) + self.grace_seconds - now
        if left > 0:
            return Result(requeue_after_seconds=left)
        if self.readings.of(function) is None or not await self._is_gone(function):
            return Result(requeue_after_seconds=AGAIN_SECONDS)
        try:
            return await self._end(function)
        except BusError as error:
            log.warning("invocations without a function stay for now", reason=str(error))
            return Result(requeue_after_seconds=AGAIN_SECONDS)

    def forget(self, function: str) -> None:
        """Somebody declares it."""
        self.since.pop(function, None)

    async def _is_gone(self, function: str) -> bool:
        try:
            async with asyncio.timeout(CATCH_UP_SECONDS):
                await self.catch_up()
        except TimeoutError:
            return False
        return not self.units.store.by_index(FUNCTION, function)

    async def _end(self, function: str) -> Result:
        has_workers = bool(self.units.store.by_index(SERVING, function))
        if not await self.orphans.end(function, has_workers=has_workers):
            return Result(requeue_after_seconds=AGAIN_SECONDS)
        await self.consumers.remove(function)
        self.forget(function)
        return DONE
