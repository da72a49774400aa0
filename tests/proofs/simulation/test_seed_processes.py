"""A seed that fails or ends its process is reported by its number, and all others are judged."""

import os

import pytest

from tests.proofs.simulation.checks.verdict import Verdict
from tests.proofs.simulation.faults.kinds import PlannedFault
from tests.proofs.simulation.seed_processes import NO_END, verdicts

SERIES = [[(seed, ()) for seed in (first, first + 2, first + 4)] for first in (0, 1)]
BAD = 2


def raising(seed: int, _: tuple[PlannedFault, ...]) -> Verdict:
    if seed == BAD:
        raise KeyError("owner")
    return Verdict(seed, "digest", ())


def spinning(seed: int, _: tuple[PlannedFault, ...]) -> Verdict:
    while seed == BAD:
        pass
    return Verdict(seed, "digest", ())


def dying(seed: int, _: tuple[PlannedFault, ...]) -> Verdict:
    if seed == BAD:
        os._exit(7)
    return Verdict(seed, "digest", ())


@pytest.mark.parametrize(
    ("judge", "words"),
    [(raising, "KeyError: 'owner'"), (spinning, NO_END), (dying, "ended its process with 7")],
)
def test_a_bad_seed_is_reported_by_its_number_and_no_other_is_lost(
    judge: object, words: str
) -> None:
    found = {each.seed: each for each in verdicts(SERIES, judge=judge, most_seconds=0.2)}  # type: ignore[arg-type]  # three of one shape
    assert sorted(found) == list(range(6))
    assert [seed for seed, each in found.items() if not each.is_sound] == [BAD]
    assert words in found[BAD].faults[0]
