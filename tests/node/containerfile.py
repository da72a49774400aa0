"""What `Containerfile` says goes into the product's image, so that nobody says it twice."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import attrs

from tests.node.images import SEARCH_PATH

_REQUIREMENT = re.compile(r"pip install .*?'\.(?P<extras>\[[^']*\])?'")


class ContainerfileError(Exception):
    pass


@attrs.frozen(kw_only=True)
class Recipe:
    """The first stage installs the sources under the prefix, the second one runs them."""

    sources: tuple[str, ...]
    extras: str
    prefix: Path
    environment: dict[str, str]
    user: str
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]


def read(path: Path) -> Recipe:
    build, final = _stages(path)
    [copied] = [words for name, words in final if name == "COPY"]
    installs = [_REQUIREMENT.search(words) for name, words in build if name == "RUN"]
    [install] = [found for found in installs if found]
    return Recipe(
        sources=tuple(
            source for name, words in build if name == "COPY" for source in shlex.split(words)[:-1]
        ),
        extras=install["extras"] or "",
        prefix=Path(shlex.split(copied)[-1]),
        environment=_environment(_only(final, "ENV")),
        user=_only(final, "USER"),
        entrypoint=tuple(json.loads(_only(final, "ENTRYPOINT"))),
        command=tuple(json.loads(_only(final, "CMD"))),
    )


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
        raise ContainerfileError(f"the last stage has {len(found)} times {wanted}, not once")
    return found[0]


def _environment(words: str) -> dict[str, str]:
    pairs = (word.partition("=") for word in shlex.split(words))
    return {name: value.replace("$PATH", SEARCH_PATH) for name, _, value in pairs}
