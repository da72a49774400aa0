"""The faults of a run: an explicit list, derived from the seed before the run begins."""

from collections.abc import Iterator, Mapping
from random import Random
from typing import Final

from tests.proofs.simulation.faults.aimed_crashes import aimed_crashes
from tests.proofs.simulation.faults.aimed_faults import aimed_faults
from tests.proofs.simulation.faults.functions import function_faults
from tests.proofs.simulation.faults.kinds import (
    ACTIVATORS,
    FIRST_SECOND,
    LAST_SECOND,
    MANAGERS,
    PROCESSES,
    REQUEST_KINDS,
    FaultKind,
    PlannedFault,
    Target,
)
from tests.proofs.simulation.stories.script import script_of

MOST_FAULTS: Final = 40
MOST_AT_ACTIVATORS: Final = 12
# The range of delays or durations. A request lands within 60 s of its sending.
SECONDS: Final[Mapping[FaultKind, tuple[float, float]]] = {
    FaultKind.THROTTLED: (1.0, 4.0),
    FaultKind.LANDS_LATE: (0.5, 55.0),
    FaultKind.SLOW_BEFORE: (0.5, 28.0),
    FaultKind.SLOW_AFTER: (0.5, 28.0),
    FaultKind.CRASH_BEFORE: (0.5, 40.0),
    FaultKind.CRASH_SENT: (0.5, 40.0),
    FaultKind.CRASH_AFTER: (0.5, 40.0),
    FaultKind.WATCHES_LATE: (0.5, 40.0),
    FaultKind.WATCHES_REFUSED: (1.0, 20.0),
    FaultKind.PARTITION: (1.0, 60.0),
    FaultKind.LEASE_OUTAGE: (4.0, 30.0),
    FaultKind.CLOCK_JUMP: (-7200.0, 7200.0),
    FaultKind.STOP: (0.5, 20.0),
    FaultKind.KILL: (0.5, 40.0),
}
# A kind that has no effect without another fault is only planned by aimed faults.
COMMON: Final = tuple(kind for kind in FaultKind if kind is not FaultKind.OLD_LISTS)
WRITE_KINDS: Final = {
    FaultKind.CONFLICT,
    FaultKind.ANSWER_LOST,
    FaultKind.ANSWER_500,
    FaultKind.LANDS_LATE,
    FaultKind.CRASH_BEFORE,
    FaultKind.CRASH_SENT,
    FaultKind.CRASH_AFTER,
}
# Requests fail far more often than processes.
WEIGHTS: Final = [4 if kind in REQUEST_KINDS else 1 for kind in COMMON]
WRITES: Final = (Target.WRITE, Target.WRITE, Target.CREATE, Target.PATCH, Target.DELETE)
READS: Final = (Target.READ, Target.READ, Target.LIST)


def plan_of(seed: int) -> tuple[PlannedFault, ...]:
    script = script_of(seed)
    faults = [*_random_faults(Random(f"{seed} faults"), MANAGERS, PROCESSES, MOST_FAULTS)]
    faults.extend(aimed_faults(seed, script))
    faults.extend(aimed_crashes(seed, has_function=bool(script.functions)))
    if script.functions:
        rng = Random(f"{seed} activators")
        faults.extend(_random_faults(rng, ACTIVATORS, ACTIVATORS, MOST_AT_ACTIVATORS))
        faults.extend(function_faults(seed))
    return tuple(sorted(faults, key=lambda each: each.at))


def _random_faults(
    rng: Random, electors: tuple[str, ...], processes: tuple[str, ...], most: int
) -> Iterator[PlannedFault]:
    for _ in range(rng.randint(1, most)):
        yield _fault(rng, electors, processes)


def _fault(rng: Random, electors: tuple[str, ...], processes: tuple[str, ...]) -> PlannedFault:
    kind = rng.choices(COMMON, WEIGHTS)[0]
    lease_only = kind is FaultKind.LEASE_OUTAGE
    least, most = SECONDS.get(kind, (0.0, 0.0))
    target, skip = None, 0
    if kind in REQUEST_KINDS:
        target = rng.choice(WRITES if kind in WRITE_KINDS or rng.random() < 0.7 else READS)
        target = Target.NEXT_PAGE if kind is FaultKind.PAGE_EXPIRED else target
        skip = rng.choice((0, 0, 1, 2, 3, 5))
    return PlannedFault(
        at=rng.uniform(FIRST_SECOND, LAST_SECOND),
        process=rng.choice(electors if lease_only else processes),
        kind=kind,
        target=target,
        skip=skip,
        seconds=rng.uniform(least, most),
    )
