"""Mutations, and how one is planted into its module when the module is imported."""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

import attrs


@attrs.frozen(slots=True)
class Mutation:
    """A replacement of `old`, which occurs exactly once in the module's source, by `new`.

    `test` names a test that has to fail if no story of the simulation reaches the defect.
    """

    name: str
    module: str
    old: str
    new: str
    test: str = ""

    @property
    def room(self) -> str:
        return self.module.split(".")[1]


def source_of(mutation: Mutation) -> Path:
    """Return the path of the module's source in this checkout."""
    root = Path(__file__).parents[4]
    return root.joinpath(*mutation.module.split(".")).with_suffix(".py")


def planted(mutation: Mutation, source: str) -> str:
    """Return the source with the mutation, or raise ValueError if `old` does not occur once."""
    count = source.count(mutation.old)
    if count != 1:
        raise ValueError(f"{mutation.name}: its text occurs {count} times in {mutation.module}")
    return source.replace(mutation.old, mutation.new)


def plant(mutation: Mutation) -> None:
    """Plant the mutation for the rest of this process; its module must not be imported yet."""
    sys.meta_path.insert(0, _Planter(mutation))


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
