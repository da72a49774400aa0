"""Reads the configuration once at the start: file, then flags, then environment.

Rooms never see it: `roles` hands each of them its own small options.
"""

import os
from collections.abc import Callable, Mapping
from functools import partial

from gpuruntime.errors import ConfigurationError
from gpuruntime.models.kubernetes.names import is_dns_label, is_dns_subdomain
from gpuruntime.settings.checks import is_amount, is_device, is_ip
from gpuruntime.settings.schema import Settings
from gpuruntime.settings.values import Address, Amount, Label, ResourceName, Subdomain
from gpuruntime.strict.durations import Seconds, parse_duration
from gpuruntime.strict.structure import StrictError, StrictReader
from gpuruntime.strict.yaml_documents import read_mapping

# Only these variables override file and flags: addresses and secrets.
NO_DEFAULTS: Mapping[tuple[str, ...], str] = {}
ADDRESSES = {
    "GPURUNTIME_LISTEN": ("listen",),
    "GPURUNTIME_OPERATIONS_LISTEN": ("operations", "listen"),
    "GPURUNTIME_KUBECONFIG": ("kubernetes", "kubeconfig"),
    "GPURUNTIME_NATS_URL": ("nats", "url"),
    "GPURUNTIME_GATEWAY_URL": ("gateway", "publicURL"),
    "GPURUNTIME_POSTGRES_URL": ("results", "postgres", "url"),
}


def load(
    path: str,
    *,
    flags: Mapping[tuple[str, ...], str],
    environment: Mapping[str, str] = os.environ,
    defaults: Mapping[tuple[str, ...], str] = NO_DEFAULTS,
) -> Settings:
    """Return the settings of this start. Name every bad key in one ConfigurationError.

    `defaults` replace those of the schema.
    """
    document = read_mapping(path) if path else {}
    for keys, value in flags.items():
        _put(document, keys, value)
    for name, keys in ADDRESSES.items():
        if environment.get(name):
            _put(document, keys, environment[name])
    for keys, value in defaults.items():
        if not _is_set(document, keys):
            _put(document, keys, value)
    try:
        return _reader.read(document, Settings)
    except StrictError as error:
        where = path or "flags and environment"
        lines = [
            f"{problem.field or 'the document'}: {problem.message}" for problem in error.problems
        ]
        raise ConfigurationError(f"configuration {where}: " + "; ".join(lines)) from error


def elects_leader(settings: Settings, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether roles elect a leader: by default they do inside a cluster."""
    enabled = settings.leaderElection.enabled
    return bool(environment.get("KUBERNETES_SERVICE_HOST")) if enabled is None else enabled


def parse_address(value: object) -> Address:
    host, colon, port = str(value).rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not isinstance(value, str) or not colon or not port.isascii() or not port.isdigit():
        raise ValueError('must be host:port, such as "127.0.0.1:8080" or ":8080"')
    if int(port) > 65_535:
        raise ValueError(f"port {port} is above 65535")
    if host and host != "localhost" and not is_ip(host):
        raise ValueError(f"{host!r} is neither an IP address nor localhost")
    return Address(host, int(port))


def _checked(applies: Callable[[str], bool], what: str, value: object) -> str:
    if isinstance(value, str) and applies(value):
        return value
    raise ValueError(f"must be {what}, not {value!r}")


def _is_set(document: object, keys: tuple[str, ...]) -> bool:
    for key in keys:
        document = document.get(key) if isinstance(document, dict) else None
    return document is not None


def _put(document: dict[str, object], keys: tuple[str, ...], value: str) -> None:
    """Set a nested key. A section that is no mapping stays, and the strict reader reports it."""
    section: object = document
    for key in keys[:-1]:
        if not isinstance(section, dict):
            return
        section = section.setdefault(key, {})
    if isinstance(section, dict):
        section[keys[-1]] = value


_reader = StrictReader(
    {
        Seconds: parse_duration,
        Address: parse_address,
        Label: partial(_checked, is_dns_label, "lower case letters, digits and '-'"),
        Subdomain: partial(_checked, is_dns_subdomain, "lower case letters, digits, '-' and '.'"),
        ResourceName: partial(
            _checked, is_device, "the name of a resource, such as nvidia.com/gpu"
        ),
        Amount: partial(
            _checked, is_amount, "a quantity above 0 and below 1Ei, such as '500m' or '16Gi'"
        ),
    },
    takes_null=True,
)
