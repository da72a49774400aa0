"""The time since which an observer has seen each suspicion."""

from collections.abc import Iterable

from gpuruntime.audit.breach import Breach, Identity, Suspicion


class FirstSeen:
    """Remembers suspicions by the observer's own clock, which must never go back.

    A snapshot that is read kind by kind, from caches or lists, has parts of different times. So a
    suspicion must last at least `lag_seconds` before it is a breach.
    """

    def __init__(self, *, lag_seconds: float = 0.0) -> None:
        self._lag_seconds = lag_seconds
        self._since: dict[Identity, float] = {}

    def breaches(self, seen: Iterable[Suspicion], now_seconds: float) -> list[Breach]:
        """Return the breaches among the suspicions seen now, and forget all other suspicions."""
        suspicions = tuple(seen)
        self._since = {
            each.identity: self._since.get(each.identity, now_seconds) for each in suspicions
        }
        return [each.breach for each in suspicions if self._is_breach(each, now_seconds)]

    def forget(self) -> None:
        """Forget everything, so that work which an outage delayed gets its full time again."""
        self._since = {}

    def _is_breach(self, suspicion: Suspicion, now_seconds: float) -> bool:
        age = now_seconds - self._since[suspicion.identity]
        return age >= self._lag_seconds and suspicion.is_breach_at(age)
