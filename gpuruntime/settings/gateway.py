"""Configuration of the gateway, as the roles that name it to callers know it."""

import re
from typing import Final

import attrs

from gpuruntime.models.kubernetes.names import is_dns_subdomain
from gpuruntime.settings.checks import refuse
from gpuruntime.strict.structure import FieldError
from gpuruntime.tickets.addresses import GatewayAddress, parse_public_url

_SSH_PORT: Final = 22
_LAST_PORT: Final = 65_535
_HOST: Final = re.compile(r"([^:]+)(?::([1-9][0-9]{0,4}))?")


@attrs.frozen(kw_only=True, slots=True)
class GatewaySshSettings:
    """The address of the gateway's SSH listener for callers; its port is 22 if none is named."""

    host: str = ""

    def __attrs_post_init__(self) -> None:
        found = _HOST.fullmatch(self.host)
        is_sound = found and is_dns_subdomain(found[1]) and int(found[2] or 1) <= _LAST_PORT
        message = f"{self.host!r} is no host such as ssh.example.com or ssh.example.com:2222"
        refuse(("host", bool(self.host) and not is_sound, message))

    @property
    def address(self) -> tuple[str, int] | None:
        name, _, port = self.host.partition(":")
        return (name, int(port or _SSH_PORT)) if name else None


@attrs.frozen(kw_only=True, slots=True)
class GatewaySettings:
    """The gateway is off without a `publicURL`: no unit has a URL, and no caller gets a ticket."""

    publicURL: str = ""
    keyFile: str = "/etc/gpuruntime-secrets/tickets.yaml"
    exec: bool = True
    ssh: GatewaySshSettings = GatewaySshSettings()

    def __attrs_post_init__(self) -> None:
        if self.publicURL:
            try:
                parse_public_url(self.publicURL)
            except ValueError as error:
                raise FieldError("publicURL", str(error)) from error
            refuse(("keyFile", not self.keyFile, "is empty: a gateway needs keys for its tickets"))

    @property
    def address(self) -> GatewayAddress | None:
        return parse_public_url(self.publicURL) if self.publicURL else None
