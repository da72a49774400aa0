"""Output of commands: answers and messages apart, and no character that controls a terminal."""

import io
import json

import pytest

from gpuruntime.commands.terminal import Terminal, line, plain
from gpuruntime.settings.client import load
from tests.rooms.commands.running import Screen

HOSTILE = "a\x1b]0;owned\x07b\x9b2J\u202ec\U000e0041\x7f\r\n"


def test_printable_text_stays_as_it_is() -> None:
    assert plain("grüße, 世界, naïve €") == "grüße, 世界, naïve €"


def test_control_characters_are_escaped() -> None:
    written = plain(HOSTILE, keep="\n")
    assert written.replace("\n", "").isprintable()
    assert "\\u001b]0;owned\\u0007b\\u009b2J\\u202ec" in written
    assert json.loads(f'"{plain(HOSTILE)}"') == HOSTILE


def test_a_line_holds_no_line_breaks() -> None:
    assert line("a\nb\r\n  c\td") == "a b c d"


@pytest.mark.parametrize(
    ("stream", "lines"),
    [
        (Screen, "\r\x1b[Kone\\u001b\r\x1b[Kone, two\n"),
        (io.StringIO, "one\\u001b\ntwo\n"),
    ],
)
def test_progress_is_rewritten_in_place_on_a_terminal_alone(
    stream: type[io.StringIO], lines: str
) -> None:
    out, err = io.StringIO(), stream()
    terminal = Terminal(out=out, err=err)
    terminal.show("one\x1b", whole="one\x1b")
    terminal.show("two", whole="one, two")
    terminal.answer("done")
    assert (out.getvalue(), err.getvalue()) == ("done\n", lines)


def test_long_messages_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    err = Screen()
    terminal = Terminal(out=io.StringIO(), err=err)
    terminal.show("x", whole="x" * 100)
    assert err.getvalue() == "\r\x1b[K" + "x" * 19
    terminal.report("y" * 1_000_000)
    assert len(err.getvalue()) < 5_000


def test_a_log_is_escaped_on_a_terminal_and_raw_in_a_file() -> None:
    screen = Screen()
    terminal = Terminal(out=screen, err=io.StringIO())
    half = "grüße".encode()
    for piece in (half[:3], half[3:], b"\x1b[31m\xff\r\n\tnext\n"):
        terminal.piece(piece)
    assert screen.getvalue() == "grüße\\u001b[31m\ufffd\n\tnext\n"

    kept = io.BytesIO()
    file = io.TextIOWrapper(kept, encoding="utf-8")
    Terminal(out=file, err=io.StringIO()).piece(b"\x1b[31m\xff")
    assert kept.getvalue() == b"\x1b[31m\xff"


@pytest.mark.parametrize(
    ("stream", "environment", "is_coloured"),
    [
        (Screen, {}, True),
        (Screen, {"NO_COLOR": "1"}, False),
        (Screen, {"NO_COLOR": ""}, True),
        (Screen, {"TERM": "dumb"}, False),
        (io.StringIO, {}, False),
    ],
    ids=["screen", "NO_COLOR", "empty NO_COLOR", "dumb terminal", "file"],
)
def test_states_of_a_table_are_coloured_on_a_terminal_only(
    stream: type[io.StringIO], environment: dict[str, str], is_coloured: bool
) -> None:
    out = stream()
    has_colours = load({}, environment=environment).has_colours
    terminal = Terminal(out=out, err=io.StringIO(), has_colours=has_colours)
    terminal.answer("demo   Ready   READY", is_table=True)
    terminal.answer("demo   Ready   no table")
    ready = "\x1b[32mReady\x1b[0m" if is_coloured else "Ready"
    assert out.getvalue() == f"demo   {ready}   READY\ndemo   Ready   no table\n"


def test_a_servers_colours_are_escaped_beside_our_own() -> None:
    out = Screen()
    terminal = Terminal(out=out, err=io.StringIO(), has_colours=True)
    terminal.answer("\x1b[31mred   Failed", is_table=True)
    assert out.getvalue() == "\\u001b[31mred   \x1b[31mFailed\x1b[0m\n"
