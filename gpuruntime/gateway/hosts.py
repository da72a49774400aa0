"""The host of a request: a port of a unit, a unit's terminal, or the host for programs.

Only the canonical form counts: one origin must not have a second name.
"""

import re
from typing import Final, TypeAlias

import attrs

from gpuruntime.gateway.errors import Code, GatewayError
from gpuruntime.tickets.addresses import PROGRAMS, TERMINAL, GatewayAddress

_LONGEST_LABEL: Final = 63
_LABEL: Final = re.compile(
    r"(?=.{1,15}--)((?:[a-z0-9]+-)*[a-z0-9]+)--([a-z0-9](?:[a-z0-9-]*[a-z0-9])?)"
)
_PORT_SUFFIX: Final = re.compile(r":[1-9][0-9]{0,4}\Z")
_NUMBER: Final = re.compile(r"[0-9]+")
_PORT_NUMBER: Final = re.compile(r"[1-9][0-9]{0,4}")
_LAST_PORT: Final = 65_535


@attrs.frozen(slots=True)
class PortHost:
    """The origin of one port, by name or number, of the unit with this slug."""

    port: str
    slug: str


@attrs.frozen(slots=True)
class TerminalHost:
    slug: str


@attrs.frozen(slots=True)
class ProgramHost:
    """The host for programs: it serves the paths below /units, and sets no cookie."""


Host: TypeAlias = PortHost | TerminalHost | ProgramHost


def parse_host(text: str, address: GatewayAddress) -> Host:
    """Return what the header Host names. Raise GatewayError for a host that is none of ours."""
    name = _PORT_SUFFIX.sub("", text)
    domain = _PORT_SUFFIX.sub("", address.domain)
    label = name.removesuffix(f".{domain}")
    if label == name or len(label) > _LONGEST_LABEL:
        raise _misdirected()
    if label == PROGRAMS:
        return ProgramHost()
    found = _LABEL.fullmatch(label)
    if found is None:
        raise _misdirected()
    port, slug = found.groups()
    if port == TERMINAL:
        return TerminalHost(slug)
    if _NUMBER.fullmatch(port) and not is_port_number(port):
        raise _misdirected()
    return PortHost(port, slug)


def is_port_number(text: str) -> bool:
    return _PORT_NUMBER.fullmatch(text) is not None and int(text) <= _LAST_PORT


def _misdirected() -> GatewayError:
    return GatewayError(
        Code.MISDIRECTED, "this host is no port of a unit, nor the host for programs"
    )
