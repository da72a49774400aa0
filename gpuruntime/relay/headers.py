"""Headers that a relay must not send on, because they belong to one connection or one message."""

import re
from typing import Final

from aiohttp import hdrs
from multidict import CIMultiDict, MultiMapping

OF_ONE_CONNECTION: Final = frozenset(
    {"connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade"}
)
FRAMING: Final = frozenset({"content-length", "transfer-encoding"})
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# A lone surrogate stands for a byte that is not UTF-8.
_UNSENDABLE: Final = re.compile("[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")


def fault_of(headers: MultiMapping[str]) -> str:
    """Return the name of a header that cannot be sent unchanged, or "" if all can."""
    return next(
        (
            name
            for name, value in headers.items()
            if not _NAME.fullmatch(name) or _UNSENDABLE.search(value)
        ),
        "",
    )


def without(headers: MultiMapping[str], dropped: frozenset[str]) -> CIMultiDict[str]:
    """Drop these headers and those that Connection names, which are for the next hop alone.

    Many servers read `_` in a name as `-`, so that both name the same header.
    """
    named = {
        _canonical(token.strip())
        for value in headers.getall(hdrs.CONNECTION, ())
        for token in value.split(",")
    }
    return CIMultiDict(
        (name, value) for name, value in headers.items() if _canonical(name) not in dropped | named
    )


def _canonical(name: str) -> str:
    return name.lower().replace("_", "-")
