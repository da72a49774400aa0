"""What may be so for a while: how long it has been so, told as soon as it is too long."""

from collections.abc import Iterable, Iterator

from gpuruntime.audit.breach import Identity, Suspicion


class SuspicionDurations:
    """Moments are of one clock. One that has ended meanwhile is judged by its end."""

    def __init__(self) -> None:
        self._since: dict[Identity, tuple[float, Suspicion]] = {}

    def too_long(self, seen: Iterable[Suspicion], now: float) -> Iterator[Suspicion]:
        """Of all that is seen now, and of what was seen until now."""
        known = self._since
        for began_at, suspicion in known.values():
            if now - began_at > suspicion.finding.allowed_seconds:
                yield suspicion
        self._since = {each.identity: known.get(each.identity, (now, each)) for each in seen}
