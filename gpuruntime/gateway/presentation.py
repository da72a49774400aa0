"""The tokens in a request: where a caller may present them, and how they are kept from units."""

from collections.abc import Iterator
from typing import Final

from aiohttp import hdrs
from multidict import CIMultiDict, MultiMapping

from gpuruntime.gateway.gate import Presented
from gpuruntime.tickets.tokens import TokenType, is_ours

# Browsers cannot set a header of a WebSocket, but can name sub-protocols.
SUB_PROTOCOL: Final = "gpuruntime.ticket."
_BEARER: Final = "bearer "
_COOKIE: Final = "gpuruntime"


def cookie_name(*, is_secure: bool) -> str:
    """Return the name of our cookie; browsers bind a name with this prefix to one host."""
    return f"__Host-{_COOKIE}" if is_secure else _COOKIE


OUR_COOKIES: Final = frozenset({cookie_name(is_secure=True), cookie_name(is_secure=False)})


def presented_by_program(headers: MultiMapping[str]) -> Presented:
    """Return the ticket of a program, which has no session; its token may be empty."""
    token = _bearer(headers) or next(_in_sub_protocols(headers), "")
    return Presented(kind=TokenType.TICKET, token=token)


def presented_by_browser(headers: MultiMapping[str], *, is_secure: bool) -> Presented:
    """Return the token of a request at a unit's origin: a ticket, else the session's cookie.

    Authorization without a token of ours is the unit's own, and does not replace a session.
    """
    bearer = _bearer(headers)
    token = bearer if is_ours(bearer) else next(_in_sub_protocols(headers), "")
    if token:
        return Presented(kind=TokenType.TICKET, token=token)
    name = cookie_name(is_secure=is_secure)
    session = next((value for key, value in _cookies(headers) if key == name), "")
    if session:
        return Presented(kind=TokenType.SESSION, token=session)
    return Presented(kind=TokenType.TICKET, token=bearer)


def without_tokens(headers: MultiMapping[str], presented: Presented) -> CIMultiDict[str]:
    """Return the headers for a unit: without our cookies, tickets, and whatever was presented."""
    kept: CIMultiDict[str] = CIMultiDict()
    for name, value in headers.items():
        rest = _rest_of(name, value, presented.token)
        if rest is not None:
            kept.add(name, rest)
    return kept


def _rest_of(name: str, value: str, token: str) -> str | None:
    """Return what a unit may see of the header, or None if it is dropped."""
    match name.lower():
        case "authorization":
            credentials = value.partition(" ")[2].strip()
            return None if is_ours(credentials) or (token and credentials == token) else value
        case "cookie":
            kept = [f"{key}={each}" for key, each in _pairs(value) if key not in OUR_COOKIES]
            return "; ".join(kept) or None
        case "sec-websocket-protocol":
            protocols = [each.strip() for each in value.split(",")]
            return ", ".join(p for p in protocols if not p.startswith(SUB_PROTOCOL)) or None
        case _:
            return value


def _bearer(headers: MultiMapping[str]) -> str:
    value = headers.get(hdrs.AUTHORIZATION, "")
    return value[len(_BEARER) :].strip() if value.lower().startswith(_BEARER) else ""


def _in_sub_protocols(headers: MultiMapping[str]) -> Iterator[str]:
    for value in headers.getall(hdrs.SEC_WEBSOCKET_PROTOCOL, ()):
        for each in value.split(","):
            if each.strip().startswith(SUB_PROTOCOL):
                yield each.strip().removeprefix(SUB_PROTOCOL)


def _cookies(headers: MultiMapping[str]) -> Iterator[tuple[str, str]]:
    for value in headers.getall(hdrs.COOKIE, ()):
        yield from _pairs(value)


def _pairs(value: str) -> Iterator[tuple[str, str]]:
    for each in value.split(";"):
        name, equals, text = each.strip().partition("=")
        if name and equals:
            yield name, text
