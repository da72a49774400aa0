"""Reading a request to a function: checks of its headers and attributes, and its payload."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from gpuruntime.models.requests.invocations import Invoke
from gpuruntime.strict.structure import Problem, read

# The same limit as a body's: with its envelope, it fits into a message of the broker.
MOST_PAYLOAD_BYTES: Final = 1024 * 1024
MOST_ENTRIES: Final = 100
LONGEST_NAME: Final = 128
LONGEST_VALUE: Final = 8 * 1024
MOST_ENTRY_BYTES: Final = 64 * 1024
# Hop-by-hop headers, headers that the call itself sets, and headers that the broker reads.
RESERVED_HEADERS: Final = frozenset(
    {
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_RESERVED_PREFIXES: Final = ("nats-", "x-gpuruntime-")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def parse_invoke(document: object) -> Invoke:
    """Return the request, or raise StrictError with all problems at once."""
    further = (*_entry_problems(document, "headers"), *_entry_problems(document, "attributes"))
    return read(document, Invoke, (*further, *_header_problems(document)))


def payload_of(request: Invoke) -> msgspec.Raw:
    return msgspec.Raw(
        json.dumps(request.payload, ensure_ascii=False, separators=(",", ":")).encode()
    )


def _entries_of(document: object, field: str) -> Mapping[str, object]:
    found = document.get(field) if isinstance(document, dict) else None
    return found if isinstance(found, dict) else {}


def _entry_problems(document: object, field: str) -> Iterator[Problem]:
    entries = _entries_of(document, field)
    if len(entries) > MOST_ENTRIES:
        message = f"must have at most {MOST_ENTRIES} entries, not {len(entries)}"
        yield Problem(field=field, message=message)
        return
    size = 0
    for name, value in entries.items():
        text = value if isinstance(value, str) else ""
        size += len(name) + len(text)
        if not name or len(name) > LONGEST_NAME:
            message = f"must have a name of 1 to {LONGEST_NAME} characters"
            yield Problem(field=f"{field}.{name[:LONGEST_NAME]}", message=message)
        elif len(text) > LONGEST_VALUE:
            message = f"must be at most {LONGEST_VALUE} characters, not {len(text)}"
            yield Problem(field=f"{field}.{name}", message=message)
    if size > MOST_ENTRY_BYTES:
        message = f"must be at most {MOST_ENTRY_BYTES} characters in all, not {size}"
        yield Problem(field=field, message=message)


def _header_problems(document: object) -> Iterator[Problem]:
    known: set[str] = set()
    for name, value in _entries_of(document, "headers").items():
        lower = name.lower()
        if message := _header_fault(name, value, is_known=lower in known):
            yield Problem(field=f"headers.{name[:LONGEST_NAME]}", message=message)
        known.add(lower)


def _header_fault(name: str, value: object, *, is_known: bool) -> str:
    lower = name.lower()
    if not _HEADER_NAME.fullmatch(name):
        return "is not a header name: use letters, digits and '-'"
    if lower in RESERVED_HEADERS or lower.startswith(_RESERVED_PREFIXES):
        return "is a reserved header: leave it out"
    if is_known:
        return "appears more than once: header names are case-insensitive"
    if isinstance(value, str) and _CONTROL.search(value):
        return "must have no line break and no other control character"
    return ""
