"""Headers between a caller and a storage's file server, in both directions.

All pass except headers of one connection, headers that frame a message, credentials of the caller,
and headers that would affect everything else on this host.
"""

import re
from typing import Final

from aiohttp import hdrs
from multidict import CIMultiDict, MultiMapping

from gpuruntime.api.http.security_headers import POLICY
from gpuruntime.strict.structure import Problem, StrictError

_OF_ONE_CONNECTION: Final = frozenset(
    {"connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade"}
)
_FRAMING: Final = frozenset({"content-length", "transfer-encoding"})
_NOT_ONWARD: Final = (
    _OF_ONE_CONNECTION
    | _FRAMING
    | {"authorization", "proxy-authorization", "cookie", "host", "expect"}
)
_NOT_BACK: Final = (
    _OF_ONE_CONNECTION
    | {"transfer-encoding"}
    | {"set-cookie", "www-authenticate", "proxy-authenticate"}
    | {"authentication-info", "proxy-authentication-info"}
    | {"clear-site-data", "strict-transport-security", "alt-svc", "service-worker-allowed"}
    | {"cache-control", "expires", "pragma", "access-control-allow-origin"}
)
# A caller that may write files must not run scripts as a page of this host, nor frame them in one.
SANDBOX: Final = (
    "sandbox allow-scripts allow-forms allow-downloads allow-popups allow-modals; "
    "frame-ancestors 'none'"
)
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# A lone surrogate stands for a byte that is not UTF-8.
_UNSENDABLE: Final = re.compile("[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")


def onward(headers: MultiMapping[str]) -> CIMultiDict[str]:
    """Return the headers to send on, without the body's framing; raise StrictError for unsendable
    ones.
    """
    kept = _without(headers, _NOT_ONWARD)
    if fault := fault_of(kept):
        raise StrictError((Problem(field=fault, message="is not plain UTF-8 text"),))
    return kept


def back(headers: MultiMapping[str]) -> CIMultiDict[str]:
    kept = _without(headers, _NOT_BACK)
    kept.add(POLICY, SANDBOX)
    return kept


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


def _without(headers: MultiMapping[str], dropped: frozenset[str]) -> CIMultiDict[str]:
    """Drop these headers and those that Connection names, which are for the next hop alone."""
    named = {
        token.strip().lower()
        for value in headers.getall(hdrs.CONNECTION, ())
        for token in value.split(",")
    }
    return CIMultiDict(
        (name, value) for name, value in headers.items() if name.lower() not in dropped | named
    )
