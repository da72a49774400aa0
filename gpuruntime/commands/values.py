"""Values as text: JSON, YAML, moments, ages, and the members of nested values."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import yaml

from gpuruntime.commands.terminal import plain

_UNITS_OF_AGE: Final = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))
# An age is given in the largest unit that fits into it at least twice.
_COARSE: Final = 2


def as_json(value: Any) -> str:
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    return plain(text, keep="\n")


def as_yaml(value: Any) -> str:
    """Return YAML in Unicode if every character is printable, else in ASCII."""
    members = msgspec.to_builtins(value)
    text = yaml.safe_dump(members, allow_unicode=True, sort_keys=False).rstrip("\n")
    if plain(text, keep="\n") == text:
        return text
    return yaml.safe_dump(members, allow_unicode=False, sort_keys=False).rstrip("\n")


def members(value: Any) -> list[str]:
    """Return the members of a nested value that are set, one per line."""
    return [f"{name} {text}" for name, text in _leaves(msgspec.to_builtins(value)) if text != ""]


def moment(value: datetime | None) -> str:
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ") if value else ""


def age(moment: datetime | None, now: datetime) -> str:
    """Return a short age, never negative: the clocks of two machines differ."""
    if moment is None:
        return ""
    seconds = max(0, int((now - moment).total_seconds()))
    for size, letter in _UNITS_OF_AGE:
        if seconds >= _COARSE * size:
            return f"{seconds // size}{letter}"
    return f"{seconds}s"


def joined(reason: str | None, message: str) -> str:
    return ": ".join(each for each in (reason, message) if each)


def _leaves(document: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in document.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{name}.")
        elif value is not None:
            yield f"{prefix}{name}", value
