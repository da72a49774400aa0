"""The configuration of every role: its keys, their defaults, and the checks of each section."""

from enum import StrEnum

import attrs

from gpuruntime.models.kinds.claim_timing import SHORTEST_RETENTION_SECONDS
from gpuruntime.models.kubernetes.names import is_dns_subdomain
from gpuruntime.settings.access import AuthSettings, ConnectionSettings, TlsSettings
from gpuruntime.settings.checks import (
    is_address,
    is_cidr,
    label_faults,
    refuse,
)
from gpuruntime.settings.dev import DevSettings
from gpuruntime.settings.gateway import GatewaySettings
from gpuruntime.settings.results import ResultsSettings
from gpuruntime.settings.serverless import NatsSettings, ServerlessSettings, WorkerSettings
from gpuruntime.settings.tolerations import Toleration
from gpuruntime.settings.values import Address, Amount, Label, ResourceName, Subdomain, bytes_of
from gpuruntime.strict.durations import Seconds
from gpuruntime.strict.structure import FieldError, raise_all

PRIVATE_NETWORKS = (
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "100.64.0.0/10",
    "169.254.0.0/16",
    "fc00::/7",
    "fe80::/10",
)


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
        raise_all(
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
    """`enabled: null` means that there is an election inside a cluster only.

    `leaseName: null` gives each role its own name: two roles on one Lease would exclude each
    other.
    """

    enabled: bool | None = None
    leaseName: Subdomain | None = None
    leaseDuration: Seconds = Seconds(15.0)
    renewDeadline: Seconds = Seconds(10.0)
    retryPeriod: Seconds = Seconds(2.0)

    def __attrs_post_init__(self) -> None:
        problems = []
        if not self.leaseDuration > self.renewDeadline:
            problems.append(FieldError("renewDeadline", "must be shorter than leaseDuration"))
        if not self.renewDeadline > self.retryPeriod > 0:
            problems.append(FieldError("retryPeriod", "must be between 0 and renewDeadline"))
        raise_all(problems)


@attrs.frozen(kw_only=True, slots=True)
class PriorityClassSettings:
    stock: Subdomain = Subdomain("gpuruntime-stock")
    instance: Subdomain = Subdomain("gpuruntime-instance")


@attrs.frozen(kw_only=True, slots=True)
class NatsPeerSettings:
    """The broker as the Pods of functions see it; without it they reach none in the cluster."""

    namespaceLabels: dict[str, str] = attrs.field(factory=dict)
    podLabels: dict[str, str] = attrs.field(factory=dict)
    address: str = ""
    port: int = 4222

    def __attrs_post_init__(self) -> None:
        has_both = bool(self.namespaceLabels) == bool(self.podLabels)
        missing = "podLabels" if self.namespaceLabels else "namespaceLabels"
        refuse(
            *label_faults("namespaceLabels", self.namespaceLabels),
            *label_faults("podLabels", self.podLabels),
            (missing, not has_both, "is empty: labels of the namespace and the Pods go together"),
            (
                "address",
                bool(self.address and (self.namespaceLabels or self.podLabels)),
                "excludes labels: NATS is in one place",
            ),
            ("address", not is_address(self.address), f"{self.address!r} is no IP address"),
            ("port", not 0 < self.port <= 65_535, f"{self.port} is not between 1 and 65535"),
        )


@attrs.frozen(kw_only=True, slots=True)
class NetworkSettings:
    blockedEgressCIDRs: tuple[str, ...] = PRIVATE_NETWORKS
    nameServers: tuple[str, ...] = ()
    allowAllEgress: bool = False
    nats: NatsPeerSettings = NatsPeerSettings()

    def __attrs_post_init__(self) -> None:
        problems = [
            FieldError(f"blockedEgressCIDRs[{index}]", f"{cidr!r} is no CIDR such as 10.0.0.0/8")
            for index, cidr in enumerate(self.blockedEgressCIDRs)
            if not is_cidr(cidr)
        ]
        problems += [
            FieldError(f"nameServers[{index}]", f"{address!r} is no IP address")
            for index, address in enumerate(self.nameServers)
            if not address or not is_address(address)
        ]
        if not self.blockedEgressCIDRs and not self.allowAllEgress:
            problems.append(
                FieldError(
                    "blockedEgressCIDRs",
                    "is empty: set allowAllEgress: true if units may reach every address",
                )
            )
        raise_all(problems)


@attrs.frozen(kw_only=True, slots=True)
class PodDefaultSettings:
    cpu: Amount = Amount("1")
    memory: Amount = Amount("1Gi")
    ephemeralStorage: Amount = Amount("10Gi")
    ephemeralStorageRequest: Amount = Amount("1Gi")
    imagePullSecrets: tuple[Subdomain, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    nodeSelector: dict[str, str] = attrs.field(factory=dict)
    runtimeClassName: str = ""

    def __attrs_post_init__(self) -> None:
        name = self.runtimeClassName
        refuse(
            *label_faults("nodeSelector", self.nodeSelector),
            (
                "runtimeClassName",
                bool(name) and not is_dns_subdomain(name),
                f"{name!r} is no name of a class",
            ),
        )


@attrs.frozen(kw_only=True, slots=True)
class HelperSettings:
    """Containers beside the users': the file server, and the copying of storages."""

    accessorImage: str = "docker.io/sigoden/dufs:v0.47.0"
    copyImage: str = "docker.io/library/busybox:1.36"
    cpu: Amount = Amount("250m")
    memory: Amount = Amount("256Mi")

    def __attrs_post_init__(self) -> None:
        images = {"accessorImage": self.accessorImage, "copyImage": self.copyImage}
        refuse(
            *((field, not image, "is empty: name an image") for field, image in images.items()),
            *((field, " " in image, f"{image!r} is no image") for field, image in images.items()),
        )


@attrs.frozen(kw_only=True, slots=True)
class FileSettings:
    """Limits on file transfers through the api: for each direction, each file, and all at once.

    Each known caller has `atOncePerCaller` of `atOnce`; 0 stands for a quarter.
    """

    maxSize: Amount = Amount("100Gi")
    idleTimeout: Seconds = Seconds(60.0)
    timeout: Seconds = Seconds(3600.0)
    atOnce: int = 256
    atOncePerCaller: int = 0

    def __attrs_post_init__(self) -> None:
        if self.atOnce < 1:
            raise FieldError("atOnce", "must be at least 1")
        if self.atOncePerCaller < 0:
            raise FieldError("atOncePerCaller", "must be at least 1, or 0: a quarter of atOnce")

    @property
    def at_once_each(self) -> int:
        return self.atOncePerCaller or max(1, self.atOnce // 4)

    @property
    def most_bytes(self) -> int:
        return bytes_of(self.maxSize)


@attrs.frozen(kw_only=True, slots=True)
class ActivitySettings:
    """How often the leader asks the gateway's replicas how long ago units were active."""

    every: Seconds = Seconds(30.0)

    def __attrs_post_init__(self) -> None:
        refuse(("every", self.every < 1, "must be at least 1s"))


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
    tls: TlsSettings = TlsSettings()
    connections: ConnectionSettings = ConnectionSettings()
    nats: NatsSettings = NatsSettings()
    worker: WorkerSettings = WorkerSettings()
    serverless: ServerlessSettings = ServerlessSettings()
    results: ResultsSettings = ResultsSettings()
    podDefaults: PodDefaultSettings = PodDefaultSettings()
    helpers: HelperSettings = HelperSettings()
    files: FileSettings = FileSettings()
    gateway: GatewaySettings = GatewaySettings()
    activity: ActivitySettings = ActivitySettings()
    dev: DevSettings = DevSettings()

    def __attrs_post_init__(self) -> None:
        if self.operationRetention < SHORTEST_RETENTION_SECONDS:
            raise FieldError(
                "operationRetention",
                "must be at least 3m: a create may land that late after its object was deleted",
            )
