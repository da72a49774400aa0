"""The command line: every action exists, and parsing imports only what it needs."""

import argparse
import subprocess
import sys
from collections.abc import Iterator

import pytest

from gpuruntime.cli import parser
from gpuruntime.commands.program import ACTIONS
from gpuruntime.settings.client import ClientSettings, load


def actions_of(found: argparse.ArgumentParser) -> Iterator[str]:
    if name := found.get_default("action"):
        yield name
    for each in found._actions:
        if isinstance(each, argparse._SubParsersAction):
            for below in each.choices.values():
                yield from actions_of(below)


def test_every_parsed_action_is_implemented_and_no_other_exists() -> None:
    assert set(actions_of(parser())) == set(ACTIONS)


@pytest.mark.parametrize(
    ("words", "action"),
    [
        ("unit ls", "units list"),
        ("units rm a", "units delete"),
        ("pool get a", "pools get"),
        ("stocks list", "stock list"),
        ("storage file list a", "storages files ls"),
        ("storages files delete a b", "storages files rm"),
        ("function list", "functions list"),
        ("dead-letter list", "dead-letters list"),
    ],
)
def test_a_noun_has_both_numbers_and_a_verb_its_short_form(words: str, action: str) -> None:
    assert parser().parse_args(words.split()).action == action


def test_a_phase_and_a_refill_may_be_typed_in_any_case() -> None:
    options = parser().parse_args(["units", "list", "--phase", "ready"])
    assert options.phase == "Ready"
    options = parser().parse_args(["pools", "update", "a", "--refill", "NEVER"])
    assert options.refill == "Never"


@pytest.mark.parametrize("words", ["version", "--help", "units create --help"])
def test_commands_without_a_server_import_no_http_client(words: str) -> None:
    script = "import sys; from gpuruntime.cli import main\n"
    script += f"try: main({words.split()!r})\nexcept SystemExit: pass\n"
    script += "sys.exit('aiohttp' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL)


def test_the_containers_command_follows_two_dashes() -> None:
    words = ["units", "create", "--name", "a", "--wait", "--", "python", "-m", "x", "--name"]
    options = parser().parse_args(words)
    assert options.words == ["python", "-m", "x", "--name"]
    assert (options.name, options.wait, options.timeout) == ("a", True, 600.0)
    changed = parser().parse_args(["units", "update", "a", "--image", "b", "--", "sh", "--help"])
    assert (changed.name, changed.words) == ("a", ["sh", "--help"])
    assert parser().parse_args(["units", "update", "a"]).words == []


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30.0), ("10m", 600.0), ("1.5", 1.5)])
def test_a_time_is_seconds_or_has_a_unit(text: str, seconds: float) -> None:
    assert parser().parse_args(["units", "wait", "a", "--timeout", text]).timeout == seconds


@pytest.mark.parametrize(
    "words",
    [
        "units",
        "units get",
        "units list -o xml",
        "units list --phase nice",
        "units wait a --timeout soon",
        "units logs a --tail -1",
        "stock seed --replicas two",
        "invoke f --data 1 --file x",
    ],
)
def test_wrong_arguments_are_a_usage_error(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(words.split())
    assert ended.value.code == 2
    assert "usage: " in capsys.readouterr().err


def test_a_flag_overrides_its_variable() -> None:
    environment = {
        "GPURUNTIME_SERVER": "http://there",
        "GPURUNTIME_TOKEN": "secret",
        "GPURUNTIME_CA_FILE": "ca",
    }
    settings = load({"server": "http://here", "ca_file": None}, environment=environment)
    assert settings == ClientSettings(server="http://here", token="secret", ca_file="ca")
    assert "secret" not in repr(settings)


@pytest.mark.parametrize("verb", ["exec demo", "create --name demo"])
def test_a_program_without_two_dashes_is_told_of_them(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["units", *verb.split(), "echo", "hi"])
    assert "a program stands after two dashes: -- echo hi" in capsys.readouterr().err


@pytest.mark.parametrize("words", ["units exec demo --wrong", "units list echo"])
def test_other_words_too_many_are_only_named(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(words.split())
    said = capsys.readouterr().err
    assert f"unrecognized arguments: {words.rsplit(maxsplit=1)[-1]}" in said
    assert "two dashes" not in said
