"""Run seeds in parallel; shrink the faults of a failing run, and print how to replay it."""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from math import inf

import attrs

from tests.proofs.simulation.checks.coverage import WriteCoverage
from tests.proofs.simulation.checks.verdict import Verdict
from tests.proofs.simulation.faults.kinds import PlannedFault
from tests.proofs.simulation.faults.plan import plan_of
from tests.proofs.simulation.run import simulate
from tests.proofs.simulation.seed_processes import NO_END, Case, verdicts
from tests.proofs.simulation.shrink import shrunk
from tests.proofs.simulation.stories.script import SCRIPTS


@attrs.frozen
class Options:
    seeds: range
    faults: frozenset[int] | None
    is_verbose: bool
    shrinks: bool
    within_seconds: float
    covered: int

    def plan(self, seed: int) -> tuple[PlannedFault, ...]:
        """Return the seed's plan, with only the chosen faults."""
        plan, options = plan_of(seed), self.faults
        return plan if options is None else tuple(plan[number] for number in sorted(options))


def main(arguments: Sequence[str]) -> int:
    options = _parsed(arguments)
    if options.is_verbose:
        for seed in options.seeds:
            simulate(seed, options.plan(seed), _print_line)
    started = time.monotonic()
    failed, coverage = 0, WriteCoverage()
    for verdict in verdicts(_by_script(options)):
        coverage.add(verdict.coverage)
        if not verdict.is_sound:
            failed += 1
            _report(verdict, options)
    seconds = time.monotonic() - started
    _print_line(f"{len(options.seeds)} seeds in {seconds:.0f} s, {failed} failed")
    if seconds > options.within_seconds:
        _print_line(f"the limit is {options.within_seconds:.0f} s")
    missed = coverage.missed(options.covered) if options.covered else []
    for line in missed:
        _print_line(line)
    return 1 if failed or missed or seconds > options.within_seconds else 0


def _parsed(arguments: Sequence[str]) -> Options:
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.simulation", description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", type=int, help="run one seed")
    which.add_argument("--seeds", help="run a range of seeds, such as 0-199")
    parser.add_argument("--faults", help="only these faults of the seed, by number: 3,7")
    parser.add_argument("--verbose", action="store_true", help="print every event")
    parser.add_argument(
        "--within",
        type=float,
        default=inf,
        help="fail if all seeds take longer than this many seconds",
    )
    parser.add_argument(
        "--covered",
        type=int,
        default=0,
        metavar="TIMES",
        help="fail if a write occurred this often without a crash before, during or after it",
    )
    parser.add_argument("--no-shrink", action="store_true", help="do not shrink failing plans")
    given = parser.parse_args(arguments)
    if given.faults is not None and given.seed is None:
        parser.error("--faults needs --seed")
    if given.seeds is None:
        seeds = range(given.seed, given.seed + 1)
    else:
        first, _, last = given.seeds.partition("-")
        seeds = range(int(first), int(last) + 1)
    faults = None
    if given.faults is not None:
        faults = frozenset(map(int, filter(None, given.faults.split(","))))
    return Options(seeds, faults, given.verbose, not given.no_shrink, given.within, given.covered)


def _by_script(options: Options) -> list[list[Case]]:
    """Return the cases by script: those compared with one undisturbed run share a process."""
    seeds = options.seeds
    series = [range(each, seeds.stop, SCRIPTS) for each in seeds[:SCRIPTS]]
    return [[(seed, options.plan(seed)) for seed in each] for each in series]


def _report(verdict: Verdict, options: Options) -> None:
    seed, plan = verdict.seed, options.plan(verdict.seed)
    _print_line(f"seed {seed} fails:")
    for fault in verdict.faults:
        _print_line(f"  {fault}")
    if options.shrinks and NO_END not in verdict.faults:

        def fails(some: Sequence[PlannedFault]) -> bool:
            return not next(verdicts([[(seed, tuple(some))]])).is_sound

        plan = tuple(shrunk(plan, fails))
        _print_line(
            "it still fails with only these faults:" if plan else "it fails without any fault"
        )
        for planned in plan:
            _print_line(f"  {planned}")
    numbers = ",".join(str(plan_of(seed).index(planned)) for planned in plan)
    _print_line(
        f"replay: python -m tests.proofs.simulation --seed {seed} --faults={numbers} --verbose"
    )


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The iteration order of sets of strings depends on their hashes; a run must not.
        again = [sys.executable, "-m", "tests.proofs.simulation", *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, "PYTHONHASHSEED": "0"})
    sys.exit(main(sys.argv[1:]))
