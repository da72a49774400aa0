"""What the program takes, as its own parser has it, against what pages say that it takes."""

import argparse
from collections.abc import Sequence

# Stands for something that the reader puts in.
PLACEHOLDERS = ("<", "…", "{")


def mistake_in(parser: argparse.ArgumentParser, words: Sequence[str]) -> str:
    """What is not there of the words behind the program's name; empty where all of it is."""
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
