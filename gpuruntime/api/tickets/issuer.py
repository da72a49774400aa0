"""The decision on a ticket, from a unit and a request, and its signature."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from random import Random
from typing import Final

import attrs

from gpuruntime.api.errors import ExecOffError, GatewayOffError, PortUnknownError
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.templates import PortProtocol
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.requests.tickets import CreateTicket, Use
from gpuruntime.models.views.tickets import SshAddress, TicketUnit, TicketView
from gpuruntime.strict.structure import Problem, read
from gpuruntime.tickets.addresses import GatewayAddress, entrance_of, slug_of
from gpuruntime.tickets.keys import KeyRing
from gpuruntime.tickets.tokens import BOUND_TO_PORT, Claims, TokenType, sign, subject_of

# How long the entry within a URL counts: the URL reaches histories, logs and other eyes.
ENTRY_SECONDS: Final = 60
# These uses reach the container itself, and need `gpuunits/exec` and the component of that name.
OF_CONTAINER: Final = frozenset({Use.EXEC, Use.SSH})
_LAST_PORT: Final = 65_535
# The length of a port is bounded by its schema.
_NUMBER: Final = re.compile(r"-?[0-9]{1,15}")
_SSH_PORT: Final = 22


@attrs.frozen(kw_only=True, slots=True)
class GatewayOptions:
    """The gateway as callers reach it; without an address there is none.

    `host_keys` are those of its SSH server, which is within WebSockets if it has no address.
    """

    address: GatewayAddress | None
    ssh_address: tuple[str, int] | None
    host_keys: tuple[str, ...]
    has_exec: bool


NO_GATEWAY: Final = GatewayOptions(address=None, ssh_address=None, host_keys=(), has_exec=False)


def parse_create_ticket(document: object) -> CreateTicket:
    """Read a request, whose port may be a number. Raise StrictError."""
    if isinstance(document, dict) and type(document.get("port")) is int:
        document = {**document, "port": str(document["port"])}
    return read(document, CreateTicket, _port_problems(document))


def _port_problems(document: object) -> Iterator[Problem]:
    members = document if isinstance(document, dict) else {}
    uses, port = members.get("uses"), members.get("port")
    if isinstance(uses, list):
        if Use.HTTP in uses and not port:
            yield Problem(field="port", message="is needed for http: a name or a number")
        if port and not any(use in uses for use in BOUND_TO_PORT):
            yield Problem(field="port", message="is for http and forward: leave it out")
    number = int(str(port)) if _NUMBER.fullmatch(str(port)) else 1
    if not 0 < number <= _LAST_PORT:
        yield Problem(field="port", message=f"must be a name or a number from 1 to {_LAST_PORT}")


class TicketIssuer:
    """Nothing is stored for a ticket, so any replica issues and any gateway verifies it."""

    def __init__(
        self,
        options: GatewayOptions,
        ring: Callable[[], KeyRing | None],
        *,
        now: Callable[[], datetime],
        rng: Random,
    ) -> None:
        self._options = options
        self._ring = ring
        self._now = now
        self._rng = rng

    def issue(self, unit: GPUUnit, request: CreateTicket, caller: str) -> tuple[str, TicketView]:
        """Return the ticket's id for logs and the ticket. Raise RequestError."""
        address, ring = self._options.address, self._ring()
        if address is None or ring is None:
            why = (
                "no keys are in its file, gateway.keyFile"
                if address
                else "gateway.publicURL is not set"
            )
            raise GatewayOffError(f"no gateway reaches units here: {why}")
        claims = self._claims(unit, request, caller)
        return claims.jti, self._view(claims, address, ring)

    def _claims(self, unit: GPUUnit, request: CreateTicket, caller: str) -> Claims:
        name = unit.metadata.name
        if not self._options.has_exec and OF_CONTAINER.intersection(request.uses):
            raise ExecOffError(
                f"unit {name} is reached by its ports only: the gateway runs without exec"
            )
        port = port_of(unit, request, has_exec=self._options.has_exec)
        if request.port and port is None:
            raise PortUnknownError(f"unit {name} declares no TCP port {request.port}")
        issued_at = int(self._now().timestamp())
        return Claims(
            jti=self._new_id(),
            uid=unit.metadata.uid,
            unit=name,
            gen=unit.spec.access.generation,
            use=request.uses,
            port=port,
            iat=issued_at,
            exp=issued_at + request.seconds,
            sub=subject_of(caller),
            tenant=unit.metadata.labels.get(labels.TENANT) or None,
        )

    def _view(self, claims: Claims, address: GatewayAddress, ring: KeyRing) -> TicketView:
        name, slug, uses = claims.unit, slug_of(claims.unit, claims.uid), claims.use
        has_port, has_terminal = Use.HTTP in uses and claims.port, Use.EXEC in uses
        query = {} if claims.port is None else {"port": str(claims.port)}
        return TicketView(
            ticket=sign(claims, TokenType.TICKET, ring.signing),
            expiresAt=datetime.fromtimestamp(claims.exp, UTC),
            unit=TicketUnit(name=name, uid=claims.uid, generation=claims.gen),
            uses=uses,
            url=self._entrance(address.of_port(slug, has_port), claims, Use.HTTP, ring)
            if has_port
            else "",
            terminalURL=self._entrance(address.of_terminal(slug), claims, Use.EXEC, ring)
            if has_terminal
            else "",
            execURL=address.of_program(name, "exec", {}) if Use.EXEC in uses else "",
            forwardURL=address.of_program(name, "forward", query) if Use.FORWARD in uses else "",
            ssh=self._ssh(name) if Use.SSH in uses else None,
            sshURL=address.of_program(name, "ssh", {}) if Use.SSH in uses else "",
            commands=commands_of(claims, address),
        )

    def _entrance(self, origin: str, claims: Claims, use: Use, ring: KeyRing) -> str:
        """Return a URL with an entry for this use alone; a leaked one is worth a minute."""
        entry = attrs.evolve(
            claims,
            jti=self._new_id(),
            use=(use,),
            port=claims.port if use in BOUND_TO_PORT else None,
            exp=min(claims.exp, claims.iat + ENTRY_SECONDS),
            until=claims.exp,
        )
        return entrance_of(origin, sign(entry, TokenType.ENTRY, ring.signing))

    def _ssh(self, user: str) -> SshAddress | None:
        keys = self._options.host_keys
        if self._options.ssh_address is not None:
            host, port = self._options.ssh_address
            beside = "" if port == _SSH_PORT else f"-p {port} "
            command = f"ssh {beside}{user}@{host}"
        elif keys:
            host, port, command = "", 0, f"gpuruntime units ssh {user}"
        else:
            return None
        return SshAddress(host=host, port=port, user=user, command=command, hostKeys=keys)

    def _new_id(self) -> str:
        return f"{self._rng.getrandbits(128):032x}"


