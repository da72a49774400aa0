"""The columns that pages name are those that a real `gpuruntime dev` answers with."""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import attrs
import pytest

from gpuruntime.models.definitions.crds import KINDS
from tests.eventually import eventually
from tests.proofs.docs.command_lines import PROGRAM
from tests.proofs.docs.facts import Columns, columns_of, header_of
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


async def test_columns_that_are_not_printed_are_found(answers: Answers) -> None:
    named, of_kubectl = columns_of(Page("planted", OF_A_PAGE))
    assert await answers.lacks(named) == ["WHY"]
    assert await answers.lacks(of_kubectl) == ["Node"]
    (shown,) = columns_of(Page("planted", OF_A_SESSION))
    assert await answers.lacks(shown) == ["NAME SPEC"]
