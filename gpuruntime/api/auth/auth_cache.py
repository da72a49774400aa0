"""A cache of verdicts that are slow to get: one review at a time for each key."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

import attrs

from gpuruntime.api.errors import CrowdedError, RequestError
from gpuruntime.concurrency.clock import loop_time
from gpuruntime.concurrency.latest import Latest
from gpuruntime.concurrency.single_flight import SharedCalls

VerdictT = TypeVar("VerdictT")

MOST_KEPT: Final = 10_000
# The most reviews in flight, so that a caller that sends guesses cannot start more.
MOST_ASKED: Final = 64


@attrs.frozen(slots=True)
class _Kept(Generic[VerdictT]):
    verdict: VerdictT
    until: float


class AuthCache(Generic[VerdictT]):
    """Keep verdicts for a while; callers of a key share the review in flight. Failures are not
    kept.
    """

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
        """Return the kept or a new verdict; raise the review's RequestError, or CrowdedError."""
        while True:
            kept = self._kept.get(key, None)
            if kept is not None and loop_time() < kept.until:
                return kept.verdict
            asking = self._calls.in_flight(key)
            if asking is None:
                if len(self._calls) >= self._most_asked:
                    raise CrowdedError(
                        "too many callers are being authenticated at once: retry later"
                    )
                return await self._calls.lead(key, lambda: self._ask(key, ask))
            await asyncio.wait([asking])
            if not asking.cancelled():
                return asking.result()

    async def _ask(self, key: Hashable, ask: Callable[[], Awaitable[VerdictT]]) -> VerdictT:
        asked_at = loop_time()
        verdict = await ask()
        self._kept.put(key, _Kept(verdict, asked_at + self._keep_seconds(verdict)))
        return verdict
