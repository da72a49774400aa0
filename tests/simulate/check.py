"""Whether a run kept every promise: on its way, at rest, and beside the undisturbed run."""

import attrs

from tests.simulate.comparison import differences
from tests.simulate.plan import Planned
from tests.simulate.run import simulate


@attrs.frozen(slots=True)
class Verdict:
    seed: int
    digest: str
    faults: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        return not self.faults


def check(seed: int, plan: tuple[Planned, ...]) -> Verdict:
    outcome = simulate(seed, plan)
    faults = outcome.breaches
    if not faults:
        faults = tuple(differences(outcome, simulate(seed, ())))
    return Verdict(seed, outcome.digest, faults)
