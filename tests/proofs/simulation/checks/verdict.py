"""The verdict on a run: it keeps every promise and ends like the undisturbed run."""

from functools import lru_cache

import attrs

from tests.proofs.simulation.checks.comparison import differences
from tests.proofs.simulation.checks.coverage import WriteCoverage
from tests.proofs.simulation.faults.kinds import PlannedFault
from tests.proofs.simulation.run import Outcome, simulate
from tests.proofs.simulation.stories.script import SCRIPTS


@attrs.frozen(slots=True)
class Verdict:
    seed: int
    digest: str
    faults: tuple[str, ...]
    coverage: WriteCoverage = attrs.field(factory=WriteCoverage)

    @property
    def is_sound(self) -> bool:
        return not self.faults


def check(seed: int, plan: tuple[PlannedFault, ...]) -> Verdict:
    outcome = simulate(seed, plan)
    faults = outcome.breaches
    if not faults:
        reference = _undisturbed(seed % SCRIPTS)
        faults = reference.breaches or tuple(differences(outcome, reference))
    return Verdict(seed, outcome.digest, faults, outcome.coverage)


@lru_cache
def _undisturbed(script: int) -> Outcome:
    """Return the undisturbed run, which is the same for all seeds of the script."""
    return simulate(script, ())
