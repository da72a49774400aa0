"""The pages about the client and its commands are run: their output is as printed there."""

import io
import os
import re
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests import file_server
from tests.rooms.commands.running import run_command
from tests.rooms.commands.sessions import exchanges_of, files_of, is_as_written, sections_of
from tests.rooms.roles.dev.test_dev import SIMULATED, printed, running
from tests.rooms.roles.programs import programs
from tests.row_ids import in_words

ROOT = Path(__file__).parents[3]
SECTIONS = sections_of(ROOT / "docs/command-line.md")
WITH_PROCESSES = ("Reach into a unit", "Files", "Functions")
SIMULATABLE = ("Status", "Pools", "Units", "Stock", "Storages", "Secrets")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which the commands run, with the files that the page shows."""
    for section in SECTIONS.values():
        for name, text in files_of(section).items():
            (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest_asyncio.fixture
async def simulated() -> AsyncIterator[str]:
    output = io.StringIO()
    async with running(output, programs=SIMULATED):
        yield printed(output, "api")


async def follow(section: str, server: str) -> None:
    exchanges = exchanges_of(SECTIONS[section])
    assert exchanges, f"{section} shows nothing"
    for each in exchanges:
        stream = io.StringIO()
        with tempfile.TemporaryFile() as output:
            streams = (output.fileno(),) * 3
            await run_command(each.words, server, stream=stream, streams=streams)
            output.seek(0)
            stream.write(output.read().decode())
        assert is_as_written(stream.getvalue(), each.lines), (
            f"gpuruntime {each.words} says\n{stream.getvalue()}"
        )


def test_every_section_with_commands_is_run() -> None:
    shown = {name for name, text in SECTIONS.items() if exchanges_of(text)}
    assert shown == {*SIMULATABLE, *WITH_PROCESSES}


@pytest.mark.looptime
async def test_the_sessions_run_as_they_are_written(simulated: str, folder: Path) -> None:
    assert (folder / "unit.yaml").exists()
    for section in SIMULATABLE:
        await follow(section, simulated)


@contextmanager
def real_dev(folder: Path) -> Iterator[str]:
    """Run a dev in the checkout, beside its examples, as the page asks for."""
    there = Path.cwd()
    os.chdir(ROOT)
    try:
        with programs(folder) as program:
            yield program.dev(on_path=file_server.written(folder / "bin").parent).address
    finally:
        os.chdir(there)


@pytest.mark.serverless
@pytest.mark.parametrize("section", WITH_PROCESSES)
async def test_the_sessions_with_processes_run_as_they_are_written(
    folder: Path, section: str
) -> None:
    with real_dev(folder) as server:
        os.chdir(folder)
        await follow(section, server)


@pytest.mark.looptime
async def test_the_program_of_the_clients_page_runs(
    simulated: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "docs/client.md").read_text()
    script = next(block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    script = script.replace("http://127.0.0.1:8080", simulated)
    assert "asyncio.run(main())" in script
    names: dict[str, Any] = {}
    exec(script.replace("asyncio.run(main())", ""), names)
    await names["main"]()
    lines = capsys.readouterr().out.splitlines()
    assert "http://unit-demo.runtime-instance.svc.cluster.local:8080" in lines
    assert "demo Ready" in lines


@pytest.mark.parametrize(
    ("text", "lines", "matches"),
    [
        ("a  b\nc\n", ("a b", "c"), True),
        ("a b\n", ("a …",), True),
        ("x\ny\na\n", ("…", "a"), True),
        ("a\n", ("…", "a"), True),
        ("a\nb\n", ("a",), False),
        ("a c\n", ("a b",), False),
        ("", ("a",), False),
    ],
    ids=in_words,
)
def test_output_is_compared_with_the_page(
    text: str, lines: tuple[str, ...], matches: bool
) -> None:
    assert is_as_written(text, lines) is matches
