"""Runs of one story each, in which a manager dies at one of its writes, and how they differ."""

from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from tests.proofs.crash.comparison import Counts, State, difference
from tests.proofs.crash.world import RestartedRole, World

MOMENTS: Final = ("before", "after", "late")
# The number of writes depends on timing, so that the last ones may be missing.
MOST_ALIVE: Final = 2


@attrs.frozen
class Run:
    world: World
    manager: RestartedRole
    end: State
    breaches: list[str]


@attrs.frozen
class Runs:
    """The undisturbed run, and the others by the crash they met."""

    undisturbed: Run
    crashed: Mapping[str, Run]
    counts: Mapping[str, Counts]

    @property
    def alive(self) -> list[str]:
        """The runs in which no manager died."""
        return [name for name, run in self.crashed.items() if not run.manager.kills]

    @property
    def other_ends(self) -> dict[str, str]:
        """The differences of each run that ended otherwise than the undisturbed one."""
        expected = self.undisturbed.end
        return {
            name: difference(expected, run.end)
            for name, run in self.crashed.items()
            if run.end != expected
        }

    @property
    def other_counts(self) -> dict[str, tuple[Counts, Counts]]:
        """The writes that each run lacks beside the undisturbed one, and those it has more."""
        expected = self.counts[self.undisturbed.world.name]
        return {
            name: (expected - found, found - expected)
            for name, run in self.crashed.items()
            if (found := self.counts[run.world.name]) != expected
        }

    @property
    def breaches(self) -> dict[str, list[str]]:
        runs = {"undisturbed": self.undisturbed, **self.crashed}
        return {name: run.breaches for name, run in runs.items() if run.breaches}


def crashes(writes: int) -> Iterator[tuple[int, str]]:
    """Yield a crash at each write. After one write is as good as before the next."""
    for number in range(1, writes + 1):
        yield number, MOMENTS[number % len(MOMENTS)]


def ended(world: World, manager: RestartedRole, end: State) -> Run:
    """Audit the world and close it."""
    breaches = world.breaches()
    world.close()
    return Run(world, manager, end, breaches)
