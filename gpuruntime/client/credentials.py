"""Whom the API hears: a token that was given, or the one that a file holds now."""

import ssl
from pathlib import Path

from gpuruntime.client.options import Options
from gpuruntime.errors import ConfigurationError


def authorization_of(options: Options) -> str:
    """Empty where no token was given; raises ConfigurationError."""
    if not options.token_file:
        return _bearer(options.token, "the token")
    try:
        text = Path(options.token_file).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"token file {options.token_file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"token file {options.token_file}: is no text") from error
    if not text.strip():
        raise ConfigurationError(f"token file {options.token_file}: is empty")
    return _bearer(text, f"token file {options.token_file}")


def tls_of(options: Options) -> ssl.SSLContext | bool:
    """The machine's own authorities, unless a file names others; raises ConfigurationError."""
    if not options.ca_file:
        return True
    try:
        return ssl.create_default_context(cafile=options.ca_file)
    except OSError as error:  # also what is no certificate
        reason = error.strerror or "holds no certificate"
        raise ConfigurationError(f"CA file {options.ca_file}: {reason}") from error


def _bearer(token: str, where: str) -> str:
    """Its value stands in no message."""
    token = token.strip()
    if not all("!" <= letter <= "~" for letter in token):
        raise ConfigurationError(f"{where}: a token is one word of printable ASCII")
    return f"Bearer {token}" if token else ""
