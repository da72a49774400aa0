"""Addresses below the gateway's public URL: one origin for each port of a unit's incarnation.

A slug contains a digest of the uid. So no later unit of a name gets an origin of an earlier one,
with the service workers and the storage that browsers keep for it.
"""

import base64
import hashlib
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

import attrs

from gpuruntime.models.kubernetes.names import is_dns_subdomain

_PUBLIC_URL: Final = re.compile(r"(https?)://\*\.([^:/]+)(:[1-9][0-9]{0,4})?")
_LAST_PORT: Final = 65_535
_LONGEST_HOST: Final = 253
# Characters of the unit's name, and of the digest of its uid.
_NAME, _DIGEST = 40, 8
_SLUG: Final = re.compile(rf"(.+)-[a-z2-7]{{{_DIGEST}}}")
# The longest label of ours, with the dot behind it.
_LONGEST_PREFIX: Final = len("65535--") + _NAME + 1 + _DIGEST + 1
ENTER: Final = "/.gpuruntime/enter"
# Hosts of units contain `--`, and this one does not.
PROGRAMS: Final = "gateway"
# Stands for a port in the host of a unit's terminal.
TERMINAL: Final = "terminal"


def slug_of(name: str, uid: str) -> str:
    """Return the unit in a host name. It names one incarnation, and is never used again."""
    digest = base64.b32encode(hashlib.sha256(uid.encode()).digest()).decode().lower()
    return f"{name[:_NAME]}-{digest[:_DIGEST]}"


def name_in(slug: str) -> str | None:
    """Return the unit's name in a slug, "" if it may have been cut, or None if this is no slug."""
    found = _SLUG.fullmatch(slug)
    if found is None:
        return None
    return found[1] if len(found[1]) < _NAME else ""


@attrs.frozen(kw_only=True, slots=True)
class GatewayAddress:
    """The gateway's address for callers; `domain` has the port unless it is the scheme's own."""

    scheme: str
    domain: str

    def of_port(self, slug: str, port: int) -> str:
        """Return the origin of a port, by its number.

        A name may not fit into the label, and one that is `terminal` would have another's origin.
        """
        return f"{self.scheme}://{port}--{slug}.{self.domain}"

    def of_terminal(self, slug: str) -> str:
        return f"{self.scheme}://{TERMINAL}--{slug}.{self.domain}"

    def of_program(self, unit: str, verb: str, query: Mapping[str, str]) -> str:
        """Return the WebSocket address of a verb on a unit, for programs."""
        secure = "s" if self.scheme == "https" else ""
        asked = f"?{urlencode(query)}" if query else ""
        return f"ws{secure}://{PROGRAMS}.{self.domain}/units/{unit}/{verb}{asked}"


def entrance_of(origin: str, entry: str) -> str:
    """Return the URL at which a browser turns the entry into a session of this origin."""
    return f"{origin}{ENTER}?{urlencode({'ticket': entry, 'to': '/'})}"


def parse_public_url(text: str) -> GatewayAddress:
    """Read a URL such as `https://*.units.example.com`. Raise ValueError."""
    found = _PUBLIC_URL.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no URL such as https://*.units.example.com")
    scheme, domain, port = found.groups(default="")
    if not is_dns_subdomain(domain) or _LONGEST_PREFIX + len(domain) > _LONGEST_HOST:
        raise ValueError(f"{domain!r} is no domain of at most {_LONGEST_HOST - _LONGEST_PREFIX}")
    if port and int(port[1:]) > _LAST_PORT:
        raise ValueError(f"{port[1:]} is no port")
    return GatewayAddress(scheme=scheme, domain=f"{domain}{port}")
