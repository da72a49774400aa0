"""Write the keys of a broker and the password of a database into a folder, once.

docs/broker.md explains the files. It needs the library nkeys, which gpuruntime brings.
"""

import base64
import hashlib
import json
import os
import secrets
import sys
import time
from pathlib import Path
from typing import Any

import nkeys

PREFIXES = {
    "operator": nkeys.PREFIX_BYTE_OPERATOR,
    "account": nkeys.PREFIX_BYTE_ACCOUNT,
    "user": nkeys.PREFIX_BYTE_USER,
}
CONNECTIONS = ("subs", "data", "payload", "conn", "leaf")
STREAMS = ("mem_storage", "disk_storage", "streams", "consumer")
DATABASE = "postgresql://gpuruntime:{}@postgresql.postgresql.svc:5432/gpuruntime"


class Key:
    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.seed: bytes = nkeys.encode_seed(os.urandom(32), PREFIXES[kind])
        self._pair = nkeys.from_seed(self.seed)
        self.public: str = self._pair.public_key.decode()

    def token(self, subject: "Key", name: str, **nats: Any) -> str:
        """Return a JWT about the subject, signed by this key."""
        claims = {
            "iat": int(time.time()),
            "iss": self.public,
            "sub": subject.public,
            "name": name,
            "nats": {"type": subject.kind, "version": 2, **nats},
        }
        digest = hashlib.sha256(json.dumps(claims).encode()).digest()
        claims["jti"] = base64.b32encode(digest).decode().rstrip("=")
        parts = ({"typ": "JWT", "alg": "ed25519-nkey"}, claims)
        text = ".".join(encoded(json.dumps(part).encode()) for part in parts)
        return f"{text}.{encoded(self._pair.sign(text.encode()))}"


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def files() -> dict[str, str]:
    """Return the content of each file. The number -1 means without a limit."""
    operator, system, account, user = map(Key, ("operator", "account", "account", "user"))
    login = account.token(user, "gpuruntime", **dict.fromkeys(("subs", "data", "payload"), -1))
    tokens = {
        system: operator.token(system, "system", limits=dict.fromkeys(CONNECTIONS, -1)),
        account: operator.token(
            account, "gpuruntime", limits=dict.fromkeys((*CONNECTIONS, *STREAMS), -1)
        ),
    }
    password = secrets.token_urlsafe(32)
    return {
        "operator.nk": operator.seed.decode(),
        "account.nk": account.seed.decode(),
        "broker.creds": (
            f"-----BEGIN NATS USER JWT-----\n{login}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{user.seed.decode()}\n"
            "------END USER NKEY SEED------\n"
        ),
        "accounts.conf": "\n".join(
            (
                f"operator: {operator.token(operator, 'gpuruntime')}",
                f"system_account: {system.public}",
                "resolver: MEMORY",
                "resolver_preload: {",
                *(f"  {key.public}: {token}" for key, token in tokens.items()),
                "}\n",
            )
        ),
        "password": password,
        "url": DATABASE.format(password),
    }


def main(folder: Path) -> None:
    made = files()
    if found := [name for name in made if (folder / name).exists()]:
        sys.exit(f"{folder} has {', '.join(found)}: other keys would lock out all workers")
    for name, content in made.items():
        with os.fdopen(
            os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w"
        ) as f:
            f.write(content)
    print(f"wrote {', '.join(made)} to {folder}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: keys.py FOLDER")
    main(Path(sys.argv[1]))
