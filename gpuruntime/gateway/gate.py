"""The decision whether a token reaches a unit now, from memory alone.

A token counts if our key signed it, and if uid, generation, use and port agree with the unit as
the mirror has it. It says nothing of a unit that the token is not for, not even that it exists.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final

import attrs

from gpuruntime.gateway.errors import Code, GatewayError
from gpuruntime.gateway.hosts import is_port_number
from gpuruntime.gateway.units import Units, declared_port
from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.requests.tickets import Use
from gpuruntime.tickets.addresses import slug_of
from gpuruntime.tickets.keys import KeyRing
from gpuruntime.tickets.tokens import (
    Claims,
    Refusal,
    Target,
    TokenRefusedError,
    TokenType,
    refusal_of,
    verify,
)

# Longer than two probes and two windows of the watch: after it, what is revoked is unknown.
UNKNOWN_AFTER_SECONDS: Final = 60.0


@attrs.frozen(kw_only=True, slots=True)
class Presented:
    """A token as a caller presented it; the place where it stood decides the type that counts."""

    kind: TokenType
    token: str = attrs.field(default="", repr=False)


@attrs.frozen(kw_only=True, slots=True)
class Wanted:
    """A caller's wish: the use of a unit, named by `name`, by `slug`, or (plain hosts) by both.

    `port` is a name or a number. If `only_declared`, an undeclared port is refused.
    """

    use: Use
    name: str = ""
    slug: str = ""
    port: str = ""
    only_declared: bool = True


@attrs.frozen(kw_only=True, slots=True)
class Visitor:
    """A caller whom the gate has admitted, with the unit as it was then."""

    claims: Claims
    unit: GPUUnit
    use: Use
    port: int | None = None

    @property
    def uid(self) -> str:
        return self.unit.metadata.uid


class Gate:
    def __init__(
        self,
        units: Units,
        ring: Callable[[], KeyRing | None],
        *,
        now: Callable[[], datetime],
        watch_age: Callable[[], float],
    ) -> None:
        """`watch_age` returns for how many seconds the mirror may have missed a revocation."""
        self._units = units
        self._ring = ring
        self._now = now
        self._watch_age = watch_age

    def recognize(self, presented: Presented, wanted: Wanted) -> Visitor:
        """Return the visitor, whose unit may be suspended. Raise GatewayError."""
        claims = self._claims_in(presented)
        demand_known(self._watch_age())
        return visit(claims, wanted, self._found(wanted))

    def unit_of_key(self, name: str) -> GPUUnit:
        """Return the unit for a caller with a key; it may be suspended. Raise GatewayError."""
        demand_known(self._watch_age())
        unit = self._units.named(name)
        if unit is None or provenance.is_terminating(unit):
            raise GatewayError(Code.UNIT_UNKNOWN, "no such unit runs")
        return unit

    def _claims_in(self, presented: Presented) -> Claims:
        if not presented.token:
            raise GatewayError(Code.TICKET_MISSING, "a ticket is needed, and none is presented")
        ring = self._ring()
        if ring is None:
            raise GatewayError(
                Code.SERVICE_UNAVAILABLE, "the gateway has no keys of tickets yet: retry later"
            )
        try:
            return verify(presented.token, presented.kind, ring, self._now().timestamp())
        except TokenRefusedError as error:
            raise refused(error.reason) from error

    def _found(self, wanted: Wanted) -> GPUUnit | None:
        found = self._units.with_slug(wanted.slug) if wanted.slug else None
        return found or (self._units.named(wanted.name) if wanted.name else None)


def demand_known(watch_age_seconds: float) -> None:
    """Raise GatewayError if a revocation of the last minute may be unknown."""
    if watch_age_seconds > UNKNOWN_AFTER_SECONDS:
        raise GatewayError(
            Code.REVOCATION_UNKNOWN,
            "the cluster is silent, so it is unknown whether the ticket is revoked: retry later",
        )


def visit(claims: Claims, wanted: Wanted, unit: GPUUnit | None) -> Visitor:
    """Return the visitor of the unit that was found, if any. Raise GatewayError."""
    names_it = wanted.name == claims.unit or wanted.slug == slug_of(claims.unit, claims.uid)
    if not names_it:
        raise refused(Refusal.UNIT)
    if unit is None or provenance.is_terminating(unit):
        raise GatewayError(Code.UNIT_UNKNOWN, f"unit {claims.unit} does not exist any more")
    port = _port_of(unit, wanted)
    target = Target(
        uid=unit.metadata.uid,
        generation=unit.spec.access.generation,
        use=wanted.use,
        port=port,
    )
    if refusal := refusal_of(claims, target):
        raise refused(refusal)
    if wanted.port and port is None:
        raise refused(Refusal.PORT)
    return Visitor(claims=claims, unit=unit, use=wanted.use, port=port)


def refused(reason: Refusal) -> GatewayError:
    return GatewayError(Code.TICKET_REFUSED, _WORDS[reason], reason=reason)


def demand_reachable(unit: GPUUnit) -> None:
    """Raise GatewayError if the unit is suspended, unless its callers resume it."""
    if unit.spec.suspended and not unit.spec.access.wake:
        raise suspended_error(unit, "resume it, or set access.wake")


def suspended_error(unit: GPUUnit, remedy: str) -> GatewayError:
    return GatewayError(Code.UNIT_SUSPENDED, f"unit {unit.metadata.name} is suspended: {remedy}")


def _port_of(unit: GPUUnit, wanted: Wanted) -> int | None:
    """Return the port's number, or None if none is named or the unit does not declare it."""
    declared = declared_port(unit, wanted.port) if wanted.port else None
    if declared is not None or wanted.only_declared:
        return declared
    return int(wanted.port) if is_port_number(wanted.port) else None


_WORDS: Final = {
    Refusal.INVALID: "the ticket is not valid: create another one",
    Refusal.EXPIRED: "the ticket has expired: create another one",
    Refusal.UNIT: "the ticket is for another unit, or for an earlier one of its name",
    Refusal.REVOKED: "the ticket has been revoked: create another one",
    Refusal.USE: "the ticket does not allow this use: create one with this use",
    Refusal.PORT: "the ticket is not for this port, or the unit does not declare it",
}
