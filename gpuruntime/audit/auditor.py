"""The audit of a running process, repeated over its caches in short slices."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Final

import attrs
import structlog

from gpuruntime.audit.audit import steps
from gpuruntime.audit.breach import Breach, ObjectRef, Suspicion
from gpuruntime.audit.first_seen import FirstSeen
from gpuruntime.audit.rules import RULES
from gpuruntime.audit.snapshot import Snapshot
from gpuruntime.concurrency.clock import loop_time
from gpuruntime.meter import Meter, NullMeter

log = structlog.get_logger()

# This is half of the time for which the loop may be blocked; a garbage collection may come
# between.
SLICE_SECONDS: Final = 0.005
INTERVAL_SECONDS: Final = 60.0
# The interval while there are suspicions.
CLOSER_SECONDS: Final = 30.0
# A silent watch is given up after 75 s; until then its cache may lag.
LAG_SECONDS: Final = 90.0
# The most breaches that one audit logs; a fault of ours may break a rule for every object at once.
MOST_LOGGED: Final = 20


@attrs.frozen(kw_only=True, slots=True)
class Report:
    """The result of one audit. `counts` has the number of breaches of each rule that was judged.

    `suspicion_count` counts the findings that have not lasted long enough to be breaches.
    """

    breaches: tuple[Breach, ...]
    counts: Mapping[str, int]
    suspicion_count: int
    object_count: int


class Auditor:
    """Audits the snapshots that `take` returns in a single step.

    While `is_current` reports that the caches are not kept current, nothing is found and earlier
    suspicions are forgotten, since each cache then shows another time. A silent auditor only
    answers callers of `audit`; another process logs its breaches.
    """

    def __init__(
        self,
        take: Callable[[], Snapshot],
        *,
        is_current: Callable[[], bool] = lambda: True,
        lag_seconds: float = LAG_SECONDS,
        meter: Meter = NullMeter(),
        is_silent: bool = False,
    ) -> None:
        self._take = take
        self._is_current = is_current
        self._first_seen = FirstSeen(lag_seconds=lag_seconds)
        self._meter = meter
        self._is_silent = is_silent
        self._turn = asyncio.Lock()
        self._known: set[tuple[str, tuple[ObjectRef, ...]]] = set()

    async def run(self) -> None:
        """Audit forever, at first after one interval, when a new process has settled."""
        pause = INTERVAL_SECONDS
        while True:
            await asyncio.sleep(pause)
            report = await self.audit()
            if not self._is_silent:
                self._log(report)
            pause = CLOSER_SECONDS if report.suspicion_count else INTERVAL_SECONDS

    async def audit(self) -> Report:
        """Audit the caches once. Audits run in turn, so that suspicions are recorded in order."""
        async with self._turn:
            if not self._is_current():
                self._first_seen.forget()
                return Report(breaches=(), counts={}, suspicion_count=0, object_count=0)
            snapshot = self._take()
            taken_at = loop_time()
            seen = await suspicions_in_slices(snapshot)
            breaches = self._first_seen.breaches(seen, taken_at)
            return report_of(snapshot, seen, breaches)

    def _log(self, report: Report) -> None:
        for rule, count in report.counts.items():
            self._meter.gauge("audit_breaches", count, rule=rule)
        found = {(each.rule, each.objects): each for each in report.breaches}
        fresh = [each for subject, each in found.items() if subject not in self._known]
        self._known = set(found)
        for breach in fresh[:MOST_LOGGED]:
            log.warning(
                "invariant broken",
                rule=breach.rule,
                objects=[str(each) for each in breach.objects],
                message=breach.message,
                remedy=breach.remedy,
            )
        if len(fresh) > MOST_LOGGED:
            log.warning("more invariants broken", count=len(fresh) - MOST_LOGGED)


async def suspicions_in_slices(snapshot: Snapshot) -> list[Suspicion]:
    """Return the suspicions, and let the loop run other tasks between two slices."""
    seen = []
    ends_at = loop_time() + SLICE_SECONDS
    for found in steps(snapshot):
        if found is not None:
            seen.append(found)
        if loop_time() > ends_at:
            await asyncio.sleep(0)
            ends_at = loop_time() + SLICE_SECONDS
    return seen


def report_of(
    snapshot: Snapshot, seen: Collection[Suspicion], breaches: Collection[Breach]
) -> Report:
    counted = Counter(each.rule for each in breaches)
    return Report(
        breaches=tuple(breaches),
        counts={rule.name: counted[rule.name] for rule in RULES if rule.is_judged(snapshot)},
        suspicion_count=len(seen) - len(breaches),
        object_count=snapshot.object_count,
    )
