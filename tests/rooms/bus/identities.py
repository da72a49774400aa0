"""Operators, accounts and users for a broker in operator mode, and who signs whom."""

import base64
import json
import os
from typing import ClassVar

import nkeys


class Identity:
    """A key pair and the JWTs that it signs."""

    PREFIXES: ClassVar = {
        "operator": nkeys.PREFIX_BYTE_OPERATOR,
        "account": nkeys.PREFIX_BYTE_ACCOUNT,
        "user": nkeys.PREFIX_BYTE_USER,
    }

    # A limit that the claims omit counts as zero.
    LIMITS: ClassVar[dict[str, dict[str, object]]] = {
        "account": {
            "limits": dict.fromkeys(
                (
                    *("subs", "data", "payload", "conn", "leaf"),
                    *("mem_storage", "disk_storage", "streams", "consumer"),
                ),
                -1,
            )
        },
        "user": dict.fromkeys(("subs", "data", "payload"), -1),
    }

    def __init__(self, kind: str, *, signing_keys: tuple["Identity", ...] = ()) -> None:
        seed = nkeys.encode_seed(os.urandom(32), self.PREFIXES[kind])
        self.kind = kind
        self.seed = seed.decode()
        self.public = nkeys.from_seed(seed).public_key.decode()
        self.signing_keys = [each.public for each in signing_keys]

    def sign(self, other: "Identity", **more: object) -> str:
        """Sign the other identity, with further claims about it."""
        signing = {"signing_keys": other.signing_keys} if other.signing_keys else {}
        limits = {**self.LIMITS.get(other.kind, {}), **signing, **more}
        claims = {
            "jti": other.public,
            "iat": 1_700_000_000,
            "iss": self.public,
            "sub": other.public,
            "name": other.kind,
            "nats": {"type": other.kind, "version": 2, **limits},
        }
        head = {"typ": "JWT", "alg": "ed25519-nkey"}
        text = ".".join(_base64(json.dumps(part).encode()) for part in (head, claims))
        signature = nkeys.from_seed(self.seed.encode()).sign(text.encode())
        return f"{text}.{_base64(signature)}"

    def credentials_of(self, user: "Identity") -> str:
        return (
            f"-----BEGIN NATS USER JWT-----\n{self.sign(user)}\n------END NATS USER JWT------\n"
            f"\n-----BEGIN USER NKEY SEED-----\n{user.seed}\n------END USER NKEY SEED------\n"
        )


def operated(account: Identity) -> tuple[str, ...]:
    """Return the configuration of a broker whose operator signs the account.

    The system account may have no streams.
    """
    operator, system = Identity("operator"), Identity("account")
    limits = {"limits": dict.fromkeys(("subs", "data", "payload", "conn", "leaf"), -1)}
    preload = {
        account.public: operator.sign(account),
        system.public: operator.sign(system, **limits),
    }
    return (
        f"operator: {operator.sign(operator)}",
        f"system_account: {system.public}",
        "resolver: MEMORY",
        "resolver_preload: {",
        *(f"  {public}: {token}" for public, token in preload.items()),
        "}",
    )


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
