"""How many requests one process has in hand, of all callers together, known or not."""

from collections.abc import Iterator
from contextlib import contextmanager

from gpuruntime.api.errors import NotServingError


class Crowd:
    """Full, it is 503 and not 429: no caller has asked for too much by itself."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._in_hand = 0

    @contextmanager
    def place(self) -> Iterator[None]:
        """Of one request, from here to its end; raises NotServingError where none is left."""
        if self._in_hand >= self._most:
            raise NotServingError(
                f"this replica has {self._in_hand} requests in hand, as many as it can: "
                "send the request again"
            )
        self._in_hand += 1
        try:
            yield
        finally:
            self._in_hand -= 1
