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

from gpuruntime.gateway.errors import GatewayError
from gpuruntime.gateway.gate import Gate, Presented, Visitor, Wanted
from gpuruntime.models.definitions.ssh_keys import fault_of_ssh_key
from gpuruntime.models.requests.tickets import Use
from gpuruntime.tickets.tokens import Claims, TokenType

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
        """Return the visitor of the unit of this name. Raise GatewayError."""
        presented = Presented(kind=TokenType.TICKET, token=ticket)
        return self._gate.admit(presented, Wanted(use=Use.SSH, name=user))

    def has_key(self, user: str, key: bytes) -> bool:
        """Return whether the running unit of this name lists the key, given as its blob."""
        try:
            unit = self._gate.running_unit(user)
        except GatewayError:
            return False
        return any(key == blob_of(line) for line in unit.spec.access.sshKeys)

    def by_key(self, user: str, key: bytes) -> Visitor | None:
        """Return the visitor, or None if the unit does not list the key. Raise GatewayError."""
        unit = self._gate.running_unit(user)
        if not any(key == blob_of(line) for line in unit.spec.access.sshKeys):
            return None
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
