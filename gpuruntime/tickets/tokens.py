"""Signed tokens: compact JWS by HMAC-SHA-256, one type for each purpose.

The header of a type is fixed but for the id of its key. A token with any other header is rejected
before a key is looked for, so that no algorithm, type or embedded key can be negotiated.
"""

import base64
import binascii
import hashlib
import hmac
import json
import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Final

import attrs

from gpuruntime.errors import GpuRuntimeError
from gpuruntime.models.requests.tickets import Use
from gpuruntime.tickets.keys import KEY_ID, KeyRing, TicketKey

ISSUER: Final = "gpuruntime"
# Characters. Names and tenants are bounded, and issuers cut callers to LONGEST_SUBJECT bytes of
# UTF-8, which JSON may write as six characters each. So no token of ours is longer.
LONGEST_TOKEN: Final = 4096
LONGEST_SUBJECT: Final = 256
_COMPACT: Final = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)")


class TokenType(StrEnum):
    """The purposes of tokens; a token of one type is never accepted as one of another.

    A ticket is handed to a caller. An entry is within a URL, and becomes a session of a browser.
    With a wake token the gateway asks the API to resume a unit.
    """

    TICKET = "gpuruntime-ticket"
    ENTRY = "gpuruntime-entry"
    SESSION = "gpuruntime-session"
    WAKE = "gpuruntime-wake"


class Refusal(StrEnum):
    """Why a token does not count; INVALID means that none of our keys signed it for this type."""

    INVALID = "invalid"
    EXPIRED = "expired"
    UNIT = "unit"
    REVOKED = "revoked"
    USE = "use"
    PORT = "port"


# A ticket for a port is bound to it by these uses; the others reach the container itself.
BOUND_TO_PORT: Final = frozenset({Use.HTTP, Use.FORWARD})


class TokenRefusedError(GpuRuntimeError):
    """The token does not count; the message never contains it."""

    def __init__(self, reason: Refusal) -> None:
        super().__init__(f"the token is refused: {reason}")
        self.reason = reason


@attrs.frozen(kw_only=True, slots=True)
class Claims:
    """The content of a token: which unit, for what, for whom and until when (Unix seconds).

    `gen` is the unit's `access.generation`, `sub` the caller, and `jti` names the token in logs.
    An entry has in `until` when the session that it becomes ends.
    """

    jti: str
    uid: str
    unit: str
    gen: int
    use: tuple[Use, ...]
    iat: int
    exp: int
    sub: str
    port: int | None = None
    tenant: str | None = None
    until: int | None = None


@attrs.frozen(kw_only=True, slots=True)
class Target:
    """A use that a bearer asks for, of a unit as it is now and of one of its ports."""

    uid: str
    generation: int
    use: Use
    port: int | None = None


def subject_of(caller: str) -> str:
    """Return the beginning of the caller's name, in whole characters, as a `sub` may have it."""
    return caller.encode()[:LONGEST_SUBJECT].decode(errors="ignore")


def sign(claims: Claims, kind: TokenType, key: TicketKey) -> str:
    """Return the token; raise ValueError if it is longer than any that is accepted."""
    members = {name: value for name, value in attrs.asdict(claims).items() if value is not None}
    payload = json.dumps({"iss": ISSUER, **members}, separators=(",", ":"))
    signed = f"{_encoded(_header(kind, key.id))}.{_encoded(payload.encode())}"
    token = f"{signed}.{_signature(signed, key)}"
    if len(token) > LONGEST_TOKEN:
        raise ValueError(f"a token of {len(token)} characters: at most {LONGEST_TOKEN} count")
    return token


def verify(token: str, kind: TokenType, ring: KeyRing, now: float) -> Claims:
    """Return the claims of a token of this type. Raise TokenRefusedError."""
    found = _COMPACT.fullmatch(token) if len(token) <= LONGEST_TOKEN else None
    if found is None:
        raise TokenRefusedError(Refusal.INVALID)
    header, payload, signature = found.groups()
    key = ring.find(_key_id_in(header, kind), now)
    if key is None:
        raise TokenRefusedError(Refusal.INVALID)
    # The texts are compared: base64 has several texts for the same bytes.
    ours = _signature(f"{header}.{payload}", key)
    if not hmac.compare_digest(ours.encode(), signature.encode()):
        raise TokenRefusedError(Refusal.INVALID)
    claims = _claims_in(payload)
    if now >= claims.exp:
        raise TokenRefusedError(Refusal.EXPIRED)
    return claims


def is_ours(text: str) -> bool:
    """Return whether the text looks like a token of ours of any type, valid or not."""
    found = _COMPACT.fullmatch(text) if len(text) <= LONGEST_TOKEN else None
    try:
        return found is not None and b'"typ":"gpuruntime-' in _decoded(found[1])
    except TokenRefusedError:
        return False


def refusal_of(claims: Claims, target: Target) -> Refusal | None:
    """Return why the claims do not reach the target, or None if they do.

    Another unit is named first: nothing is said about a unit that the token is not for.
    """
    return next(_refusals(claims, target), None)


def _refusals(claims: Claims, target: Target) -> Iterator[Refusal]:
    if claims.uid != target.uid:
        yield Refusal.UNIT
    if claims.gen < target.generation:
        yield Refusal.REVOKED
    if target.use not in claims.use:
        yield Refusal.USE
    is_bound = target.use in BOUND_TO_PORT and claims.port is not None
    if is_bound and claims.port != target.port:
        yield Refusal.PORT


def _header(kind: TokenType, key_id: str) -> bytes:
    return f'{{"alg":"HS256","kid":"{key_id}","typ":"{kind}"}}'.encode()


def _key_id_in(header: str, kind: TokenType) -> str:
    """Return the id of the key; raise TokenRefusedError unless the header is exactly ours."""
    before, _, after = _header(kind, "\n").partition(b"\n")
    pattern = re.escape(before) + b"(" + KEY_ID.encode() + b")" + re.escape(after)
    found = re.fullmatch(pattern, _decoded(header))
    if found is None or _encoded(found[0]) != header:
        raise TokenRefusedError(Refusal.INVALID)
    return found[1].decode()


def _claims_in(payload: str) -> Claims:
    """Return the claims of a signed payload; refuse unknown claims, which may restrict it."""
    try:
        members: dict[str, Any] = json.loads(_decoded(payload))
        if members.pop("iss") != ISSUER:
            raise TokenRefusedError(Refusal.INVALID)
        return Claims(**{**members, "use": tuple(map(Use, members["use"]))})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise TokenRefusedError(Refusal.INVALID) from error


def _signature(signed: str, key: TicketKey) -> str:
    return _encoded(hmac.digest(key.secret, signed.encode(), hashlib.sha256))


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error as error:
        raise TokenRefusedError(Refusal.INVALID) from error
