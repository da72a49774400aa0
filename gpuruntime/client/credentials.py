"""Credentials of the client: a token or the current text of a token file, and trusted CAs."""

import ssl
from pathlib import Path

from gpuruntime.client.options import Options
from gpuruntime.errors import ConfigurationError


def authorization_of(options: Options) -> str:
    """Return the Authorization header, or "" without a token; raise ConfigurationError."""
    if not options.token_file:
        return _bearer(options.token, "the token")
    try:
        text = Path(options.token_file).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"token file {options.token_file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"token file {options.token_file}: is not UTF-8 text") from error
    if not text.strip():
        raise ConfigurationError(f"token file {options.token_file}: is empty")
    return _bearer(text, f"token file {options.token_file}")


def tls_of(options: Options) -> ssl.SSLContext | bool:
    """Return the trust of the CA file, or the machine's own; raise ConfigurationError."""
    if not options.ca_file:
        return True
    try:
        return ssl.create_default_context(cafile=options.ca_file)
    except OSError as error:  # also raised for a file that holds no certificate
        reason = error.strerror or "holds no certificate"
        raise ConfigurationError(f"CA file {options.ca_file}: {reason}") from error


def _bearer(token: str, where: str) -> str:
    """Return the header; no error message contains the token."""
    token = token.strip()
    if not all("!" <= letter <= "~" for letter in token):
        raise ConfigurationError(f"{where}: a token is one word of printable ASCII")
    return f"Bearer {token}" if token else ""
