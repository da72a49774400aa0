"""Since when an observer sees a suspicion: what has to last before it is a breach."""

from collections.abc import Iterable

from gpuruntime.audit.breach import Breach, Identity, Suspicion


class FirstSeen:
    """By the observer's own clock, which is any that never goes back.

    `lag_seconds` is for whoever reads kind by kind, from caches or lists: what such a snapshot
    shows has to be there so long at least, since its parts are of different moments.
    """

    def __init__(self, *, lag_seconds: float = 0.0) -> None:
        self._lag_seconds = lag_seconds
        self._since: dict[Identity, float] = {}

    def breaches(self, seen: Iterable[Suspicion], now_seconds: float) -> list[Breach]:
        """Of all that is seen now; what is not among it is forgotten."""
        suspicions = tuple(seen)
        self._since = {
            each.identity: self._since.get(each.identity, now_seconds) for each in suspicions
        }
        return [each.breach for each in suspicions if self._is_breach(each, now_seconds)]

    def forget(self) -> None:
        """Everything begins anew: what an outage held up gets its time once more."""
        self._since = {}

    def _is_breach(self, suspicion: Suspicion, now_seconds: float) -> bool:
        age = now_seconds - self._since[suspicion.identity]
        return age >= self._lag_seconds and suspicion.is_breach_at(age)
