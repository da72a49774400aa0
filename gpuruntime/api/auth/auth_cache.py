"""Answers of somebody who is slow to ask, kept for a while: one question at a time a key."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

import attrs

from gpuruntime.api.errors import CrowdedError, RequestError
from gpuruntime.concurrency.latest import Latest
from gpuruntime.concurrency.single_flight import SharedCalls

VerdictT = TypeVar("VerdictT")

MOST_KEPT: Final = 10_000
# Whoever sends guesses keeps so many questions busy, and no more.
MOST_ASKED: Final = 64


@attrs.frozen(slots=True)
class _Kept(Generic[VerdictT]):
    verdict: VerdictT
    until: float


class AuthCache(Generic[VerdictT]):
    """What is asked while an answer is on its way waits for that one. Failures are not kept."""

    def __init__(
        self,
        keep_seconds: Callable[[VerdictT], float],
        *,
        most_kept: int = MOST_KEPT,
        most_asked: int = MOST_ASKED,
    ) -> None:
        self._keep_seconds = keep_seconds
        self._most_asked = most_asked
        self._kept = Latest[Hashable, _Kept[VerdictT]](most_kept)
        self._calls = SharedCalls[VerdictT](RequestError)

    def __len__(self) -> int:
        return len(self._kept)

    async def get(self, key: Hashable, ask: Callable[[], Awaitable[VerdictT]]) -> VerdictT:
        """Raises the RequestError of the question, or CrowdedError."""
        while True:
            kept = self._kept.get(key, None)
            if kept is not None and asyncio.get_running_loop().time() < kept.until:
                return kept.verdict
            asking = self._calls.in_flight(key)
            if asking is None:
                if len(self._calls) >= self._most_asked:
                    raise CrowdedError("too many callers have to be asked for at once: come back")
                return await self._calls.lead(key, lambda: self._ask(key, ask))
            await asyncio.wait([asking])
            if not asking.cancelled():
                return asking.result()

    async def _ask(self, key: Hashable, ask: Callable[[], Awaitable[VerdictT]]) -> VerdictT:
        asked_at = asyncio.get_running_loop().time()
        verdict = await ask()
        self._kept.put(key, _Kept(verdict, asked_at + self._keep_seconds(verdict)))
        return verdict
