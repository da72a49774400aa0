"""The page of alerts: the columns, routes, objects, log lines and settings that it names exist."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import pytest

from gpuruntime.commands.tables import COLUMNS
from gpuruntime.models.definitions.crds import KINDS
from gpuruntime.models.views.pools import PoolView
from gpuruntime.models.views.serverless import DeadLetterView, FunctionView
from gpuruntime.models.views.units import UnitView
from gpuruntime.settings.schema import Address, Settings
from tests.proofs.docs.command_lines import PROGRAM
from tests.proofs.docs.pages import ROOT, Page, page_of
from tests.rooms.api.openapi.test_document import ROUTES

PAGE = page_of("docs/alerts.md")
SHOWN = {
    "units list": UnitView,
    "pools list": PoolView,
    "functions list": FunctionView,
    "dead-letters list": DeadLetterView,
}
COLUMN = re.compile(r"[Cc]olumns? `([^`]+)`(?: and `([^`]+)`)? of `([^`]+)`")
ROUTE = re.compile(r"(GET|PUT|POST|DELETE) (/\S+)")
# The reader's own names, and the words of Kubernetes, which no file of ours contains.
FOREIGN = {"POD", "ROLE", "OOMKilled"}
# What `kubectl` does on this page, and the types of Kubernetes beside ours.
VERBS = {"get", "describe", "logs", "rollout"}
TYPES = {"pod", "pods", "leases", "undo"}


def source() -> str:
    paths: list[Path] = [*(ROOT / "gpuruntime").rglob("*.py"), *(ROOT / "manifests").rglob("*.*")]
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)


SOURCE = source()
WORDS = frozenset(re.findall(r"[\w.-]+", SOURCE))


def columns_of(command: str) -> set[str]:
    """Return the columns that a command of this program, or `kubectl get`, prints."""
    if command.startswith(PROGRAM):
        return set(COLUMNS[SHOWN[" ".join(command.split()[1:3])]])
    kind = next(each for each in KINDS if each.short_name == command.rsplit(maxsplit=1)[-1])
    return {column.name for column in kind.columns if not column.is_wide}


def missing_columns(page: Page) -> list[str]:
    return [
        f"{command} has no {column}"
        for *columns, command in COLUMN.findall(page.prose)
        for column in columns
        if column and column not in columns_of(command)
    ]


def missing_things(page: Page) -> list[str]:
    """Return the names that belong to nothing of this version."""
    of_columns = {name for found in COLUMN.findall(page.prose) for name in found[:2]}
    known = {*FOREIGN, *of_columns, *settings(Settings())}
    spans = (span for span in page.spans if span not in known)
    return [span for span in spans if not _exists(span)]


def settings(section: Any, path: str = "") -> Iterator[str]:
    for field in attrs.fields(type(section)):
        value = getattr(section, field.name)
        if attrs.has(type(value)) and not isinstance(value, Address):
            yield from settings(value, f"{path}{field.name}.")
        else:
            yield path + field.name


def _exists(span: str) -> bool:
    if route := ROUTE.fullmatch(span):
        methods = {_shape(path): methods for path, methods in ROUTES.items()}
        return route[1].lower() in methods.get(_shape(route[2]), set())
    if span.startswith("kubectl "):
        return _is_of_kubectl(span.split()[1:])
    if span.startswith((PROGRAM, "sum by")):
        return True  # other tests hold commands and metrics
    if "/" in span and (ROOT / span).exists():
        return True
    if re.fullmatch(r"[a-z][A-Za-z]*(?:\.[A-Za-z]+)+: \w+", span):
        return span.partition(":")[0] in settings(Settings())
    if " " in span:
        return f'"{span}"' in SOURCE or span in SOURCE
    return span in WORDS or span.rstrip("…") in SOURCE


def _is_of_kubectl(words: list[str]) -> bool:
    """Return whether verb, types, labels and raw paths of the line exist."""
    options = {"-n", "-l", "--raw"}
    namespaces = set(attrs.astuple(Settings().namespaces))
    given = {one: other for one, other in pairwise(words) if one in options}
    plain = [each for each in words if not each.startswith("-") and each not in given.values()]
    kinds = {kind.short_name for kind in KINDS} | TYPES
    named = [each for each in plain[1:] if not each.isupper()]
    return (
        plain[0] in VERBS
        and namespaces.issuperset({given["-n"]} if "-n" in given else ())
        and all(part in kinds for each in named for part in each.split(","))
        and given.get("-l", "").replace("=", ": ") in SOURCE
    )


def _shape(path: str) -> str:
    return re.sub(r"\{\w+\}", "{}", path)


def test_the_columns_that_the_page_sends_an_operator_to_exist() -> None:
    assert len(COLUMN.findall(PAGE.prose)) >= 5
    assert missing_columns(PAGE) == []


def test_what_the_page_names_exists() -> None:
    assert len(PAGE.spans) > 100
    assert missing_things(PAGE) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param("column `WHY` of `gpuruntime pools list`", "WHY", id="column of ours"),
        pytest.param("columns `Phase` and `Message` of `kubectl get gu`", "Message", id="kubectl"),
        pytest.param("column `Node` of `kubectl get gu`", "Node", id="a wide column"),
    ],
)
def test_a_missing_column_is_found(text: str, fault: str) -> None:
    assert [each.rpartition(" ")[2] for each in missing_columns(Page("planted", text))] == [fault]


@pytest.mark.parametrize(
    "span",
    [
        "PATCH /api/v1/gpu-units",
        "DELETE /api/v1/gpu-storages/{name}/recover",
        "kubectl -n runtime-instance get gx",
        "kubectl -n elsewhere get gs",
        "kubectl -n runtime-system get pods -l app.kubernetes.io/name=gpuruntime-apis",
        "leaderElection.deadline: 3s",
        "the log line of another program",
        "worker_fails",
    ],
)
def test_what_does_not_exist_is_found(span: str) -> None:
    assert missing_things(Page("planted", f"Look at `{span}`.")) == [span]
