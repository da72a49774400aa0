"""Refusals as pages: a browser shows a person what happened and what to do; programs get JSON.

A page runs no script and loads nothing. It says of a unit what its address and the error say.
"""

import base64
import hashlib
from collections.abc import Mapping
from html import escape
from typing import Final, TypeAlias

import attrs
from aiohttp import hdrs, web
from multidict import MultiMapping

from gpuruntime.gateway.errors import RETRY_AFTER_SECONDS, Code, GatewayError, headers_of
from gpuruntime.gateway.hosts import Host, PortHost, TerminalHost
from gpuruntime.tickets.addresses import name_in
from gpuruntime.tickets.tokens import Refusal

# The colours of the console and of the terminal.
_STYLE: Final = """
:root{color-scheme:light dark;--ground:#f6f7f9;--surface:#fff;--text:#15191e;--muted:#55606c;
--line:#d9dee4;--accent:#0b5cad;font:16px/1.5 system-ui,sans-serif}
@media(prefers-color-scheme:dark){:root{--ground:#0f1317;--surface:#171c22;--text:#e5e9ee;
--muted:#a2adb9;--line:#2a323b;--accent:#74b5f7}}
body{margin:0;padding:16px;background:var(--ground);color:var(--text)}
main{box-sizing:border-box;max-width:640px;margin:8vh auto 0;padding:24px;
background:var(--surface);border:1px solid var(--line);border-radius:10px;overflow-wrap:anywhere}
h1{margin:0 0 12px;font-size:1.4rem;line-height:1.25}
p{margin:0 0 12px}
pre{margin:0 0 12px;padding:10px 12px;border:1px solid var(--line);border-radius:6px;
background:var(--ground);font:14px/1.5 ui-monospace,monospace;white-space:pre-wrap}
a{color:var(--accent)}
.muted{margin:0;color:var(--muted);font-size:.875rem}
"""
_DIGEST: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


@attrs.frozen(slots=True)
class Words:
    """The words of a page; `remedy` introduces `command`, whose fields are those of a Place."""

    title: str
    what: str = ""
    remedy: str = ""
    command: str = ""


@attrs.frozen(kw_only=True, slots=True)
class Place:
    """The unit and the port that an address names; both are empty if it names none for sure."""

    unit: str = ""
    port: str = ""
    is_terminal: bool = False


_Words: TypeAlias = Mapping[Code, Words]
_RELOAD: Final = "Try again in a moment."
_TICKET: Final = "Get a new ticket: press Open at the unit in the console, or run"
_OPEN: Final = "gpuruntime units open {unit}{port}"
_SHELL_TICKET: Final = "Press Terminal at the unit in the console, or open a shell of your own:"
_SHELL: Final = "gpuruntime units shell {unit}"
_WORDS: Final[_Words] = {
    Code.TICKET_MISSING: Words(
        "You need a ticket",
        "Units admit only browsers with a ticket. Yours has none for this address any more, "
        "or never had one.",
        _TICKET,
        _OPEN,
    ),
    Code.ANOTHER_ORIGIN: Words(
        "Another site asked for this",
        "A page of another site sent this request in your name. It was refused, and the unit "
        "did not receive it. If you wanted it, do it on the unit's own page.",
    ),
    Code.NOT_FOUND: Words("Nothing is at this address", "Check the address for a mistake."),
    Code.UNIT_UNKNOWN: Words(
        "This unit does not exist any more",
        "It was deleted. A unit that was created again under its name has another address.",
        "See which units there are, and open one by its name:",
        "gpuruntime units list",
    ),
    Code.MISDIRECTED: Words(
        "No unit is at this address",
        "Check the address for a mistake.",
        "To find the right one, press Open at the unit in the console, or run",
        "gpuruntime units open NAME",
    ),
    Code.TOO_MANY_CONNECTIONS: Words(
        "Too many connections are open", "Close other pages of the unit, or wait.", _RELOAD
    ),
    Code.UPSTREAM_FAULT: Words(
        "The unit does not answer",
        "Your ticket counts, but the program in the unit did not answer as it should.",
        "Try again in a moment. If it stays so, see what the program says:",
        "gpuruntime units logs {unit}",
    ),
    Code.UNIT_WAKING: Words("The unit is starting", "It was suspended, and is being resumed."),
    Code.UNIT_SUSPENDED: Words(
        "The unit is suspended",
        "It does not run now, and a visit does not start it.",
        "To run it again, press Resume at the unit in the console, or run",
        "gpuruntime units resume {unit} --wait",
    ),
    Code.REVOCATION_UNKNOWN: Words(
        "The cluster is silent",
        "The gateway cannot see whether your ticket still counts, so it admits no new visitor.",
        "Try again in a minute.",
    ),
    Code.SERVICE_UNAVAILABLE: Words("Not ready yet", "", _RELOAD),
    Code.TIMEOUT: Words(
        "The unit took too long",
        "Whether it did what you asked for is unknown.",
        "See what its program says:",
        "gpuruntime units logs {unit}",
    ),
}
_OF_TICKETS: Final[Mapping[str, Words]] = {
    Refusal.INVALID: Words("The ticket is not valid", "", _TICKET, _OPEN),
    Refusal.EXPIRED: Words("The ticket has expired", "Its time is over.", _TICKET, _OPEN),
    Refusal.UNIT: Words(
        "The ticket is for another unit",
        "It may be for an earlier unit of the same name: a new one needs a new ticket.",
        _TICKET,
        _OPEN,
    ),
    Refusal.REVOKED: Words(
        "The ticket has been revoked",
        "The unit's owner has ended all tickets of before.",
        _TICKET,
        _OPEN,
    ),
    Refusal.USE: Words("The ticket is for another use", "", _TICKET, _OPEN),
    Refusal.PORT: Words(
        "The ticket is for another port",
        "Or the unit does not declare this one.",
        _TICKET,
        _OPEN,
    ),
}
_USED_LINK: Final = Words(
    "This link counts no longer",
    "A link with a ticket opens once, and within a minute after it was created.",
    _TICKET,
    _OPEN,
)


