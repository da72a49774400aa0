"""Plants mutations, one in a process at a time, and asks seed after seed whether it is found.

`python -m tests.simulate.planting` tries all of them: first a few seeds each, then more of those
that are left, in two processes, until all are found or the time is up.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final

import attrs

from tests.simulate.mutation import Mutation
from tests.simulate.mutations import MUTATIONS

PROCESSES: Final = 2
# Most are found by one of the first few.
ROUNDS: Final = (range(4), range(4, 20), range(20, 50), range(50, 100))
MINUTES: Final = 30.0
NOT_FOUND: Final = 10
# Of the processor, for one seed: a run takes a few.
MOST_SECONDS: Final = 60.0


@attrs.frozen
class Tried:
    """`words` say by which seed a mutation was found, and by which complaint."""

    mutation: Mutation
    is_found: bool
    words: str


def source_of(mutation: Mutation) -> Path:
    """In the checkout that this is a part of."""
    root = Path(__file__).parents[2]
    return root.joinpath(*mutation.module.split(".")).with_suffix(".py")


def planted(mutation: Mutation, source: str) -> str:
    """Raises ValueError where the source is no longer what the mutation was made for."""
    count = source.count(mutation.old)
    if count != 1:
        raise ValueError(f"{mutation.name}: its text stands {count} times in {mutation.module}")
    return source.replace(mutation.old, mutation.new)


class _Planter(MetaPathFinder):
    def __init__(self, mutation: Mutation) -> None:
        self._mutation = mutation

    def find_spec(
        self, name: str, path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        found = PathFinder.find_spec(name, path) if name == self._mutation.module else None
        if found is not None and found.origin:
            found.loader = _PlantedLoader(name, found.origin, self._mutation)
        return found


class _PlantedLoader(SourceFileLoader):
    def __init__(self, name: str, path: str, mutation: Mutation) -> None:
        super().__init__(name, path)
        self._mutation = mutation

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002  # its path says it
        source = Path(self.path).read_text(encoding="utf-8")
        code: CodeType = compile(planted(self._mutation, source), self.path, "exec")
        return code


def seek(mutation: Mutation, seeds: range) -> int:
    """The process's exit code; what is planted stays planted."""
    sys.meta_path.insert(0, _Planter(mutation))
    if mutation.test:
        return _fail(mutation.test)
    from tests.simulate.check import check  # noqa: PLC0415  # only now the mutation is planted
    from tests.simulate.plan import plan_of  # noqa: PLC0415

    for seed in seeds:
        _demand_an_end(seed)
        verdict = check(seed, plan_of(seed))
        if not verdict.is_sound:
            _say(f"seed {seed}: {verdict.faults[0].splitlines()[0]}")
            return 0
    return NOT_FOUND


def _fail(test: str) -> int:
    import pytest  # noqa: PLC0415  # only now the mutation is planted

    code = pytest.main(["-q", "-p", "no:cacheprovider", "--tb=no", test])
    _say(f"{test} ended with {code!r}")
    return 0 if code == pytest.ExitCode.TESTS_FAILED else NOT_FOUND


def _demand_an_end(seed: int) -> None:
    """Virtual time stands still where something is tried again and again without a pause."""

    def give_up(*_: object) -> None:
        _say(f"seed {seed}: does not come to its end")
        os._exit(0)

    signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)


def campaign(mutations: Sequence[Mutation], minutes: float) -> list[Mutation]:
    """Those that were not found."""
    ends_at = time.monotonic() + 60.0 * minutes
    left = list(mutations)
    with ThreadPoolExecutor(PROCESSES) as pool:
        for seeds in ROUNDS:
            tried = pool.map(partial(_try, seeds=seeds, ends_at=ends_at), left)
            left = [each.mutation for each in _told(tried) if not each.is_found]
    return left


def _told(tried: Iterator[Tried]) -> Iterator[Tried]:
    for each in tried:
        if each.words:
            _say(f"{each.mutation.name}: {each.words}")
        yield each


def _try(mutation: Mutation, *, seeds: range, ends_at: float) -> Tried:
    """In a process of its own, where sets of texts are walked in the order of every other run."""
    number = str(MUTATIONS.index(mutation))
    arguments = ["--plant", number, "--seeds", f"{seeds.start}-{seeds.stop - 1}"]
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "tests.simulate.planting", *arguments],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": "0"},
            timeout=max(0.0, ends_at - time.monotonic()),
        )
    except subprocess.TimeoutExpired:
        return Tried(mutation, is_found=False, words="")
    if ended.returncode not in (0, NOT_FOUND):
        return Tried(mutation, is_found=False, words=ended.stderr)
    lines = ended.stdout.splitlines()
    return Tried(mutation, is_found=not ended.returncode, words=lines[-1] if lines else "")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulate.planting")
    parser.add_argument("--only", default="", help="those whose name has this in it")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="until it gives up")
    parser.add_argument("--plant", type=int, help="one, by its number, in this very process")
    parser.add_argument("--seeds", default="0-99", help="for the planted one, such as 0-99")
    given = parser.parse_args(arguments)
    if given.plant is not None:
        first, _, last = given.seeds.partition("-")
        return seek(MUTATIONS[given.plant], range(int(first), int(last) + 1))
    chosen = [each for each in MUTATIONS if given.only in each.name]
    left = campaign(chosen, given.minutes)
    for mutation in left:
        _say(f"{mutation.name}: NOT FOUND")
    _say(f"{len(chosen) - len(left)} of {len(chosen)} mutations found")
    return 1 if left else 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
