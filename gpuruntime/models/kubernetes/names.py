"""The names that Kubernetes accepts, and how to cut long names without collisions."""

import hashlib
import re
from typing import Final

LONGEST_LABEL: Final = 63
_LONGEST_SUBDOMAIN: Final = 253
# 48 bits of a SHA-256 make collisions by chance unlikely, and leave room for the name.
_DIGEST: Final = 12
_LABEL_DIGEST: Final = 40
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(rf"{_LABEL.pattern}(\.{_LABEL.pattern})*")
_QUALIFIED = re.compile(r"[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?")


def is_dns_label(text: str, *, longest: int = LONGEST_LABEL) -> bool:
    return len(text) <= longest and _LABEL.fullmatch(text) is not None


def is_dns_subdomain(text: str) -> bool:
    return len(text) <= _LONGEST_SUBDOMAIN and _SUBDOMAIN.fullmatch(text) is not None


def is_label_key(text: str) -> bool:
    """Return whether the text is a name, optionally with a domain and a slash before it."""
    domain, slash, name = text.rpartition("/")
    if slash and not is_dns_subdomain(domain):
        return False
    return bool(name) and is_label_value(name)


def is_label_value(text: str) -> bool:
    """Return whether the text is a label value, as the empty text is."""
    return not text or (len(text) <= LONGEST_LABEL and _QUALIFIED.fullmatch(text) is not None)


def label_value_of(text: str) -> str:
    """Return the text if it is a label value, else a hash of it."""
    if is_label_value(text):
        return text
    return hashlib.sha256(text.encode()).hexdigest()[:_LABEL_DIGEST]


def cut_with_hash(name: str, *, longest: int = LONGEST_LABEL) -> str:
    """Return the name if it fits, else its beginning and a hash of the whole name.

    Different names stay different, and a label stays a label.
    """
    if len(name) <= longest:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]
    return f"{name[: longest - _DIGEST - 1].rstrip('-.')}-{digest}"
