"""Completion: each shell is asked as a person would, and each script has every word."""

import os
import pty
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuruntime.cli import parser
from gpuruntime.commands.completion import SHELLS, places_of, script_of

OFFERED = {
    "gpuruntime uni": {"units"},
    "gpuruntime units l": {"list", "logs"},
    "gpuruntime unit ls --ph": {"--phase"},
    "gpuruntime units list --phase R": {"Ready"},
    "gpuruntime units list -o j": {"json"},
    "gpuruntime units list --server http://x --lifecycle ": {"instance", "stock", "all"},
    "gpuruntime storages files m": {"mkdir"},
    "gpuruntime completion z": {"zsh"},
    "gpuruntime units get demo --lifecycle s": {"stock"},
    "gpuruntime units create --file uni": {"unit.yaml"},
}


def bash(folder: Path, typed: str) -> set[str]:
    """Return what bash offers for a line; its last word is the one being typed."""
    *before, last = typed.split(" ")
    words = " ".join(f"'{each}'" for each in (*before, last))
    # Where a completion offers nothing, `-o default` lets readline offer names of files.
    script = f"""{script_of("bash", parser())}
COMP_WORDS=({words}); COMP_CWORD={len(before)}
_gpuruntime; printf '%s\\n' "${{COMPREPLY[@]:-$(compgen -f -- '{last}')}}"
"""
    ended = subprocess.run(
        ["bash", "-c", script],
        cwd=folder / "here",
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert ended.stderr == ""
    return set(ended.stdout.split())


def fish(folder: Path, typed: str) -> set[str]:
    """Return what fish offers; it shows a description behind a tab."""
    script = f"{script_of('fish', parser())}\ncomplete -C {shlex.quote(typed)}"
    ended = subprocess.run(
        ["fish", "--no-config"],
        input=script,
        cwd=folder / "here",
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert ended.stderr == ""
    return {each.partition("\t")[0] for each in ended.stdout.splitlines()}


def zsh(folder: Path, typed: str) -> set[str]:
    """Return what zsh offers if its user reads the script at the start of the shell."""
    (folder / "gpuruntime.zsh").write_text(script_of("zsh", parser()))
    return zsh_with(folder, f"source {folder}/gpuruntime.zsh", typed)


def autoloaded_zsh(folder: Path, typed: str) -> set[str]:
    """Return what zsh offers if the script is a file of its fpath."""
    (folder / "functions").mkdir()
    (folder / "functions" / "_gpuruntime").write_text(script_of("zsh", parser()))
    setup = f"fpath=({folder}/functions $fpath); autoload -Uz compinit && compinit -u -D"
    return zsh_with(folder, setup, typed)


def zsh_with(folder: Path, setup: str, typed: str) -> set[str]:
    """Ask the line editor of zsh, which needs a terminal; what it would list goes to a file."""
    offered = folder / "offered"
    (folder / ".zshrc").write_text(f"""
{setup}
compadd() {{
  local -a found
  builtin compadd -O found "$@"
  print -rl -- $found >> {offered}
}}
zle-line-init() {{ BUFFER={shlex.quote(typed)}; CURSOR=$#BUFFER; zle list-choices; exit 0 }}
zle -N zle-line-init
""")
    screen, keyboard = pty.openpty()
    try:
        ended = subprocess.run(
            ["zsh", "-d", "-i"],
            check=False,
            cwd=folder / "here",
            env={"HOME": str(folder), "ZDOTDIR": str(folder), "PATH": os.defpath, "TERM": "dumb"},
            stdin=keyboard,
            stdout=keyboard,
            stderr=subprocess.PIPE,
            text=True,
            timeout=30,
            start_new_session=True,
        )
    finally:
        os.close(keyboard)
        os.close(screen)
    assert ended.stderr == ""
    return set(offered.read_text().split()) if offered.exists() else set()


def _asked(ask: Callable[[Path, str], set[str]], program: str) -> object:
    """Return a row; `nox -s tests` warns of a shell that is not installed."""
    is_missing = shutil.which(program) is None
    skip = pytest.mark.skipif(is_missing, reason=f"{program} is not installed here")
    return pytest.param(ask, marks=skip, id=ask.__name__)


@pytest.mark.parametrize(
    "ask",
    [
        _asked(bash, "bash"),
        _asked(fish, "fish"),
        _asked(zsh, "zsh"),
        _asked(autoloaded_zsh, "zsh"),
    ],
)
@pytest.mark.parametrize(("typed", "offered"), OFFERED.items(), ids=OFFERED)
def test_a_shell_offers_what_may_follow(
    tmp_path: Path, ask: Callable[[Path, str], set[str]], typed: str, offered: set[str]
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "unit.yaml").touch()
    assert ask(tmp_path, typed) == offered


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_has_every_place_and_word_of_the_program(shell: str) -> None:
    script = script_of(shell, parser())
    places = list(places_of(parser()))
    missing = {each.path for each in places if each.path and each.path not in script}
    missing |= {word for each in places for word in each.words if word[2:] not in script}
    assert missing == set()
    assert {"units list", "storages files ls", "dead-letter list"} <= {x.path for x in places}
