"""The configuration of every role, read once at the start: file, then flags, then environment.

Rooms never see this: `roles` hands each of them its own small options.
"""

import ipaddress
import os
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, NewType

import attrs
import yaml

from gpuruntime.errors import ConfigurationError
from gpuruntime.models.names import (
    is_dns_label,
    is_dns_subdomain,
    is_label_key,
    is_label_value,
)
from gpuruntime.models.quantities import EXBIBYTE, is_quantity, parse_quantity
from gpuruntime.models.strict import FieldError, ManyFieldsError, StrictError, Structurer

Seconds = NewType("Seconds", float)
Label = NewType("Label", str)
Subdomain = NewType("Subdomain", str)
ResourceName = NewType("ResourceName", str)
Amount = NewType("Amount", str)
DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
BOOLEAN = "tag:yaml.org,2002:bool"
# The variables that may override file and flags: secrets and addresses, nothing else.
ADDRESSES = {
    "GPURUNTIME_LISTEN": ("listen",),
    "GPURUNTIME_OPERATIONS_LISTEN": ("operations", "listen"),
    "GPURUNTIME_KUBECONFIG": ("kubernetes", "kubeconfig"),
    "GPURUNTIME_NATS_URL": ("nats", "url"),
}
PRIVATE_NETWORKS = (
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "100.64.0.0/10",
    "169.254.0.0/16",
    "fc00::/7",
    "fe80::/10",
)
MAPPED_IPV4 = ipaddress.IPv6Network("::ffff:0:0/96")


def _raise_all(problems: list[FieldError]) -> None:
    if problems:
        raise ManyFieldsError(tuple(problems))


def _is_amount(text: str) -> bool:
    return is_quantity(text) and parse_quantity(text).is_positive_below(EXBIBYTE)


def _is_ip(text: str) -> bool:
    return _parses(ipaddress.ip_address, text)


def _is_cidr(text: str) -> bool:
    """As Kubernetes reads them: the length in figures, and IPv4 as itself, not within IPv6."""
    _, _, length = text.partition("/")
    if not (length.isascii() and length.isdigit() and _parses(ipaddress.ip_network, text)):
        return False
    network = ipaddress.ip_network(text)
    return "%" not in text and not (network.version == 6 and network.subnet_of(MAPPED_IPV4))


