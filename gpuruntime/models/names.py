"""Names that Kubernetes takes: what is one, and how a long one is cut without meeting another."""

import hashlib
import re
from typing import Final

LONGEST_LABEL: Final = 63
_DIGEST: Final = 8
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?)?")


def is_dns_label(text: str, *, longest: int = LONGEST_LABEL) -> bool:
    return len(text) <= longest and _LABEL.fullmatch(text) is not None


def is_label_value(text: str) -> bool:
    return len(text) <= LONGEST_LABEL and _LABEL_VALUE.fullmatch(text) is not None


def cut_with_hash(name: str, *, longest: int = LONGEST_LABEL) -> str:
    """The name itself where it fits; else its beginning and a hash of all of it.

    Names that differ anywhere stay different, and a label stays a label.
    """
    if len(name) <= longest:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]
    return f"{name[: longest - _DIGEST - 1].rstrip('-.')}-{digest}"
