"""Server and credentials of one loading of the configuration."""

import hashlib
import ipaddress
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit
from urllib.request import getproxies_environment

import attrs

from gpuruntime.errors import ConfigurationError

# Names of the certificate files: the Configuration's to the kubeconfig's.
CERTIFICATES = {
    "ssl_ca_cert": "certificate-authority",
    "cert_file": "client-certificate",
    "key_file": "client-key",
}


@attrs.frozen(kw_only=True, slots=True, eq=False)
class Endpoint:
    """The result of one loading. Endpoints with equal fingerprints may share their connections."""

    origin: str
    configuration: Any
    authorization: str = attrs.field(default="", repr=False)
    expires_at: datetime | None = None
    inline: Mapping[str, bytes] = attrs.field(factory=dict, repr=False)
    fingerprint: str = ""

    @property
    def server(self) -> str:
        return str(self.configuration.host)


class Source(Protocol):
    @property
    def is_costly(self) -> bool:
        """Return whether a load is costly; then it is repeated only when necessary."""
        ...

    def load(self) -> Endpoint:
        """Load the endpoint; this blocks. Raise ConfigurationError."""
        ...

    def stop(self) -> None:
        """End a load that hangs in another thread."""
        ...


def endpoint_of(
    origin: str,
    configuration: Any,
    *,
    inline: Mapping[str, bytes] | None = None,
    expires_at: datetime | None = None,
) -> Endpoint:
    configuration.proxy = _usable_proxy(
        origin, configuration.proxy or environment_proxy(configuration.host)
    )
    # Go's clients are not strict here either, and older cluster CAs would fail.
    configuration.disable_strict_ssl_verification = True
    return Endpoint(
        origin=origin,
        configuration=configuration,
        authorization=_authorization(origin, configuration),
        expires_at=expires_at,
        inline=inline or {},
        fingerprint=_fingerprint(origin, configuration, inline or {}),
    )


def is_http_url(text: object) -> bool:
    try:
        url = urlsplit(text) if isinstance(text, str) else urlsplit("")
        is_whole = bool(url.hostname) and url.port != 0 and str(text).isprintable()
        return url.scheme in {"http", "https"} and is_whole
    except ValueError:
        return False


def _usable_proxy(origin: str, proxy: str | None) -> str | None:
    if proxy and not is_http_url(proxy):
        kind, is_found, _ = proxy.partition("://")
        # The rest of the URL is not quoted, because it may contain a password.
        is_other = bool(is_found) and kind not in {"http", "https"}
        hint = f" but a {kind!r} one" if is_other else ": write one like http://10.0.0.1:3128"
        raise ConfigurationError(f"{origin}: the proxy is no http or https URL{hint}")
    return proxy


def environment_proxy(url: str) -> str | None:
    """Return the proxy that the environment gives for `url`, as Go's clients read it.

    Loopback has none. NO_PROXY holds names, suffixes of names and networks.
    """
    address = urlsplit(url)
    host = address.hostname or ""
    proxies = getproxies_environment()
    exceptions = [item.strip().lower() for item in proxies.get("no", "").split(",")]
    if _is_loopback(host) or any(_matches(host, item) for item in exceptions if item):
        return None
    proxy = proxies.get(address.scheme)
    return f"http://{proxy}" if proxy and "://" not in proxy else proxy


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _matches(host: str, exception: str) -> bool:
    if exception == "*" or host == exception or host.endswith(f".{exception.lstrip('*.')}"):
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(exception, strict=False)
    except ValueError:
        return False


def _authorization(origin: str, configuration: Any) -> str:
    authorization = str(configuration.api_key.get("BearerToken", "")).strip()
    if not (authorization.isascii() and authorization.isprintable()):
        raise ConfigurationError(
            f"{origin}: the token holds characters that no header can carry: "
            "check that it is one line of text"
        )
    return authorization


def _fingerprint(origin: str, configuration: Any, inline: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name in ("host", "proxy", "tls_server_name", "verify_ssl"):
        digest.update(f"{name}={getattr(configuration, name)}\n".encode())
    for field, name in CERTIFICATES.items():
        path = getattr(configuration, field)
        try:
            content = inline.get(field) or (Path(path).read_bytes() if path else b"")
        except OSError as error:
            raise ConfigurationError(f"{origin}: {name}: {error}") from error
        digest.update(f"{field}={len(content)}\n".encode() + content)
    return digest.hexdigest()