def commands_of(claims: Claims, address: GatewayAddress) -> dict[str, str]:
    """Return a line for a shell for each way that the ticket opens; none contains the ticket."""
    unit, port = claims.unit, claims.port
    found: dict[str, str] = {}
    if Use.HTTP in claims.use and port:
        origin = address.of_port(slug_of(unit, claims.uid), port)
        found["open"] = f"gpuruntime units open {unit} {port}"
        found["curl"] = f'curl -H "Authorization: Bearer $TICKET" {origin}/'
    if Use.EXEC in claims.use:
        found["exec"] = f"gpuruntime units exec {unit} -- uname -a"
        found["shell"] = f"gpuruntime units shell {unit}"
        found["cp"] = f"gpuruntime units cp FILE {unit}:FILE"
    if Use.FORWARD in claims.use:
        found["forward"] = f"gpuruntime units forward {unit} {port or 'PORT'}"
    if Use.SSH in claims.use:
        found["ssh"] = f"gpuruntime units ssh {unit}"
    return found


def port_of(unit: GPUUnit, request: CreateTicket, *, has_exec: bool) -> int | None:
    """Return the number of the port, or None if it is not given or cannot be reached.

    Ports that are not declared are the Pod's own loopback: only forwards through exec reach them.
    """
    ports = unit.spec.template.ports
    declared = {each.name: each.port for each in ports if each.protocol == PortProtocol.TCP}
    asked = request.port
    number = int(asked) if asked.isascii() and asked.isdecimal() else 0
    if asked in declared or number in declared.values():
        return declared.get(asked, number)
    reaches_loopback = has_exec and Use.HTTP not in request.uses
    return (number or None) if reaches_loopback else None
