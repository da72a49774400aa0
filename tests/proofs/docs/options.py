"""The program's command lines as its parser accepts them, compared with those of the pages."""

import argparse
from collections.abc import Sequence

# A word that begins like this is a placeholder for the reader's own.
PLACEHOLDERS = ("<", "…", "{")


def mistake_in(parser: argparse.ArgumentParser, words: Sequence[str]) -> str:
    """Return what the program lacks of these arguments, or an empty text."""
    for word in words:
        if word == "--":
            break
        commands = _commands(parser)
        name = word.partition("=")[0]
        if word.startswith("-") and word != "-":
            if name not in parser._option_string_actions:
                return f"{parser.prog} has no {name}"
        elif commands:
            if word.startswith(PLACEHOLDERS) or word.isupper():
                return ""
            if word not in commands:
                return f"{parser.prog} has no command {word}"
            parser = commands[word]
    return ""


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    found: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found.update(action.choices)
    return found
