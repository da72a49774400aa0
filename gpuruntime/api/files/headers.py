"""Headers between a caller and a storage's file server, in both directions.

All pass except headers of one connection, headers that frame a message, credentials of the caller,
and headers that would affect everything else on this host.
"""

from typing import Final

from multidict import CIMultiDict, MultiMapping

from gpuruntime.api.http.security_headers import POLICY
from gpuruntime.relay.headers import FRAMING, OF_ONE_CONNECTION, fault_of, without
from gpuruntime.strict.structure import Problem, StrictError

_NOT_ONWARD: Final = (
    OF_ONE_CONNECTION
    | FRAMING
    | {"authorization", "proxy-authorization", "cookie", "host", "expect"}
)
_NOT_BACK: Final = (
    OF_ONE_CONNECTION
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


def onward(headers: MultiMapping[str]) -> CIMultiDict[str]:
    """Return the headers to send on, without the body's framing; raise StrictError for unsendable
    ones.
    """
    kept = without(headers, _NOT_ONWARD)
    if fault := fault_of(kept):
        raise StrictError((Problem(field=fault, message="is not plain UTF-8 text"),))
    return kept


def back(headers: MultiMapping[str]) -> CIMultiDict[str]:
    kept = without(headers, _NOT_BACK)
    kept.add(POLICY, SANDBOX)
    return kept
