"""Completion scripts of shells, made from the parsers that the tables of arguments define."""

import argparse
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import attrs


@attrs.frozen(kw_only=True, slots=True)
class Place:
    """A place on the command line: its words, and what may follow.

    `letters` has the short form of flags that have one. `values` has the choices of each flag that
    takes one of a few words. A flag without choices that takes a value is in `files`: shells then
    complete names of files.
    """

    path: str
    words: Mapping[str, str]
    letters: Mapping[str, str]
    values: Mapping[str, tuple[str, ...]]
    files: tuple[str, ...]


def places_of(parser: argparse.ArgumentParser, path: str = "") -> Iterator[Place]:
    """Yield the place of each parser. Other spellings of a word have the same place behind it."""
    words: dict[str, str] = {}
    letters: dict[str, str] = {}
    values: dict[str, tuple[str, ...]] = {}
    files: list[str] = []
    below: list[Place] = []
    for action in parser._actions:  # noqa: SLF001 - argparse has no other list
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - argparse has no other list
            for each in action._choices_actions:  # noqa: SLF001 - argparse has no other list
                words[each.dest] = each.help or ""
            for name, inner in action.choices.items():
                below += places_of(inner, f"{path} {name}".strip())
            continue
        if not action.option_strings:
            words.update(dict.fromkeys(map(str, action.choices or ()), ""))
            continue
        longest = max(action.option_strings, key=len)
        words[longest] = action.help or ""
        for flag in action.option_strings:
            if flag != longest:
                letters[longest] = flag.removeprefix("-")
            if action.choices:
                values[flag] = tuple(map(str, action.choices))
            elif action.nargs != 0:
                files.append(flag)
    yield Place(path=path, words=words, letters=letters, values=values, files=tuple(files))
    yield from below


def script_of(shell: str, parser: argparse.ArgumentParser) -> str:
    return SHELLS[shell](list(places_of(parser)))


def _bash(places: list[Place]) -> str:
    return f"""\
# Completion of gpuruntime for bash: source <(gpuruntime completion bash)
_gpuruntime_words() {{
  case "$1" in
{_cases((each.path, each.words) for each in places)}
    *) return 1 ;;
  esac
}}
_gpuruntime_values() {{
  case "$1" in
{_cases((f"{each.path} {flag}", words) for each in places for flag, words in each.values.items())}
{_cases((f"{each.path} {flag}", ()) for each in places for flag in each.files)}
    *) return 1 ;;
  esac
}}
_gpuruntime() {{
  local word place="" words="" i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="${{place:+$place }}${{COMP_WORDS[i]}}"
    if _gpuruntime_words "$word" >/dev/null; then place="$word"; fi
  done
  words=$(_gpuruntime_values "$place ${{COMP_WORDS[COMP_CWORD-1]}}" ||
    _gpuruntime_words "$place")
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _gpuruntime gpuruntime
"""


def _zsh(places: list[Place]) -> str:
    """Return the script of bash below zsh's own emulation of its completion.

    As a file `_gpuruntime` of the fpath it is read at the first completion, and answers that one.
    """
    return f"""\
#compdef gpuruntime
(( $+functions[compdef] )) || {{ autoload -Uz compinit && compinit -i }}
autoload -Uz bashcompinit && bashcompinit
{_bash(places)}\
if [[ "${{funcstack[1]}}" = "_gpuruntime" ]]; then _bash_complete -o default -F _gpuruntime; fi
"""


def _fish(places: list[Place]) -> str:
    lines = [
        "# Completion of gpuruntime for fish: gpuruntime completion fish | source",
        f"set -g __gpuruntime_places {shlex.join(each.path for each in places)}",
        "function __gpuruntime_place",
        "  set -l place ''",
        "  for word in (commandline -opc)[2..-1]",
        '    set -l next (string trim -- "$place $word")',
        "    if contains -- $next $__gpuruntime_places",
        "      set place $next",
        "    end",
        "  end",
        "  echo $place",
        "end",
        "complete -c gpuruntime -f",
    ]
    for place in places:
        at = f"test (__gpuruntime_place) = {shlex.quote(place.path)}"
        for word, text in place.words.items():
            what = ["-l", word.removeprefix("--")] if word.startswith("--") else ["-a", word]
            if word in place.letters:
                what += ["-s", place.letters[word]]
            if word in place.values:
                what += ["-x", "-a", " ".join(place.values[word])]
            elif word in place.files:
                what += ["-r", "-F"]
            told = ["-d", text] if text else []
            lines.append(shlex.join(["complete", "-c", "gpuruntime", "-n", at, *what, *told]))
    return "\n".join([*lines, ""])


SHELLS: Final[Mapping[str, Callable[[list[Place]], str]]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}


def _cases(rows: Iterable[tuple[str, Iterable[str]]]) -> str:
    return "\n".join(f'    "{key}") echo "{" ".join(words)}" ;;' for key, words in rows)
