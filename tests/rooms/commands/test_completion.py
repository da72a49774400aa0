"""Completion: bash is asked as a person would, and each script has every word of the tables."""

import subprocess

import pytest

from gpuruntime.cli import parser
from gpuruntime.commands.completion import SHELLS, places_of, script_of


def completed(typed: str) -> set[str]:
    """Return what bash offers for a line; its last word is the one being typed."""
    *before, last = typed.split(" ")
    words = " ".join(f"'{each}'" for each in (*before, last))
    script = f"""{script_of("bash", parser())}
COMP_WORDS=({words}); COMP_CWORD={len(before)}
_gpuruntime; printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    ended = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=True, timeout=30
    )
    assert ended.stderr == ""
    return set(ended.stdout.split())


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("gpuruntime uni", {"units"}),
        ("gpuruntime units l", {"list", "logs"}),
        ("gpuruntime unit ls --ph", {"--phase"}),
        ("gpuruntime units list --phase R", {"Ready"}),
        ("gpuruntime units list --server http://x --lifecycle ", {"instance", "stock", "all"}),
        ("gpuruntime storages files m", {"mkdir"}),
        ("gpuruntime completion ", {"--help", "bash", "zsh", "fish"}),
        ("gpuruntime units create --file uni", set()),
        ("gpuruntime units get demo --lifecycle s", {"stock"}),
    ],
)
def test_bash_offers_what_may_follow(typed: str, offered: set[str]) -> None:
    assert completed(typed) == offered


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_has_every_place_and_word_of_the_program(shell: str) -> None:
    script = script_of(shell, parser())
    places = list(places_of(parser()))
    missing = {each.path for each in places if each.path and each.path not in script}
    missing |= {word for each in places for word in each.words if word[2:] not in script}
    assert missing == set()
    assert {"units list", "storages files ls", "dead-letter list"} <= {x.path for x in places}
