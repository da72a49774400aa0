"""Plants one mutation in this process, and asks seed after seed whether it is found.

A process of its own for each: `python -m tests.simulate.planting` runs them all.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final

from tests.simulate.mutations import MUTATIONS, Mutation

MOST_SEEDS: Final = 100
NOT_FOUND: Final = 1


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


def seek(mutation: Mutation) -> int:
    """The number of seeds that it took; 0: none of them found it."""
    sys.meta_path.insert(0, _Planter(mutation))
    from tests.simulate.check import check  # noqa: PLC0415  # only now the mutation is planted
    from tests.simulate.plan import plan_of  # noqa: PLC0415

    for seed in range(MOST_SEEDS):
        verdict = check(seed, plan_of(seed))
        if not verdict.is_sound:
            _say(f"{mutation.name}: found by seed {seed}: {verdict.faults[0].splitlines()[0]}")
            return seed + 1
    _say(f"{mutation.name}: NOT FOUND by {MOST_SEEDS} seeds")
    return 0


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulate.planting")
    parser.add_argument("--only", type=int, help="one of them, by its number from 0")
    given = parser.parse_args(arguments)
    if given.only is not None:
        return 0 if seek(MUTATIONS[given.only]) else NOT_FOUND
    codes = [
        subprocess.run(
            [sys.executable, "-m", "tests.simulate.planting", "--only", str(number)], check=False
        ).returncode
        for number in range(len(MUTATIONS))
    ]
    _say(f"{codes.count(0)} of {len(codes)} mutations found")
    return max(codes)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
