"""Output of commands: answers and messages apart, and no character that controls a terminal."""

import io
import json

import pytest

from gpuruntime.commands.terminal import Terminal, line, plain
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
