"""The columns and the reads that pages name, tried on a real `gpuruntime dev`."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import attrs
import pytest

from gpuruntime.models.definitions.crds import KINDS
from tests.eventually import equals, eventually, eventually_blocking
from tests.proofs.docs.command_lines import PROGRAM
from tests.proofs.docs.facts import Columns, Kind, columns_of, facts_of, header_of
from tests.proofs.docs.pages import Page, every_page
from tests.proofs.real_cluster.product import Process
from tests.rooms.commands.running import Output, run_command
from tests.rooms.roles.dev.test_dev import server_in
from tests.rooms.roles.programs import printed, programs

# Commands that only read; the sessions of docs/command-line.md run the others.
READING = {"list", "flavours", "inventory"}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
COLUMNS = [
    each
    for page in every_page()
    for each in columns_of(page)
    if not each.is_header or READING & {*each.command.split()}
]
# A read that a page suggests, without names that a reader has to fill in.
READ = re.compile(r"(?:GET |curl …)(?:/api/v1)?(/[a-z/-]+)(?:\?\w+=\w+)?")
# Pages whose routes are of other programs, or are gone.
ELSEWHERE = {"docs/console.md", "docs/from-the-original.md"}
OF_A_PAGE = (
    "columns `NAME` and `WHY` of `gpuruntime pools list`, column `Node` of `kubectl get gu`"
)
OF_A_SESSION = "```console\n$ gpuruntime pools list\nNAME   SPEC\n```"


@attrs.frozen
class Answers:
    """The headers that a dev prints; kubectl gets its columns from the server's table."""

    address: str
    server: str

    async def headers(self, command: str) -> list[tuple[str, ...]]:
        program, _, words = command.partition(" ")
        if program != PROGRAM:
            return [self._columns_of_kubectl(command.rsplit(maxsplit=1)[-1])]
        output = await eventually(lambda: self._run(words), lambda output: output.code == 0)
        return [names for line in output.out.splitlines() if (names := header_of(line))]

    async def lacks(self, columns: Columns) -> list[str]:
        found = await self.headers(columns.command)
        if columns.is_header:
            return [] if columns.names in found else [" ".join(columns.names)]
        return [each for each in columns.names if not any(each in names for names in found)]

    def status_of(self, path: str) -> int:
        try:
            with urlopen(f"{self.address}/api/v1{path}") as answer:
                return int(answer.status)
        except HTTPError as error:
            return error.code

    async def _run(self, words: str) -> Output:
        return await run_command(words, self.address)

    def _columns_of_kubectl(self, short_name: str) -> tuple[str, ...]:
        kind = next(each for each in KINDS if each.short_name == short_name)
        request = Request(f"{self.server}{kind.resource.path()}", headers={"Accept": TABLE})
        with urlopen(request) as answer:
            columns = json.load(answer)["columnDefinitions"]
        return tuple(each["name"] for each in columns if not each["priority"])


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answers]:
    with programs(tmp_path_factory.mktemp("dev")) as program:
        dev: Process = program.dev()
        yield Answers(address=dev.address, server=server_in(Path(printed(dev, "kubeconfig"))))


async def test_the_columns_that_pages_name_are_printed(answers: Answers) -> None:
    assert sum(not each.is_header for each in COLUMNS) >= 5
    assert sum(each.is_header for each in COLUMNS) >= 6
    wrong = [(each, await answers.lacks(each)) for each in COLUMNS]
    assert [(each.page, each.command, lacks) for each, lacks in wrong if lacks] == []


def reads() -> set[str]:
    pages = (page for page in every_page() if page.name not in ELSEWHERE)
    facts = (fact for page in pages for fact in facts_of(page) if fact.kind is Kind.ROUTE)
    return {match[1] for fact in facts if (match := READ.fullmatch(fact.text))} - {"/healthz"}


def test_what_pages_suggest_to_read_is_answered(answers: Answers) -> None:
    named = reads()
    assert {"/health", "/operator/inventory", "/operator/audit"} <= named
    eventually_blocking(
        lambda: {path: answers.status_of(path) for path in named},
        equals(dict.fromkeys(named, 200)),
    )
    assert answers.status_of("/operator/stocks") == 404


async def test_columns_that_are_not_printed_are_found(answers: Answers) -> None:
    named, of_kubectl = columns_of(Page("planted", OF_A_PAGE))
    assert await answers.lacks(named) == ["WHY"]
    assert await answers.lacks(of_kubectl) == ["Node"]
    (shown,) = columns_of(Page("planted", OF_A_SESSION))
    assert await answers.lacks(shown) == ["NAME SPEC"]
