"""The limit of requests in flight in one process, over all callers, known or not."""

from collections.abc import Iterator
from contextlib import contextmanager

from gpuruntime.api.errors import NotServingError


class InFlightLimit:
    """A full limit answers 503 and not 429, as no single caller has asked for too much.

    Requests without an end of their own take at most half of the places.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._in_hand = 0
        self._lasting = 0

    @contextmanager
    def place(self, *, lasts: bool = False) -> Iterator[None]:
        """Hold a place while the context is open; raise NotServingError if none is left."""
        if self._in_hand >= self._most:
            raise _full(self._in_hand, "requests")
        if lasts and self._lasting >= max(1, self._most // 2):
            raise _full(self._lasting, "lasting requests")
        self._in_hand += 1
        self._lasting += lasts
        try:
            yield
        finally:
            self._in_hand -= 1
            self._lasting -= lasts


def _full(number: int, what: str) -> NotServingError:
    return NotServingError(
        f"this replica has {number} {what} in flight, as many as it can: retry later"
    )
