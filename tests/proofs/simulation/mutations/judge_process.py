"""A process of the campaign: it plants one mutation or none, and judges seeds or a test.

It prints a line for each seed or test, and ends after the first that is not sound.
"""

import argparse
import os
import signal
import sys
from collections.abc import Iterator, Sequence

from tests.proofs.simulation.mutations.catalogue import MUTATIONS
from tests.proofs.simulation.mutations.mutation import plant
from tests.proofs.simulation.mutations.results import MOST_SECONDS, End, Judged


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.proofs.simulation.mutations.judge_process"
    )
    parser.add_argument("--plant", default="", help="the mutation's name")
    parser.add_argument("--test", default="", help="a test to run instead of seeds")
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    given = parser.parse_args(arguments)
    for mutation in MUTATIONS:
        if mutation.name == given.plant:
            plant(mutation)
    if given.test:
        _print_line(_of_test(given.test))
        return 0
    for judged in _of_seeds(range(given.first, given.last + 1)):
        _print_line(judged)
        if judged.end is not End.SOUND:
            break
    return 0


def _of_seeds(seeds: range) -> Iterator[Judged]:
    from tests.proofs.simulation.checks.verdict import check  # noqa: PLC0415  # only now the mutation is planted
    from tests.proofs.simulation.faults.plan import plan_of  # noqa: PLC0415

    for seed in seeds:
        _demand_an_end(seed)
        faults = check(seed, plan_of(seed)).faults
        if faults:
            yield Judged(end=End.FAILED, seed=seed, complaint=faults[0].splitlines()[0])
        else:
            yield Judged(end=End.SOUND, seed=seed)


def _of_test(test: str) -> Judged:
    """Run the test; raise RuntimeError if it neither passes nor fails."""
    import pytest  # noqa: PLC0415  # only now the mutation is planted

    # No such test needs these plugins, and loading them takes longer than most of the tests.
    without = [f"-pno:{plugin}" for plugin in ("cacheprovider", "schemathesis", "xdist")]
    code = pytest.main(["-q", "-x", "--tb=line", *without, test])
    match code:
        case pytest.ExitCode.OK:
            return Judged(end=End.SOUND)
        case pytest.ExitCode.TESTS_FAILED:
            return Judged(end=End.FAILED)
        case _:
            raise RuntimeError(f"{test} ended with {code!r}")


def _demand_an_end(seed: int) -> None:
    """Limit the processor time of a seed: virtual time stands still in a loop without a pause."""

    def give_up(*_: object) -> None:
        _print_line(Judged(end=End.SPUN, seed=seed))
        os._exit(0)

    signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)


def _print_line(judged: Judged) -> None:
    sys.stdout.write(f"{judged.line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
