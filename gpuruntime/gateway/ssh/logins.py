"""Logins: by a ticket for SSH, or by a private key whose public half the unit lists.

A login by key counts as one with a ticket that was issued at that moment. So the unit's
generation, its suspension and its end revoke it.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable
from datetime import datetime
from typing import Final

from gpuruntime.gateway.errors import Code, GatewayError
from gpuruntime.gateway.gate import Gate, Presented, Visitor, Wanted, demand_reachable
from gpuruntime.models.definitions.ssh_keys import fault_of_ssh_key
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.requests.tickets import Use
from gpuruntime.tickets.tokens import Claims, Refusal, TokenType

# Whatever else the unit lists: DSA, certificates and options of old are no keys here.
ALLOWED: Final = frozenset(
    {
        "ssh-ed25519",
        "ssh-rsa",
        "ecdsa-sha2-nistp256",
        "ecdsa-sha2-nistp384",
        "ecdsa-sha2-nistp521",
        "sk-ssh-ed25519@openssh.com",
        "sk-ecdsa-sha2-nistp256@openssh.com",
    }
)


class Logins:
    def __init__(self, gate: Gate, *, now: Callable[[], datetime], longest_seconds: float) -> None:
        self._gate = gate
        self._now = now
        self._longest_seconds = longest_seconds

    def by_ticket(self, user: str, ticket: str) -> Visitor:
        """Return the visitor of the unit of this name, if it runs or may be resumed.

        Raise GatewayError.
        """
        presented = Presented(kind=TokenType.TICKET, token=ticket)
        visitor = self._gate.recognize(presented, Wanted(use=Use.SSH, name=user))
        demand_reachable(visitor.unit)
        return visitor

    def has_key(self, user: str, key: bytes) -> bool:
        """Return whether the unit of this name lists the key, given as its blob."""
        try:
            return _lists(self._gate.unit_of_key(user), key)
        except GatewayError:
            return False

    def by_key(self, user: str, key: bytes) -> Visitor:
        """Return the visitor of the unit of this name, if it lists the key.

        Raise GatewayError, also for a suspended unit that callers do not resume.
        """
        unit = self._gate.unit_of_key(user)
        if not _lists(unit, key):
            raise GatewayError(
                Code.TICKET_REFUSED, "the unit no longer lists the key", reason=Refusal.REVOKED
            )
        demand_reachable(unit)
        name, issued_at = f"key:{fingerprint_of(key)}", int(self._now().timestamp())
        claims = Claims(
            jti=name,
            uid=unit.metadata.uid,
            unit=unit.metadata.name,
            gen=unit.spec.access.generation,
            use=(Use.SSH,),
            iat=issued_at,
            exp=issued_at + int(self._longest_seconds),
            sub=name,
        )
        return Visitor(claims=claims, unit=unit, use=Use.SSH)


def _lists(unit: GPUUnit, key: bytes) -> bool:
    return any(key == blob_of(line) for line in unit.spec.access.sshKeys)


def blob_of(line: str) -> bytes | None:
    """Return the key of a line as it is sent, or None for a line that is no sound key.

    Objects may reach the cluster past the API, so that each line is judged again.
    """
    words = line.split(" ", 2)
    if len(words) < 2 or words[0] not in ALLOWED or fault_of_ssh_key(line):
        return None
    try:
        return base64.b64decode(words[1], validate=True)
    except binascii.Error:
        return None


def fingerprint_of(key: bytes) -> str:
    """Return the fingerprint as OpenSSH writes it."""
    digest = base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")
    return f"SHA256:{digest}"
