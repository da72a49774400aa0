"""Users of a NATS account, created on demand: each gets its own key and a signed JWT.

Contract: a broker in operator mode accepts these credentials without knowing the user before. They
permit exactly the given rights until they expire.
"""

import base64
import hashlib
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

import attrs
import msgspec

from gpuruntime.bus.credentials import secret_in
from gpuruntime.bus.errors import UnavailableError
from gpuruntime.bus.names import Names, Rights, worker_rights

SEED_BYTES: Final = 32
_ALGORITHM: Final = "ed25519-nkey"
_BOUNDLESS: Final = -1
_encoder = msgspec.json.Encoder()


@attrs.frozen(kw_only=True, slots=True)
class SigningOptions:
    """`account` is the account's public key. It is required if the seed is a signing key."""

    seed_file: str
    account: str
    lifetime_seconds: float


@attrs.frozen(kw_only=True, slots=True)
class UserCredentials:
    """`text` is a credentials file in the format of NATS clients."""

    text: str = attrs.field(repr=False)
    expires_at: datetime


class Mint:
    """Creates user credentials. It reads the seed for each user, so a new key needs no restart."""

    def __init__(
        self,
        options: SigningOptions,
        names: Names,
        *,
        now: Callable[[], datetime],
        entropy: Callable[[int], bytes],
    ) -> None:
        self._options = options
        self._names = names
        self._now = now
        self._entropy = entropy

    @property
    def lifetime_seconds(self) -> float:
        return self._options.lifetime_seconds

    def purpose(self, function: str) -> str:
        """Return a value that changes whenever new credentials would say something else.

        Raise UnavailableError if the seed is invalid.
        """
        signer = _key(secret_in(self._options.seed_file), self._options.seed_file)
        rights = worker_rights(self._names, function)
        said = [_public(signer), self._options.account, rights.publish, rights.subscribe]
        return hashlib.sha256(_encoder.encode(said)).hexdigest()[:32]

    def worker(self, function: str, name: str) -> UserCredentials:
        """Return credentials for the worker of that name, or raise UnavailableError."""
        import nkeys  # noqa: PLC0415 - its cryptography takes memory that few have a use for

        signer = _key(secret_in(self._options.seed_file), self._options.seed_file)
        seed = nkeys.encode_seed(self._entropy(SEED_BYTES), nkeys.PREFIX_BYTE_USER)
        now = self._now()
        expires_at = now + timedelta(seconds=self._options.lifetime_seconds)
        claims = {
            "iat": int(now.timestamp()),
            "exp": int(expires_at.timestamp()),
            "iss": _public(signer),
            "sub": _public(nkeys.from_seed(seed)),
            "name": name,
            "nats": self._user(worker_rights(self._names, function)),
        }
        text = _file(_signed(claims, signer), seed.decode())
        return UserCredentials(text=text, expires_at=expires_at)

    def _user(self, rights: Rights) -> dict[str, object]:
        issuer = {"issuer_account": self._options.account} if self._options.account else {}
        return {
            "type": "user",
            "version": 2,
            "pub": {"allow": rights.publish},
            "sub": {"allow": rights.subscribe},
            **dict.fromkeys(("subs", "data", "payload"), _BOUNDLESS),
            **issuer,
        }


def _key(seed: str, path: str) -> Any:
    """Return the key of an account seed. The library has no types."""
    import nkeys  # noqa: PLC0415 - as above

    try:
        key = nkeys.from_seed(seed.encode())
        prefix, _ = nkeys.decode_seed(seed.encode())
    except (nkeys.NkeysError, ValueError) as error:
        raise UnavailableError(f"{path}: invalid nkey seed: {error!r}") from error
    if prefix != nkeys.PREFIX_BYTE_ACCOUNT:
        raise UnavailableError(f"{path}: not an account seed: an account seed begins with SA")
    return key


def _public(key: Any) -> str:
    public: bytes = key.public_key
    return public.decode()


def _signed(claims: dict[str, object], signer: Any) -> str:
    identifier = base64.b32encode(hashlib.sha256(_encoder.encode(claims)).digest())
    body = {"jti": identifier.decode().rstrip("="), **claims}
    head = {"typ": "JWT", "alg": _ALGORITHM}
    text = f"{_part(_encoder.encode(head))}.{_part(_encoder.encode(body))}"
    return f"{text}.{_part(signer.sign(text.encode()))}"


def _part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _file(token: str, seed: str) -> str:
    return (
        f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )
