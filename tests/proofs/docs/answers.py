"""A comparison of an answer with the excerpt of it that a page shows.

In JSON the page may leave out members of an object. `…` stands for any part of a text, alone for
any value, and as the last entry of a list for all further entries. In other text the page shows
some of the lines in their order.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

REST = "…"


def differences(language: str, shown: str, got: str) -> list[str]:
    if language == "json":
        return _json_differences(shown, got)
    lines = iter(got.splitlines())
    return [
        f"there is no line {line!r}"
        for line in filter(None, map(str.strip, shown.splitlines()))
        if not any(_is_like(line, each.strip()) for each in lines)
    ]


def _json_differences(shown: str, got: str) -> list[str]:
    try:
        answers = list(_documents(got))
    except ValueError as error:
        return [f"is no JSON: {error}"]
    wanted = list(_documents(shown))
    if len(wanted) != len(answers):
        return [f"has {len(answers)} documents, not {len(wanted)}"]
    pairs = enumerate(zip(wanted, answers, strict=True))
    return [each for number, pair in pairs for each in _faults(*pair, path=f"${number}")]


def _documents(text: str) -> Iterator[Any]:
    """Yield the JSON documents of a text, which several requests may have written."""
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        if text[at].isspace():
            at += 1
        else:
            document, at = decoder.raw_decode(text, at)
            yield document


def _faults(shown: Any, got: Any, *, path: str) -> Iterator[str]:
    if shown == REST:
        return
    match shown, got:
        case dict(), dict():
            for key, value in shown.items():
                if key in got:
                    yield from _faults(value, got[key], path=f"{path}.{key}")
                else:
                    yield f"{path} has no {key}"
        case list(), list():
            yield from _list_faults(shown, got, path)
        case str(), str():
            if not _is_like(shown, got):
                yield f"{path} is {got!r}, not {shown!r}"
        case _:
            if type(shown) is not type(got) or shown != got:
                yield f"{path} is {got!r}, not {shown!r}"


def _list_faults(shown: list[Any], got: list[Any], path: str) -> Iterator[str]:
    is_open = shown[-1:] == [REST]
    wanted = shown[:-1] if is_open else shown
    if len(got) < len(wanted) or (len(got) > len(wanted) and not is_open):
        yield f"{path} has {len(got)} entries, not {len(wanted)}"
        return
    for number, (one, other) in enumerate(zip(wanted, got, strict=False)):
        yield from _faults(one, other, path=f"{path}[{number}]")


def _is_like(shown: str, got: str) -> bool:
    pattern = ".*".join(map(re.escape, shown.split(REST)))
    return re.fullmatch(pattern, got, re.DOTALL) is not None
