"""How to reach the broker and log in; secrets are files that each connect reads again."""

import re
import ssl
from pathlib import Path
from typing import Any

import attrs

from gpuruntime.bus.errors import UnavailableError

_BLOCK = re.compile(r"-+BEGIN ([A-Z ]+)-+\s+(\S+)\s+-+END")


def without_login(url: str) -> str:
    """Return hosts and ports alone: a URL may hold a user and a password, or a token."""
    return ",".join(each.rpartition("@")[2] for each in url.split(","))


@attrs.frozen(kw_only=True, slots=True)
class ConnectionOptions:
    """An empty string means unset. `url` may name several servers, separated by commas."""

    url: str = attrs.field(repr=without_login)
    name: str
    inbox_prefix: str = "_INBOX"
    token_file: str
    user: str
    password_file: str
    nkey_file: str
    credentials_file: str
    ca_file: str
    certificate_file: str
    key_file: str
    connect_seconds: float = 5.0
    ping_seconds: float = 10.0

    @property
    def uses_tls(self) -> bool:
        return bool(self.ca_file or self.certificate_file) or "tls://" in self.url


def credentials(options: ConnectionOptions) -> dict[str, Any]:
    """Return the credentials as keyword arguments of the NATS client.

    A missing or invalid file raises UnavailableError, because it may be repaired before the next
    attempt.
    """
    given: dict[str, Any] = {}
    if options.token_file:
        given["token"] = secret_in(options.token_file)
    if options.user:
        given["user"] = options.user
        given["password"] = secret_in(options.password_file) if options.password_file else ""
    if options.nkey_file:
        given["nkeys_seed_str"] = _seed(secret_in(options.nkey_file), options.nkey_file)
    if options.credentials_file:
        _check_credentials(secret_in(options.credentials_file), options.credentials_file)
        given["user_credentials"] = options.credentials_file
    if options.uses_tls:
        given["tls"] = _tls(options)
    return given


def secret_in(path: str) -> str:
    """Return the secret, or raise UnavailableError if the file is unreadable or empty."""
    try:
        secret = Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UnavailableError(f"cannot read {path}: {error}") from error
    if not secret:
        raise UnavailableError(f"{path} is empty: put the secret there")
    return secret


def _check_credentials(text: str, path: str) -> None:
    blocks = dict(_BLOCK.findall(text))
    if not blocks.keys() >= {"NATS USER JWT", "USER NKEY SEED"}:
        raise UnavailableError(
            f"{path} has no user JWT and seed: write it with `nsc generate creds`"
        )
    _seed(blocks["USER NKEY SEED"], path)


def _seed(seed: str, path: str) -> str:
    import nkeys  # noqa: PLC0415 - its cryptography takes memory that few workers have a use for

    try:
        nkeys.from_seed(seed.encode()).wipe()
    except (nkeys.NkeysError, ValueError) as error:
        raise UnavailableError(f"{path}: invalid nkey seed: {error!r}") from error
    return seed


def _tls(options: ConnectionOptions) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=options.ca_file or None)
        if options.certificate_file:
            context.load_cert_chain(options.certificate_file, options.key_file or None)
    except (OSError, ValueError) as error:
        files = ", ".join(
            file for file in (options.ca_file, options.certificate_file, options.key_file) if file
        )
        raise UnavailableError(f"cannot use the TLS files {files}: {error}") from error
    return context