def wants_page(headers: MultiMapping[str]) -> bool:
    """Return whether a browser shows the answer as its page, and not a frame of another one.

    Browsers leave the mode out of requests without encryption. Then only they ask for HTML.
    """
    mode = headers.get("Sec-Fetch-Mode")
    if mode is None:
        return "text/html" in headers.get(hdrs.ACCEPT, "").lower()
    return mode == "navigate" and headers.get("Sec-Fetch-Dest", "document") == "document"


def place_of(host: Host, *, has_plain_hosts: bool) -> Place:
    """Return what the host names, without a look at any unit."""
    match host:
        case PortHost():
            return Place(unit=_unit_in(host.slug, has_plain_hosts), port=host.port)
        case TerminalHost():
            return Place(unit=_unit_in(host.slug, has_plain_hosts), is_terminal=True)
        case _:
            return Place()


def _unit_in(slug: str, has_plain_hosts: bool) -> str:
    """Return the unit's name, or "" if it cannot be told from the host."""
    name = name_in(slug)
    if has_plain_hosts:
        return slug if name is None else ""
    return name or ""


def refusal_page(
    error: GatewayError, place: Place, *, is_entrance: bool = False, is_get: bool = True
) -> web.Response:
    """Return the page of a refusal. The page of a waking unit loads itself again."""
    words = _words_of(error, place, is_entrance=is_entrance)
    is_waiting = error.code is Code.UNIT_WAKING and is_get
    again = f"<meta http-equiv=refresh content={RETRY_AFTER_SECONDS}>" if is_waiting else ""
    text = (
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width, initial-scale=1'>"
        f"{again}<title>{escape(words.title)}</title><style>{_STYLE}</style></head><body><main>"
        f"<h1>{escape(words.title)}</h1>"
        + "".join(f"<p>{escape(each)}</p>" for each in _happened(error, words, is_waiting))
        + _remedy(words, place)
        + f"<p class=muted>{error.status} {escape(_code_of(error))}: {escape(str(error))}</p>"
        "</main></body></html>\n"
    )
    headers = {**headers_of(error), "Content-Security-Policy": _POLICY}
    return web.Response(status=error.status, text=text, content_type="text/html", headers=headers)


def _words_of(error: GatewayError, place: Place, *, is_entrance: bool) -> Words:
    if error.code is not Code.TICKET_REFUSED:
        words = _WORDS.get(error.code, Words("The request was refused"))
    elif is_entrance and error.reason == Refusal.EXPIRED:
        words = _USED_LINK
    else:
        words = _OF_TICKETS.get(error.reason, _OF_TICKETS[Refusal.INVALID])
    if place.is_terminal and words.command == _OPEN:
        return attrs.evolve(words, remedy=_SHELL_TICKET, command=_SHELL)
    return words


def _happened(error: GatewayError, words: Words, is_waiting: bool) -> list[str]:
    found = [words.what] if words.what else []
    if error.state:
        found.append(f"The unit is not ready: {error.state}")
    if is_waiting:
        found.append("This page loads again by itself, until the unit answers.")
    elif error.code is Code.UNIT_WAKING:
        found.append("Send your request again in a moment: it was not kept.")
    return found


def _remedy(words: Words, place: Place) -> str:
    if not words.command:
        return f"<p>{escape(words.remedy)}</p>" if words.remedy else ""
    unit = place.unit or "NAME"
    command = words.command.format(unit=unit, port=f" {place.port}" if place.port else "")
    note = "<p>NAME is the name of the unit.</p>" if "NAME" in command else ""
    return f"<p>{escape(words.remedy)}</p><pre><code>{escape(command)}</code></pre>{note}"


def _code_of(error: GatewayError) -> str:
    return f"{error.code} ({error.reason})" if error.reason else str(error.code)
