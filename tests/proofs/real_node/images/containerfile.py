"""A reader of `Containerfile`, the only description of the product's image.

Unknown instructions are refused, because the packing would silently leave them out.
"""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import attrs

from tests.proofs.real_node.images.oci_archive import SEARCH_PATH

# The machine's own Python replaces this base image.
_BASE = re.compile(r"docker\.io/library/python:3\.\d+-slim")
_INSTALL = re.compile(
    r"python -m venv (?P<prefix>\S+) && (?P=prefix)/bin/pip install --no-cache-dir --no-compile"
    r" '\.(?P<extras>\[[^']*\])?'"
)
_COMPILE = re.compile(
    r"python -m compileall -q --invalidation-mode unchecked-hash (?P<prefix>\S+)"
)
_BUILD = frozenset({"FROM", "WORKDIR", "COPY", "RUN"})
_FINAL = frozenset({"FROM", "COPY", "ENV", "USER", "ENTRYPOINT", "CMD"})


class ContainerfileError(Exception):
    pass


@attrs.frozen(kw_only=True)
class Recipe:
    """The contents of the file: a stage that installs under the prefix, and one that runs it."""

    sources: tuple[str, ...]
    extras: str
    prefix: Path
    environment: dict[str, str]
    user: str
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]


def read(path: Path) -> Recipe:
    build, final = _stages(path)
    for stage, known in ((build, _BUILD), (final, _FINAL)):
        for name, words in stage:
            if name not in known:
                raise ContainerfileError(f"not understood: {name} {words}")
    base = _only(final, "FROM")
    if not _BASE.fullmatch(base) or _only(build, "FROM") != f"{base} AS build":
        raise ContainerfileError(f"not understood: {_only(build, 'FROM')}, and then {base}")
    install, compiled = _runs(build)
    prefix = install["prefix"]
    if compiled["prefix"] != prefix or _only(final, "COPY") != f"--from=build {prefix} {prefix}":
        raise ContainerfileError(
            f"what is installed under {prefix} is not what is compiled and copied"
        )
    return Recipe(
        sources=tuple(
            source for name, words in build if name == "COPY" for source in _sources(words)
        ),
        extras=install["extras"] or "",
        prefix=Path(prefix),
        environment=_environment(_only(final, "ENV")),
        user=_only(final, "USER"),
        entrypoint=tuple(json.loads(_only(final, "ENTRYPOINT"))),
        command=tuple(json.loads(_only(final, "CMD"))),
    )


def _runs(build: list[tuple[str, str]]) -> tuple[re.Match[str], re.Match[str]]:
    """Return the matches of the installation and of the compilation."""
    commands = [words for name, words in build if name == "RUN"]
    if len(commands) == 2:
        install, compiled = _INSTALL.fullmatch(commands[0]), _COMPILE.fullmatch(commands[1])
        if install and compiled:
            return install, compiled
    raise ContainerfileError(f"not understood: {', '.join(f'RUN {one}' for one in commands)}")


def _sources(words: str) -> list[str]:
    """Return the sources of a COPY that keeps their names."""
    *sources, target = shlex.split(words)
    if target not in ("./", *sources[:1]) or any(one.startswith("-") for one in sources):
        raise ContainerfileError(f"not understood: COPY {words}")
    return sources


def _stages(path: Path) -> list[list[tuple[str, str]]]:
    stages: list[list[tuple[str, str]]] = []
    for name, words in _instructions(path):
        if name == "FROM":
            stages.append([])
        stages[-1].append((name, words))
    if len(stages) != 2:
        raise ContainerfileError(f"{path.name} has {len(stages)} stages, not two")
    return stages


def _instructions(path: Path) -> Iterator[tuple[str, str]]:
    for line in path.read_text().replace("\\\n", " ").splitlines():
        if line.strip() and not line.startswith("#"):
            name, _, words = line.partition(" ")
            yield name, words.strip()


def _only(stage: list[tuple[str, str]], wanted: str) -> str:
    found = [words for name, words in stage if name == wanted]
    if len(found) != 1:
        raise ContainerfileError(f"a stage has {len(found)} times {wanted}, not once")
    return found[0]


def _environment(words: str) -> dict[str, str]:
    pairs = (word.partition("=") for word in shlex.split(words))
    found = {name: value.replace("$PATH", SEARCH_PATH) for name, _, value in pairs}
    if any("$" in value for value in found.values()):
        raise ContainerfileError(f"not understood: ENV {words}")
    return found
