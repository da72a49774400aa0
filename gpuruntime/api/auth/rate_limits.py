"""Limits of each caller: requests per second, and requests in flight."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import attrs

from gpuruntime.api.errors import OverdrawnError

# Callers that are remembered; forgetting an idle one changes nothing.
MOST_CALLERS: Final = 10_000


@attrs.frozen(kw_only=True, slots=True)
class Limits:
    """A token bucket of `burst`, refilled `per_second`; `at_once` bounds requests in flight."""

    per_second: float
    burst: int
    at_once: int


@attrs.define(slots=True)
class _Account:
    left: float
    counted_at: float
    in_hand: int = 0


class RateLimits:
    def __init__(self, limits: Limits, *, most_callers: int = MOST_CALLERS) -> None:
        self._limits = limits
        self._most_callers = most_callers
        # In the order of their latest request, the latest last.
        self._accounts: dict[str, _Account] = {}

    def __len__(self) -> int:
        return len(self._accounts)

    @contextmanager
    def use(self, caller: str, now: float) -> Iterator[None]:
        """Count one request of the caller while the context is open; raise OverdrawnError."""
        account = self._account(caller, now)
        if account.in_hand >= self._limits.at_once:
            raise OverdrawnError(
                f"{caller} has {account.in_hand} requests in flight: wait until some of them end"
            )
        if account.left < 1.0:
            wait = math.ceil((1.0 - account.left) / self._limits.per_second)
            raise OverdrawnError(
                f"{caller} sends more than {self._limits.per_second:g} requests a second: "
                "slow down",
                retry_after_seconds=wait,
            )
        account.left -= 1.0
        account.in_hand += 1
        try:
            yield
        finally:
            account.in_hand -= 1

    def _account(self, caller: str, now: float) -> _Account:
        account = self._accounts.pop(caller, None) or _Account(self._limits.burst, now)
        self._accounts[caller] = account
        gained = (now - account.counted_at) * self._limits.per_second
        account.left = min(self._limits.burst, account.left + gained)
        account.counted_at = now
        self._forget()
        return account

    def _forget(self) -> None:
        """Drop the idle account of the oldest request; accounts with requests in flight stay."""
        if len(self._accounts) > self._most_callers:
            resting = (name for name, each in self._accounts.items() if not each.in_hand)
            self._accounts.pop(next(resting, ""), None)
