"""How long a key that failed has to wait: longer with every failure in a row."""

from collections.abc import Hashable
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)

FIRST_SECONDS = 0.005
LONGEST_SECONDS = 960.0
# Doublings from the first delay until it passes the longest one.
_MOST_DOUBLINGS = 18


class Backoff(Generic[KeyT]):
    """5 ms, doubled with each failure of the key up to 16 minutes, until it is forgotten."""

    def __init__(self) -> None:
        self._failures: dict[KeyT, int] = {}

    def next_delay_seconds(self, key: KeyT) -> float:
        """Counts one more failure."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        return min(FIRST_SECONDS * 2.0 ** min(failures, _MOST_DOUBLINGS), LONGEST_SECONDS)

    def forget(self, key: KeyT) -> None:
        self._failures.pop(key, None)