def _parses(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


class KubernetesMode(StrEnum):
    AUTO = "auto"
    OFF = "off"
    REQUIRED = "required"


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    JSON = "json"
    CONSOLE = "console"


class PodSecurity(StrEnum):
    BASELINE = "baseline"
    RESTRICTED = "restricted"


class TolerationOperator(StrEnum):
    EQUAL = "Equal"
    EXISTS = "Exists"


class TaintEffect(StrEnum):
    """The empty one is every effect."""

    ANY = ""
    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class AuthMode(StrEnum):
    NONE = "none"
    TOKEN = "token"  # noqa: S105 - the name of a mode
    KUBERNETES = "kubernetes"


@attrs.frozen(slots=True)
class Address:
    """Where to listen; the empty host is every interface."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        return self.host == "localhost" or (
            bool(self.host) and ipaddress.ip_address(self.host).is_loopback
        )

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@attrs.frozen(kw_only=True, slots=True)
class OperationsSettings:
    listen: Address = Address("", 8081)


@attrs.frozen(kw_only=True, slots=True)
class KubernetesSettings:
    mode: KubernetesMode = KubernetesMode.AUTO
    kubeconfig: str = ""
    context: str = ""
    clusterDomain: Subdomain = Subdomain("cluster.local")


@attrs.frozen(kw_only=True, slots=True)
class NamespaceSettings:
    stock: Label = Label("runtime-stock")
    instance: Label = Label("runtime-instance")
    system: Label = Label("runtime-system")

    def __attrs_post_init__(self) -> None:
        names = attrs.asdict(self)
        pairs = (("instance", "stock"), ("system", "stock"), ("system", "instance"))
        _raise_all(
            [
                FieldError(field, f"is the same namespace as {other}: each needs its own")
                for field, other in pairs
                if names[field] == names[other]
            ]
        )


@attrs.frozen(kw_only=True, slots=True)
class LoggingSettings:
    level: LogLevel = LogLevel.INFO
    format: LogFormat = LogFormat.JSON


@attrs.frozen(kw_only=True, slots=True)
class LeaderElectionSettings:
    """`enabled: null` means on inside a cluster and off elsewhere."""

    enabled: bool | None = None
    leaseName: Subdomain = Subdomain("gpuruntime-manager")
    leaseDuration: Seconds = Seconds(15.0)
    renewDeadline: Seconds = Seconds(10.0)
    retryPeriod: Seconds = Seconds(2.0)

    def __attrs_post_init__(self) -> None:
        problems = []
        if not self.leaseDuration > self.renewDeadline:
            problems.append(FieldError("renewDeadline", "must be shorter than leaseDuration"))
        if not self.renewDeadline > self.retryPeriod > 0:
            problems.append(FieldError("retryPeriod", "must be between 0 and renewDeadline"))
        _raise_all(problems)


@attrs.frozen(kw_only=True, slots=True)
class PriorityClassSettings:
    stock: Subdomain = Subdomain("gpuruntime-stock")
    instance: Subdomain = Subdomain("gpuruntime-instance")


@attrs.frozen(kw_only=True, slots=True)
class NatsPeerSettings:
    """NATS as the Pods of functions see it; without one they do not reach it in the cluster."""

    namespaceLabels: dict[str, str] = attrs.field(factory=dict)
    podLabels: dict[str, str] = attrs.field(factory=dict)
    address: str = ""
    port: int = 4222

    def __attrs_post_init__(self) -> None:
        problems = [
            FieldError(name, f"{key}: {value} is no label")
            for name in ("namespaceLabels", "podLabels")
            for key, value in getattr(self, name).items()
            if not (is_label_key(key) and is_label_value(value))
        ]
        if bool(self.namespaceLabels) != bool(self.podLabels):
            missing = "podLabels" if self.namespaceLabels else "namespaceLabels"
            problems.append(
                FieldError(
                    missing, "is empty: labels of the namespace and of the Pods go together"
                )
            )
        if self.address and not (
            _is_cidr(f"{self.address}/32") or _is_cidr(f"{self.address}/128")
        ):
            problems.append(FieldError("address", f"{self.address!r} is no IP address"))
        if self.address and (self.namespaceLabels or self.podLabels):
            problems.append(FieldError("address", "excludes labels: NATS is in one place"))
        if not 0 < self.port <= 65_535:
            problems.append(FieldError("port", f"{self.port} is not between 1 and 65535"))
        _raise_all(problems)


@attrs.frozen(kw_only=True, slots=True)
class NetworkSettings:
    blockedEgressCIDRs: tuple[str, ...] = PRIVATE_NETWORKS
    allowAllEgress: bool = False
    nats: NatsPeerSettings = NatsPeerSettings()

    def __attrs_post_init__(self) -> None:
        problems = [
            FieldError(f"blockedEgressCIDRs[{index}]", f"{cidr!r} is no CIDR such as 10.0.0.0/8")
            for index, cidr in enumerate(self.blockedEgressCIDRs)
            if not _is_cidr(cidr)
        ]
        if not self.blockedEgressCIDRs and not self.allowAllEgress:
            problems.append(
                FieldError(
                    "blockedEgressCIDRs",
                    "is empty: units would reach everything; say allowAllEgress: true to mean it",
                )
            )
        _raise_all(problems)


@attrs.frozen(kw_only=True, slots=True)
class AuthSettings:
    mode: AuthMode = AuthMode.NONE
    allowUnauthenticated: bool = False


@attrs.frozen(kw_only=True, slots=True)
class NatsSettings:
    """The empty url turns everything serverless off."""

    url: str = ""


@attrs.frozen(kw_only=True, slots=True)
class Toleration:
    key: str = ""
    operator: TolerationOperator = TolerationOperator.EQUAL
    value: str = ""
    effect: TaintEffect = TaintEffect.ANY
    tolerationSeconds: int | None = None

    def __attrs_post_init__(self) -> None:
        if not self.key and self.operator is not TolerationOperator.EXISTS:
            raise FieldError("key", "is empty: name one, or say operator: Exists for every taint")


@attrs.frozen(kw_only=True, slots=True)
class PodDefaultSettings:
    cpu: Amount = Amount("1")
    memory: Amount = Amount("1Gi")
    ephemeralStorage: Amount = Amount("10Gi")
    imagePullSecrets: tuple[Subdomain, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    nodeSelector: dict[str, str] = attrs.field(factory=dict)
    runtimeClassName: str = ""

    def __attrs_post_init__(self) -> None:
        problems = [
            FieldError("nodeSelector", f"{key}: {value} is no label of a node")
            for key, value in self.nodeSelector.items()
            if not (is_label_key(key) and is_label_value(value))
        ]
        if self.runtimeClassName and not is_dns_subdomain(self.runtimeClassName):
            problems.append(
                FieldError("runtimeClassName", f"{self.runtimeClassName!r} is no name of a class")
            )
        _raise_all(problems)


@attrs.frozen(kw_only=True, slots=True)
class HelperSettings:
    """What runs beside users' containers: the file server, and the copying of storages."""

    accessorImage: str = "docker.io/sigoden/dufs:v0.45.0"
    copyImage: str = "docker.io/library/busybox:1.36"
    cpu: Amount = Amount("250m")
    memory: Amount = Amount("256Mi")


@attrs.frozen(kw_only=True, slots=True)
class FileSettings:
    """Of files on their way through the api: each way, each file, and all at once."""

    maxSize: Amount = Amount("100Gi")
    idleTimeout: Seconds = Seconds(60.0)
    timeout: Seconds = Seconds(3600.0)
    atOnce: int = 256

    def __attrs_post_init__(self) -> None:
        if self.atOnce < 1:
            raise FieldError("atOnce", "must be at least 1")

    @property
    def most_bytes(self) -> int:
        return parse_quantity(self.maxSize).rounded_up


@attrs.frozen(kw_only=True, slots=True)
class Settings:
    listen: Address = Address("127.0.0.1", 8080)
    operations: OperationsSettings = OperationsSettings()
    kubernetes: KubernetesSettings = KubernetesSettings()
    namespaces: NamespaceSettings = NamespaceSettings()
    reportInterval: Seconds = Seconds(30.0)
    shutdownGrace: Seconds = Seconds(10.0)
    logging: LoggingSettings = LoggingSettings()
    leaderElection: LeaderElectionSettings = LeaderElectionSettings()
    gpuResource: ResourceName = ResourceName("nvidia.com/gpu")
    podSecurity: PodSecurity = PodSecurity.BASELINE
    priorityClasses: PriorityClassSettings = PriorityClassSettings()
    network: NetworkSettings = NetworkSettings()
    operationRetention: Seconds = Seconds(86_400.0)
    auth: AuthSettings = AuthSettings()
    nats: NatsSettings = NatsSettings()
    podDefaults: PodDefaultSettings = PodDefaultSettings()
    helpers: HelperSettings = HelperSettings()
    files: FileSettings = FileSettings()

    @property
    def elects_leader(self) -> bool:
        enabled = self.leaderElection.enabled
        return is_in_cluster() if enabled is None else enabled


def load(
    path: str,
    *,
    flags: Mapping[tuple[str, ...], str],
    environment: Mapping[str, str] = os.environ,
) -> Settings:
    """The effective settings of a start; every bad key is named in one ConfigurationError."""
    document = _read(path) if path else {}
    for keys, value in flags.items():
        _put(document, keys, value)
    for name, keys in ADDRESSES.items():
        if environment.get(name):
            _put(document, keys, environment[name])
    try:
        return _structurer().structure(document, Settings)
    except StrictError as error:
        where = path or "flags and environment"
        lines = [
            f"{problem.field or 'the document'}: {problem.message}" for problem in error.problems
        ]
        raise ConfigurationError(f"configuration {where}: " + "; ".join(lines)) from error


def is_in_cluster(environment: Mapping[str, str] = os.environ) -> bool:
    return bool(environment.get("KUBERNETES_SERVICE_HOST"))


def parse_duration(value: object) -> Seconds:
    if type(value) in (int, float):
        seconds = float(value)  # type: ignore[arg-type]  # narrowed by its exact type
    elif isinstance(value, str) and (match := DURATION.fullmatch(value)):
        seconds = float(match[1]) * UNITS[match[2]]
    else:
        raise ValueError('must be seconds or a duration such as "30s" or "10m"')
    if not 0 < seconds < 1e9:
        raise ValueError("must be longer than nothing, and shorter than thirty years")
    return Seconds(seconds)


def parse_address(value: object) -> Address:
    host, colon, port = str(value).rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not isinstance(value, str) or not colon or not port.isascii() or not port.isdigit():
        raise ValueError('must be host:port, such as "127.0.0.1:8080" or ":8080"')
    if int(port) > 65_535:
        raise ValueError(f"port {port} is above 65535")
    if host and host != "localhost" and not _is_ip(host):
        raise ValueError(f"{host!r} is neither an IP address nor localhost")
    return Address(host, int(port))


def _structurer() -> Structurer:
    structurer = Structurer()
    structurer.register(Seconds, parse_duration)
    structurer.register(Address, parse_address)
    for kind, applies, what in (
        (Label, is_dns_label, "lower case letters, digits and '-'"),
        (Subdomain, is_dns_subdomain, "lower case letters, digits, '-' and '.'"),
        (ResourceName, is_label_key, "the name of a resource, such as nvidia.com/gpu"),
        (Amount, _is_amount, "a quantity above 0 and below 1Ei, such as '500m' or '16Gi'"),
    ):
        structurer.register(kind, partial(_checked, applies, what))
    return structurer


def _checked(applies: Callable[[str], bool], what: str, value: object) -> str:
    if isinstance(value, str) and applies(value):
        return value
    raise ValueError(f"must be {what}, not {value!r}")


def _read(path: str) -> dict[str, object]:
    try:
        document = yaml.load(Path(path).read_bytes(), _StrictLoader)  # noqa: S506 - a SafeLoader
    except OSError as error:
        raise ConfigurationError(f"configuration {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise ConfigurationError(f"configuration {path}: not YAML: {reason}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigurationError(f"configuration {path}: must be a mapping of keys")
    return document


class _StrictLoader(yaml.SafeLoader):
    """As YAML 1.2 has it: `off` is a word, and a key stands in a mapping once."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML reads it from the class
        first: [(tag, regexp) for tag, regexp in resolvers if tag != BOOLEAN]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} stands there twice", node.start_mark
                )
        return super().construct_mapping(node, deep)


_StrictLoader.add_implicit_resolver(BOOLEAN, re.compile(r"true|false"), list("tf"))


def _put(document: dict[str, object], keys: tuple[str, ...], value: str) -> None:
    """A section that is no mapping stays as it is: the strict reader names it."""
    section: object = document
    for key in keys[:-1]:
        if not isinstance(section, dict):
            return
        section = section.setdefault(key, {})
    if isinstance(section, dict):
        section[keys[-1]] = value
