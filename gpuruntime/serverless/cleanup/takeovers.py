"""What was accepted for an earlier declarer of a function: it ends when another takes over.

A name that was free may be another tenant's by now. Workers give back what is not their
declarer's, so that nobody after it is given what it was sent; here it ends as it would have
without a successor. It is looked for when a declarer is new to this process, and whenever a
worker says that it has met some.
"""

from typing import Final

import attrs
import structlog

from gpuruntime.bus.errors import BusError
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.operations.lookup.caches import Cache
from gpuruntime.serverless.cleanup.orphans import Orphans
from gpuruntime.serverless.scaling.heartbeats import Heartbeats
from gpuruntime.serverless.scaling.workers import SERVING

log = structlog.get_logger()

# What runs at workers of an earlier declarer is theirs to end, and the broker may be away.
AGAIN_SECONDS: Final = 5.0


@attrs.define(kw_only=True, slots=True)
class _Walk:
    """Through the queue of one function, for one declarer, after so much was met."""

    declarer: str
    met: int
    after: int = 0
    is_clear: bool = True
    is_over: bool = False


class Takeovers:
    def __init__(self, units: Cache[GPUUnit], orphans: Orphans, beats: Heartbeats) -> None:
        self._units = units
        self._orphans = orphans
        self._beats = beats
        self._walks: dict[str, _Walk] = {}

    async def look(self, function: str, declarer: str, *, depth: int | None) -> float | None:
        """When to look again; None while there is nothing to end. Costs nothing where it ended.

        `depth` None: nobody knows what is queued; somebody will look again once it is known.
        """
        walk = self._walk(function, declarer)
        if walk.is_over or depth is None:
            return None
        if not depth:
            walk.is_over = True
            return None
        try:
            return await self._go_on(function, walk)
        except BusError as error:
            log.warning("invocations of an earlier declarer stay for now", reason=str(error))
            return AGAIN_SECONDS

    def forget(self, function: str) -> None:
        """Nobody declares it."""
        self._walks.pop(function, None)

    def _walk(self, function: str, declarer: str) -> _Walk:
        walk, met = self._walks.get(function), self._beats.foreign(function)
        if walk is None or walk.declarer != declarer or walk.met < met:
            walk = self._walks[function] = _Walk(declarer=declarer, met=met)
        walk.met = met
        return walk

    async def _go_on(self, function: str, walk: _Walk) -> float | None:
        stretch = await self._orphans.end_of_others(
            function, walk.declarer, after=walk.after, has_workers=self._has_others(function, walk)
        )
        walk.is_clear = walk.is_clear and stretch.is_clear
        if stretch.after is not None:
            walk.after = stretch.after
            return 0.0
        walk.is_over = walk.is_clear
        walk.after, walk.is_clear = 0, True
        return None if walk.is_over else AGAIN_SECONDS

    def _has_others(self, function: str, walk: _Walk) -> bool:
        serving = self._units.store.by_index(SERVING, function)
        return any(_maker_of(each) != walk.declarer for each in serving)


def _maker_of(worker: GPUUnit) -> str:
    made_by = worker.spec.serverless.workerOf if worker.spec.serverless else None
    return made_by.uid if made_by else ""
