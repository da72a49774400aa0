"""What will go wrong in a run: an explicit list, made from the seed before the run begins.

A fault that hits requests is armed at its moment and hits the next request of its kind, after it
has let some pass. Each stands for itself, so that a list without some of them is a plan as well.
"""

from collections.abc import Mapping
from enum import StrEnum
from random import Random
from typing import Final

import attrs

PROCESSES: Final = ("manager-0", "manager-1", "api-0", "api-1")
MANAGERS: Final = PROCESSES[:2]
# Faults begin once all processes are up, and end in time for a run to come to rest.
FIRST_SECOND: Final = 15.0
LAST_SECOND: Final = 240.0
MOST_FAULTS: Final = 40


class Kind(StrEnum):
    """Of the first group, one request each; of the second, the whole process for a while."""

    CONFLICT = "conflict"
    THROTTLED = "throttled"
    REFUSED_500 = "refused-500"
    REFUSED_503 = "refused-503"
    UNREACHABLE = "unreachable"
    DROPPED = "dropped"
    ANSWER_LOST = "answer-lost"
    ANSWER_500 = "answer-500"
    ANSWER_GARBLED = "answer-garbled"
    LANDS_LATE = "lands-late"
    SLOW_BEFORE = "slow-before"
    SLOW_AFTER = "slow-after"
    CRASH_BEFORE = "crash-before"
    CRASH_SENT = "crash-sent"
    CRASH_AFTER = "crash-after"
    PAGE_EXPIRED = "page-expired"

    WATCHES_RESET = "watches-reset"
    WATCHES_GONE = "watches-gone"
    WATCHES_SILENT = "watches-silent"
    WATCHES_LATE = "watches-late"
    WATCHES_TORN = "watches-torn"
    WATCHES_REFUSED = "watches-refused"
    HISTORY_LOST = "history-lost"
    PARTITION = "partition"
    LEASE_OUTAGE = "lease-outage"
    CLOCK_JUMP = "clock-jump"
    STOP = "stop"
    KILL = "kill"


class Target(StrEnum):
    """Which requests a fault may hit."""

    WRITE = "write"
    CREATE = "create"
    PATCH = "patch"
    DELETE = "delete"
    READ = "read"
    LIST = "list"
    NEXT_PAGE = "next page"


@attrs.frozen(kw_only=True, slots=True)
class Planned:
    """`seconds` is how long it lasts, how late it is, or how far a clock goes."""

    at: float
    process: str
    kind: Kind
    target: Target | None = None
    skip: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        what = f" {self.target} after {self.skip}" if self.target else ""
        lasting = f" {self.seconds:.2f} s" if self.seconds else ""
        return f"{self.at:7.2f}  {self.process:<10} {self.kind}{what}{lasting}"


# How long it takes or lasts; a request lives 60 s at most, from its sending to its landing.
SECONDS: Final[Mapping[Kind, tuple[float, float]]] = {
    Kind.THROTTLED: (1.0, 4.0),
    Kind.LANDS_LATE: (0.5, 55.0),
    Kind.SLOW_BEFORE: (0.5, 28.0),
    Kind.SLOW_AFTER: (0.5, 28.0),
    Kind.CRASH_BEFORE: (0.5, 40.0),
    Kind.CRASH_SENT: (0.5, 40.0),
    Kind.CRASH_AFTER: (0.5, 40.0),
    Kind.WATCHES_LATE: (0.5, 40.0),
    Kind.WATCHES_REFUSED: (1.0, 20.0),
    Kind.PARTITION: (1.0, 60.0),
    Kind.LEASE_OUTAGE: (4.0, 30.0),
    Kind.CLOCK_JUMP: (-7200.0, 7200.0),
    Kind.STOP: (0.5, 20.0),
    Kind.KILL: (0.5, 40.0),
}
REQUEST_KINDS: Final = tuple(Kind)[: tuple(Kind).index(Kind.WATCHES_RESET)]
WRITE_KINDS: Final = {
    Kind.CONFLICT,
    Kind.ANSWER_LOST,
    Kind.ANSWER_500,
    Kind.LANDS_LATE,
    Kind.CRASH_BEFORE,
    Kind.CRASH_SENT,
    Kind.CRASH_AFTER,
}
# What happens to open watches; a partition breaks them off as well.
WATCH_KINDS: Final = {
    Kind.WATCHES_RESET,
    Kind.WATCHES_GONE,
    Kind.WATCHES_SILENT,
    Kind.WATCHES_LATE,
    Kind.WATCHES_TORN,
    Kind.WATCHES_REFUSED,
    Kind.HISTORY_LOST,
    Kind.PARTITION,
}
# Requests fail far more often than processes.
WEIGHTS: Final = [4 if kind in REQUEST_KINDS else 1 for kind in Kind]
WRITES: Final = (Target.WRITE, Target.WRITE, Target.CREATE, Target.PATCH, Target.DELETE)
READS: Final = (Target.READ, Target.READ, Target.LIST)


def plan_of(seed: int) -> tuple[Planned, ...]:
    rng = Random(f"{seed} faults")
    count = rng.randint(1, MOST_FAULTS)
    return tuple(sorted((_fault(rng) for _ in range(count)), key=lambda each: each.at))


def _fault(rng: Random) -> Planned:
    kind = rng.choices(tuple(Kind), WEIGHTS)[0]
    lease_only = kind is Kind.LEASE_OUTAGE
    least, most = SECONDS.get(kind, (0.0, 0.0))
    target, skip = None, 0
    if kind in REQUEST_KINDS:
        target = rng.choice(WRITES if kind in WRITE_KINDS or rng.random() < 0.7 else READS)
        target = Target.NEXT_PAGE if kind is Kind.PAGE_EXPIRED else target
        skip = rng.choice((0, 0, 1, 2, 3, 5))
    return Planned(
        at=rng.uniform(FIRST_SECOND, LAST_SECOND),
        process=rng.choice(MANAGERS if lease_only else PROCESSES),
        kind=kind,
        target=target,
        skip=skip,
        seconds=rng.uniform(least, most),
    )
