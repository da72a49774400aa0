"""Headers between a caller and a unit, in both directions.

The unit never receives our tokens, nor words of a caller about where it comes from. The caller
receives no header that affects another origin.
"""

from collections.abc import Iterator
from typing import Final

from aiohttp import hdrs, web
from multidict import CIMultiDict, MultiMapping

from gpuruntime.gateway.errors import Code, GatewayError
from gpuruntime.gateway.gate import Presented
from gpuruntime.gateway.presentation import OUR_COOKIES, without_tokens
from gpuruntime.relay.headers import FRAMING, OF_ONE_CONNECTION, fault_of, without
from gpuruntime.tickets.addresses import GatewayAddress

SANDBOX: Final = "sandbox"
_POLICY: Final = "Content-Security-Policy"
_FORWARDED: Final = frozenset(
    {"forwarded", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"}
    | {"x-forwarded-port", "x-forwarded-prefix", "x-forwarded-scheme", "x-forwarded-server"}
    | {"x-forwarded-ssl", "x-real-ip"}
)
_NOT_ONWARD: Final = (
    OF_ONE_CONNECTION
    | FRAMING
    | _FORWARDED
    # Programs behind CGI take Proxy for the variable HTTP_PROXY.
    | {"proxy-authorization", "proxy-authenticate", "proxy", "expect"}
)
_NOT_BACK: Final = (
    OF_ONE_CONNECTION
    | {"transfer-encoding", "proxy-authenticate", "proxy-authentication-info"}
    | {"clear-site-data", "strict-transport-security", "alt-svc", "service-worker-allowed"}
    # A proxy in front of the gateway would serve a file or a location of its own.
    | {"x-accel-redirect", "x-sendfile"}
)
_CROSS_ORIGIN: Final = "access-control-"


def onward(
    request: web.Request, presented: Presented, address: GatewayAddress, *, is_program: bool
) -> CIMultiDict[str]:
    """Return the headers for the unit, without the body's framing. Raise GatewayError."""
    kept = without_tokens(without(request.headers, _NOT_ONWARD), presented)
    if is_program:
        kept.popall(hdrs.COOKIE, None)
    if fault := fault_of(kept):
        raise GatewayError(Code.INVALID_REQUEST, f"the header {fault} is not plain UTF-8 text")
    kept[hdrs.HOST] = request.headers[hdrs.HOST]  # also if Connection names it
    kept["X-Forwarded-For"] = request.remote or ""
    kept["X-Forwarded-Proto"] = address.scheme
    kept["X-Forwarded-Host"] = request.headers[hdrs.HOST]
    return kept


def back(headers: MultiMapping[str], own: str, *, is_program: bool) -> CIMultiDict[str]:
    """Return the headers for the caller, whose origin here is `own`."""
    kept = without(headers, _NOT_BACK)
    # Otherwise aiohttp names itself.
    kept.setdefault(hdrs.SERVER, "gpuruntime")
    cookies = kept.popall(hdrs.SET_COOKIE, [])
    if headers.get("Access-Control-Allow-Origin", own) != own:
        for name in [name for name in kept if name.lower().startswith(_CROSS_ORIGIN)]:
            kept.popall(name, None)
    if is_program:
        kept.popall(_POLICY, None)
        kept[_POLICY] = SANDBOX
    else:
        kept.extend((hdrs.SET_COOKIE, cookie) for cookie in _own_cookies(cookies))
    return kept


def _own_cookies(cookies: list[str]) -> Iterator[str]:
    """Yield the cookies that a unit may set, for its own host alone."""
    for cookie in cookies:
        pair, *attributes = cookie.split(";")
        name, equals, _ = pair.partition("=")
        # Browsers send a cookie without a name as its bare value, which may look like ours.
        if not name.strip() or not equals or name.strip() in OUR_COOKIES:
            continue
        kept = (each for each in attributes if each.partition("=")[0].strip().lower() != "domain")
        yield ";".join((pair, *kept))
