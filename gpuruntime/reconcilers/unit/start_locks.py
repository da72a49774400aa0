"""Locks around the starts of units in one process, and a memory of starts of unknown outcome."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Final

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.concurrency.keyed_lock import KeyedLock
from gpuruntime.kube.errors import MalformedAnswerError, OutcomeUnknownError
from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.claim_timing import REQUEST_LIFE_SECONDS
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.metadata import Key

_UNKNOWN: Final = (OutcomeUnknownError, MalformedAnswerError)


class StartLocks:
    def __init__(self) -> None:
        self._turns = KeyedLock[str]()
        self._moves = KeyedLock[Key]()
        # Loop time until which a request of this process may still start the unit.
        self._unsettled: dict[Key, float] = {}

    @asynccontextmanager
    async def turn(self, unit: GPUUnit) -> AsyncIterator[None]:
        """Hold the operation's lock around gate and start; no rival is judged in between."""
        key = unit.metadata.key
        subject = provenance.operation_of(unit) or str(key)
        async with self._turns.of(subject), self.pause(key):
            try:
                yield
            except _UNKNOWN:
                self._note(key)
                raise

    def pause(self, key: Key) -> asyncio.Lock:
        """Return the lock of one unit, for a caller that must not race its start."""
        return self._moves.of(key)

    def unsettled_seconds(self, keys: Iterable[Key]) -> float:
        """Return for how many more seconds a lost request may still start one of the units."""
        now = loop_time()
        last = max((self._unsettled.get(key, now) for key in keys), default=now)
        return max(0.0, last - now)

    def _note(self, key: Key) -> None:
        """Remember the lost request, even if the unit is deleted meanwhile."""
        now = loop_time()
        left = {each: until for each, until in self._unsettled.items() if until > now}
        self._unsettled = {**left, key: now + REQUEST_LIFE_SECONDS}
