"""Configuration of the gateway, and of its address as other roles name it to callers."""

import re
from enum import StrEnum
from typing import Final

import attrs

from gpuruntime.models.kinds.activity import ACTIVITY_PORT
from gpuruntime.models.kubernetes.names import is_dns_subdomain
from gpuruntime.settings.checks import refuse
from gpuruntime.settings.values import Address, Amount, bytes_of
from gpuruntime.strict.durations import Seconds
from gpuruntime.strict.structure import FieldError
from gpuruntime.tickets.addresses import GatewayAddress, parse_public_url

_SSH_PORT: Final = 22
_LAST_PORT: Final = 65_535
_HOST: Final = re.compile(r"([^:]+)(?::([1-9][0-9]{0,4}))?")
_URL: Final = re.compile(r"https?://[^/?#@\s]+")
# Browsers and proxies take heads of this size for granted.
_SMALLEST_HEAD: Final = 8190


class WhenUnknown(StrEnum):
    KEEP = "keep"
    END = "end"


class SftpMode(StrEnum):
    """The server of SFTP: the image's own or files over `sh`, always the latter, or none."""

    AUTO = "auto"
    SHELL = "shell"
    OFF = "off"


@attrs.frozen(kw_only=True, slots=True)
class GatewaySshSettings:
    """SSH is off without a host key. It is within WebSockets, and at `listen` if that is set.

    `host` is the listener's address for callers; its port is 22 if none is named.
    """

    listen: Address | None = None
    host: str = ""
    hostKeyFile: str = ""
    sftp: SftpMode = SftpMode.AUTO

    def __attrs_post_init__(self) -> None:
        listens = self.listen is not None
        words = "is empty: a listener of SSH needs a host key"
        refuse(("hostKeyFile", listens and not self.hostKeyFile, words))
        found = _HOST.fullmatch(self.host)
        is_sound = found and is_dns_subdomain(found[1]) and int(found[2] or 1) <= _LAST_PORT
        message = f"{self.host!r} is no host such as ssh.example.com or ssh.example.com:2222"
        refuse(("host", bool(self.host) and not is_sound, message))

    @property
    def address(self) -> tuple[str, int] | None:
        name, _, port = self.host.partition(":")
        return (name, int(port or _SSH_PORT)) if name else None


@attrs.frozen(kw_only=True, slots=True)
class GatewayConnectionSettings:
    """The most connections of one replica: of all callers, a unit, a ticket, and programs."""

    all: int = 4096
    perUnit: int = 256
    perTicket: int = 64
    execPerUnit: int = 16

    def __attrs_post_init__(self) -> None:
        refuse(
            *((key, value < 1, "must be at least 1") for key, value in attrs.asdict(self).items())
        )


@attrs.frozen(kw_only=True, slots=True)
class GatewayByteSettings:
    """Limits in bytes: of a request's head, of what waits for a slow side, and of an upload."""

    head: int = 32_768
    buffered: int = 262_144
    upload: Amount = Amount("100Gi")

    def __attrs_post_init__(self) -> None:
        refuse(
            ("head", self.head < _SMALLEST_HEAD, f"must be at least {_SMALLEST_HEAD}"),
            ("buffered", self.buffered < 1, "must be at least 1"),
        )

    @property
    def most_bytes(self) -> int:
        return bytes_of(self.upload)


@attrs.frozen(kw_only=True, slots=True)
class GatewayTimeSettings:
    """Limits in time: until a unit is connected, has answered, and while no byte moves."""

    connect: Seconds = Seconds(5.0)
    head: Seconds = Seconds(60.0)
    idle: Seconds = Seconds(900.0)
    execIdle: Seconds = Seconds(14_400.0)
    longest: Seconds = Seconds(86_400.0)
    handshake: Seconds = Seconds(10.0)
    wakeHold: Seconds = Seconds(60.0)


@attrs.frozen(kw_only=True, slots=True)
class GatewaySettings:
    """The gateway is off without a `publicURL`: no unit has a URL, and no caller gets a ticket."""

    listen: Address = Address("127.0.0.1", 8090)
    activityListen: Address = Address("127.0.0.1", ACTIVITY_PORT)
    publicURL: str = ""
    plainHosts: bool = False
    keyFile: str = "/etc/gpuruntime-secrets/tickets.yaml"
    api: str = ""
    connections: GatewayConnectionSettings = GatewayConnectionSettings()
    bytes: GatewayByteSettings = GatewayByteSettings()
    time: GatewayTimeSettings = GatewayTimeSettings()
    grace: Seconds = Seconds(5.0)
    exec: bool = True
    ssh: GatewaySshSettings = GatewaySshSettings()
    whenUnknown: WhenUnknown = WhenUnknown.KEEP

    def __attrs_post_init__(self) -> None:
        if self.publicURL:
            try:
                parse_public_url(self.publicURL)
            except ValueError as error:
                raise FieldError("publicURL", str(error)) from error
            refuse(("keyFile", not self.keyFile, "is empty: a gateway needs keys for its tickets"))
        is_url = not self.api or _URL.fullmatch(self.api) is not None
        refuse(("api", not is_url, f"{self.api!r} is no URL such as http://gpuruntime-api:8080"))

    @property
    def address(self) -> GatewayAddress | None:
        return parse_public_url(self.publicURL) if self.publicURL else None
