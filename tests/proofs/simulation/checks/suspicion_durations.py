"""How long each suspicion has lasted, to report those that last longer than allowed."""

from collections.abc import Iterable, Iterator

from gpuruntime.audit.breach import Identity, Suspicion


class SuspicionDurations:
    """Measures suspicions by one clock; an ended one counts until the call that misses it."""

    def __init__(self) -> None:
        self._since: dict[Identity, tuple[float, Suspicion]] = {}

    def too_long(self, seen: Iterable[Suspicion], now: float) -> Iterator[Suspicion]:
        """Yield the suspicions that have lasted too long, including those that have just ended."""
        known = self._since
        for began_at, suspicion in known.values():
            if now - began_at > suspicion.finding.allowed_seconds:
                yield suspicion
        self._since = {each.identity: known.get(each.identity, (now, each)) for each in seen}
