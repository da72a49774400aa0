"""How much one caller may ask for: so many requests in a second, and so many in hand at once."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import attrs

from gpuruntime.api.errors import OverdrawnError

# Of callers that are remembered; one that rests is as good as a new one.
MOST_CALLERS: Final = 10_000


@attrs.frozen(kw_only=True, slots=True)
class Limits:
    """Whoever rested may ask for `burst` in one go, and then for so many each second."""

    per_second: float = 100.0
    burst: int = 200
    at_once: int = 256


@attrs.define(slots=True)
class _Account:
    left: float
    counted_at: float
    in_hand: int = 0


class RateLimits:
    def __init__(self, limits: Limits, *, most_callers: int = MOST_CALLERS) -> None:
        self._limits = limits
        self._most_callers = most_callers
        # Who asked last is last.
        self._accounts: dict[str, _Account] = {}

    def __len__(self) -> int:
        return len(self._accounts)

    @contextmanager
    def use(self, caller: str, now: float) -> Iterator[None]:
        """One request of the caller's, from here to its end; raises OverdrawnError."""
        account = self._account(caller, now)
        if account.in_hand >= self._limits.at_once:
            raise OverdrawnError(
                f"{caller} has {account.in_hand} requests in hand: let some of them end first"
            )
        if account.left < 1.0:
            wait = math.ceil((1.0 - account.left) / self._limits.per_second)
            raise OverdrawnError(
                f"{caller} asks more than {self._limits.per_second:g} times a second: slow down",
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
        """An account with requests in hand is let go only by who holds it."""
        if len(self._accounts) > self._most_callers:
            resting = (name for name, each in self._accounts.items() if not each.in_hand)
            self._accounts.pop(next(resting, ""), None)
