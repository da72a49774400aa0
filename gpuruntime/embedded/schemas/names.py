"""Grammars of names, labels and keys, with Kubernetes' messages."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

LONGEST_LABEL: Final = 63
LONGEST_SUBDOMAIN: Final = 253

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"

NameRule = Callable[[str], list[str]]


def subdomain_faults(name: str) -> list[str]:
    """Check a subdomain of RFC 1123, the name of most kinds."""
    words = (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or"
        " '.', and must start and end with an alphanumeric character"
    )
    return _too_long(name, LONGEST_SUBDOMAIN) + _unlike(name, _SUBDOMAIN, words, ("example.com",))


def label_faults(name: str) -> list[str]:
    """Check a label of RFC 1123, such as the name of a namespace."""
    words = (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and"
        " must start and end with an alphanumeric character"
    )
    return _too_long(name, LONGEST_LABEL) + _unlike(name, _LABEL, words, ("my-name", "123-abc"))


def service_name_faults(name: str) -> list[str]:
    """Check a label of RFC 1035, which must not begin with a digit."""
    words = (
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an"
        " alphabetic character, and end with an alphanumeric character"
    )
    examples = ("my-name", "abc-123")
    return _too_long(name, LONGEST_LABEL) + _unlike(name, _LABEL_1035, words, examples)


def path_segment_faults(name: str) -> list[str]:
    """Check a name of RBAC, which may contain colons."""
    faults = [f"may not be '{name}'"] if name in (".", "..") else []
    return faults + [f"may not contain '{sign}'" for sign in "/%" if sign in name]


@lru_cache(maxsize=4096)
def qualified_faults(key: str) -> tuple[str, ...]:
    """Check a key of labels or annotations: a name with an optional domain and slash before it."""
    words = (
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an"
        " alphanumeric character"
    )
    examples = ("MyName", "my.name", "123-abc")
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        unlike = _unlike("/", _QUALIFIED, f"a qualified name {words}", examples)[0]
        domain = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return (f"{unlike} {domain}",)
    if slash and not prefix:
        return ("prefix part must be non-empty",)
    faults = [f"prefix part {fault}" for fault in subdomain_faults(prefix)] if slash else []
    faults += ["name part must be non-empty"] if not name else []
    faults += [f"name part {fault}" for fault in _too_long(name, LONGEST_LABEL)]
    return (*faults, *_unlike(name, _QUALIFIED, f"name part {words}", examples))


def label_value_faults(value: str) -> tuple[str, ...]:
    words = (
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or"
        " '.', and must start and end with an alphanumeric character"
    )
    examples = ("MyValue", "my_value", "12345")
    return (*_too_long(value, LONGEST_LABEL), *_unlike(value, _VALUE, words, examples))


def _too_long(text: str, limit: int) -> list[str]:
    return [f"must be no more than {limit} bytes"] if len(text.encode()) > limit else []


def _unlike(text: str, pattern: str, words: str, examples: tuple[str, ...]) -> list[str]:
    if re.fullmatch(pattern, text):
        return []
    listed = " or ".join(f"'{example}', " for example in examples)
    return [f"{words} (e.g. {listed}regex used for validation is '{pattern}')"]
