"""How units start in one process: each of an operation in its turn, and no start is forgotten."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Final

from gpuruntime.concurrency.keyed_lock import KeyedLock
from gpuruntime.kube.errors import MalformedAnswerError, OutcomeUnknownError
from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.reconcilers.unit.start_plan import REQUEST_LIFE_SECONDS

_UNKNOWN: Final = (OutcomeUnknownError, MalformedAnswerError)


class StartLocks:
    def __init__(self) -> None:
        self._turns = KeyedLock[str]()
        self._moves = KeyedLock[Key]()
        # Until when (loop time) a request of this process may yet start each unit.
        self._unsettled: dict[Key, float] = {}

    @asynccontextmanager
    async def turn(self, unit: GPUUnit) -> AsyncIterator[None]:
        """Around the gate and the start, so that a rival is judged before or after both."""
        key = unit.metadata.key
        subject = provenance.operation_of(unit) or str(key)
        async with self._turns.of(subject), self.pause(key):
            try:
                yield
            except _UNKNOWN:
                self._note(key)
                raise

    def pause(self, key: Key) -> asyncio.Lock:
        """Held while nothing of one unit is begun."""
        return self._moves.of(key)

    def unsettled_seconds(self, keys: Iterable[Key]) -> float:
        """How much longer one of these units may come to start by a request of unknown outcome."""
        loop_time = asyncio.get_running_loop().time()
        last = max((self._unsettled.get(key, loop_time) for key in keys), default=loop_time)
        return max(0.0, last - loop_time)

    def _note(self, key: Key) -> None:
        """Whatever becomes of the unit meanwhile."""
        loop_time = asyncio.get_running_loop().time()
        left = {each: until for each, until in self._unsettled.items() if until > loop_time}
        self._unsettled = {**left, key: loop_time + REQUEST_LIFE_SECONDS}
