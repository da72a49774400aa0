"""Exponential back-off of keys that fail."""

from collections.abc import Hashable
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)

FIRST_SECONDS = 0.005
LONGEST_SECONDS = 960.0
# Number of doublings from the first delay until it exceeds the longest one.
_MOST_DOUBLINGS = 18


class Backoff(Generic[KeyT]):
    """Backoff doubles a key's delay with each failure, from 5 ms to 16 minutes."""

    def __init__(self) -> None:
        self._failures: dict[KeyT, int] = {}

    def next_delay_seconds(self, key: KeyT) -> float:
        """Count one more failure of the key, and return its delay."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        return min(FIRST_SECONDS * 2.0 ** min(failures, _MOST_DOUBLINGS), LONGEST_SECONDS)

    def forget(self, key: KeyT) -> None:
        self._failures.pop(key, None)
