"""Which proxy the environment asks for, read as Go's clients read it."""

import ipaddress
from urllib.parse import urlsplit
from urllib.request import getproxies_environment


def environment_proxy(url: str) -> str | None:
    """Never for loopback; NO_PROXY holds names, suffixes of names and networks."""
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
