"""What will go wrong in a run: an explicit list, made from the seed before the run begins."""

from collections.abc import Iterator, Mapping
from random import Random
from typing import Final

from tests.proofs.simulation.faults.aimed import aimed_faults
from tests.proofs.simulation.faults.aimed_crashes import aimed_crashes
from tests.proofs.simulation.faults.functions import function_faults
from tests.proofs.simulation.faults.kinds import (
    ACTIVATORS,
    FIRST_SECOND,
    LAST_SECOND,
    MANAGERS,
    PROCESSES,
    REQUEST_KINDS,
    Kind,
    Planned,
    Target,
)
from tests.proofs.simulation.stories.script import script_of

MOST_FAULTS: Final = 40
MOST_AT_ACTIVATORS: Final = 12
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
# One that takes another to be felt comes only where it is aimed.
COMMON: Final = tuple(kind for kind in Kind if kind is not Kind.LISTS_OF_THE_PAST)
WRITE_KINDS: Final = {
    Kind.CONFLICT,
    Kind.ANSWER_LOST,
    Kind.ANSWER_500,
    Kind.LANDS_LATE,
    Kind.CRASH_BEFORE,
    Kind.CRASH_SENT,
    Kind.CRASH_AFTER,
}
# Requests fail far more often than processes.
WEIGHTS: Final = [4 if kind in REQUEST_KINDS else 1 for kind in COMMON]
WRITES: Final = (Target.WRITE, Target.WRITE, Target.CREATE, Target.PATCH, Target.DELETE)
READS: Final = (Target.READ, Target.READ, Target.LIST)


def plan_of(seed: int) -> tuple[Planned, ...]:
    script = script_of(seed)
    faults = [*_by_chance(Random(f"{seed} faults"), MANAGERS, PROCESSES, MOST_FAULTS)]
    faults.extend(aimed_faults(seed, script))
    faults.extend(aimed_crashes(seed, has_function=bool(script.functions)))
    if script.functions:
        rng = Random(f"{seed} activators")
        faults.extend(_by_chance(rng, ACTIVATORS, ACTIVATORS, MOST_AT_ACTIVATORS))
        faults.extend(function_faults(seed))
    return tuple(sorted(faults, key=lambda each: each.at))


def _by_chance(
    rng: Random, electors: tuple[str, ...], processes: tuple[str, ...], most: int
) -> Iterator[Planned]:
    for _ in range(rng.randint(1, most)):
        yield _fault(rng, electors, processes)


def _fault(rng: Random, electors: tuple[str, ...], processes: tuple[str, ...]) -> Planned:
    kind = rng.choices(COMMON, WEIGHTS)[0]
    lease_only = kind is Kind.LEASE_OUTAGE
    least, most = SECONDS.get(kind, (0.0, 0.0))
    target, skip = None, 0
    if kind in REQUEST_KINDS:
        target = rng.choice(WRITES if kind in WRITE_KINDS or rng.random() < 0.7 else READS)
        target = Target.NEXT_PAGE if kind is Kind.PAGE_EXPIRED else target
        skip = rng.choice((0, 0, 1, 2, 3, 5))
    return Planned(
        at=rng.uniform(FIRST_SECOND, LAST_SECOND),
        process=rng.choice(electors if lease_only else processes),
        kind=kind,
        target=target,
        skip=skip,
        seconds=rng.uniform(least, most),
    )
