"""The leader's memory of functions between two reconciles: only times and counts.

A new leader starts without it and reaches the same result a little later.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Final

import attrs

from gpuruntime.models.kinds.functions import ServerlessStatus
from gpuruntime.serverless.scaling.worker_plan import (
    UNSETTLED_SECONDS,
    Shortage,
    Worker,
    WorkerPhase,
    replacement_seconds,
)

# Another claim was faster; after this time the cache shows which stock is left.
RACE_SECONDS: Final = 1.0


@attrs.define(slots=True)
class FirstSeen:
    """Since when this leader has seen a state, by uid; moments are loop time."""

    draining: dict[str, float] = attrs.field(factory=dict)
    adrift: dict[str, float] = attrs.field(factory=dict)

    def keep(self, uids: set[str]) -> None:
        for seen in (self.draining, self.adrift):
            for uid in seen.keys() - uids:
                del seen[uid]


class Demand:
    """How many workers a function needed lately. Moments are of one monotonic clock."""

    def __init__(self, needed: int, at: float) -> None:
        """Start with the workers that a new leader finds; their idle time starts again."""
        # Decreasing needs, each with the last moment at which it was needed.
        self._needs: list[tuple[int, float]] = [(needed, at)]

    @property
    def current(self) -> int:
        return self._needs[-1][0]

    def note(self, needed: int, at: float) -> None:
        while self._needs and self._needs[-1][0] <= needed:
            self._needs.pop()
        self._needs.append((needed, at))

    def most(self, at: float, *, within: float) -> int:
        """Return the highest need of the last `within` seconds, and forget older ones.

        The current need always counts.
        """
        while len(self._needs) > 1 and self._needs[0][1] + within <= at:
            del self._needs[0]
        return self._needs[0][0]

    def falls_in(self, at: float, *, within: float) -> float | None:
        """Return in how many seconds `most` falls without a further note, or None if it never
        does.
        """
        return self._needs[0][1] + within - at if len(self._needs) > 1 else None


@attrs.define(kw_only=True, slots=True)
class FunctionHistory:
    """Moments are loop time. `uid` is the uid of the template."""

    uid: str
    demand: Demand
    status: ServerlessStatus = ServerlessStatus()
    failure: str = ""
    told_at: float | None = None
    oldest_at: datetime | None = None
    _asked_at: float | None = None
    _is_blind: bool = False
    _held_until: float = 0.0
    _replaced: int = 0
    _replaced_at: float = 0.0
    # Since when all workers have been ready.
    _whole_since: float | None = None
    _claimed_at: dict[str, float] = attrs.field(factory=dict)

    @classmethod
    def of(cls, uid: str, workers: int, now: float) -> "FunctionHistory":
        return cls(uid=uid, demand=Demand(workers, now))

    def needed(self, now_needed: int | None, now: float, idle_seconds: float) -> int | None:
        """Return the highest need within the idle time, or None if the need is unknown.

        The time in which it is unknown does not count as idle.
        """
        if now_needed is None:
            self._is_blind = True
            return None
        if self._is_blind:
            self._is_blind = False
            self.demand.note(self.demand.current, now)
        self.demand.note(now_needed, now)
        return self.demand.most(now, within=idle_seconds)

    def touch(self, now: float) -> None:
        """Note that there was work just now, even if it is done before the next reading."""
        self.demand.note(max(self.demand.current, 1), now)

    def falls_in_seconds(self, now: float, idle_seconds: float) -> float | None:
        """Return in how many seconds fewer workers may be needed although nothing happens."""
        return None if self._is_blind else self.demand.falls_in(now, within=idle_seconds)

    def held_seconds(self, now: float) -> float | None:
        """Return for how long no claim is made after a failed one; None if claims may be made."""
        return self._held_until - now if now < self._held_until else None

    def refusal(self, now: float) -> str:
        """Return why no claim is made for now, or an empty text if claims may be made."""
        return self.failure if self.held_seconds(now) else ""

    def note_claim(self, name: str, failure: str, now: float) -> None:
        """Note a claim; of several at once, a failure is reported whatever the others do."""
        if not failure:
            self._claimed_at[name] = now
            return
        self.failure = failure
        is_race = failure == Shortage.CAPACITY
        self._held_until = now + (RACE_SECONDS if is_race else UNSETTLED_SECONDS)

    def started(self, workers: Collection[Worker], now: float) -> list[float]:
        """Return the start time in seconds of each worker that is ready for the first time."""
        is_whole = all(worker.phase is WorkerPhase.READY for worker in workers)
        self._note_whole(is_whole and bool(workers), now)
        ready = {worker.name for worker in workers if worker.phase is WorkerPhase.READY}
        taken = [now - at for name, at in self._claimed_at.items() if name in ready]
        awaited = {worker.name for worker in workers} - ready
        self._claimed_at = {k: at for k, at in self._claimed_at.items() if k in awaited}
        return taken

    def _note_whole(self, is_whole: bool, now: float) -> None:
        """Reset the back-off once all workers were ready for as long as it lasts."""
        if is_whole:
            self._whole_since = now if self._whole_since is None else self._whole_since
        elif self._whole_since is not None:
            if now - self._whole_since >= replacement_seconds(self._replaced):
                self._replaced = 0
            self._whole_since = None

    def note_replacement(self, now: float) -> None:
        self._replaced += 1
        self._replaced_at = now

    def replacement_in_seconds(self, now: float) -> float:
        if not self._replaced:
            return 0.0
        return max(self._replaced_at + replacement_seconds(self._replaced) - now, 0.0)

    def tells_in_seconds(self, now: float, period_seconds: float) -> float:
        return 0.0 if self.told_at is None else max(self.told_at + period_seconds - now, 0.0)

    def oldest_wait_seconds(self, now: datetime) -> float:
        """Return how long the oldest invocation waits; it grows between two readings."""
        return max((now - self.oldest_at).total_seconds(), 0.0) if self.oldest_at else 0.0

    def asks_for_oldest(self, now: float, period_seconds: float) -> bool:
        """Return True on the first call, and then once in a period."""
        if self._asked_at is not None and now - self._asked_at < period_seconds:
            return False
        self._asked_at = now
        return True


@attrs.frozen(slots=True)
class Histories:
    """The leader's memory of all functions, by name; moments are loop time."""

    declared: dict[str, FunctionHistory] = attrs.field(factory=dict)
    # Since when no unit declares a function.
    undeclared: dict[str, float] = attrs.field(factory=dict)
    # By specName, the functions that wait for stock of it.
    short: defaultdict[str, set[str]] = attrs.field(factory=lambda: defaultdict(set))
    _sightings: dict[str, FirstSeen] = attrs.field(factory=dict)

    def of(self, function: str, uid: str, *, workers: int, now: float) -> FunctionHistory:
        """Return the history of a function; a template that takes it over gets a new one."""
        self.undeclared.pop(function, None)
        history = self.declared.get(function)
        if history is None or history.uid != uid:
            history = self.declared[function] = FunctionHistory.of(uid, workers, now)
        return history

    def undeclared_since(self, function: str, now: float) -> float:
        """Return since when no unit declares the function, and forget its history."""
        self.declared.pop(function, None)
        for waiting in self.short.values():
            waiting.discard(function)
        return self.undeclared.setdefault(function, now)

    def sightings(self, function: str, uids: Iterable[str]) -> FirstSeen:
        """Return when states of the function's workers were first seen; forget other workers."""
        seen = self._sightings.pop(function, None) or FirstSeen()
        known = set(uids)
        seen.keep(known)
        if known:
            self._sightings[function] = seen
        return seen

    def note_shortage(self, function: str, spec_name: str, *, is_short: bool) -> None:
        """Note whether more free stock of the specName may change the function's plan."""
        waiting = self.short[spec_name]
        (waiting.add if is_short else waiting.discard)(function)

    def touch(self, function: str, now: float) -> bool:
        """Note a call just now; return whether workers are wanted for the function already."""
        history = self.declared.get(function)
        if history is None:
            return False
        history.touch(now)
        return history.status.desiredWorkers > 0
