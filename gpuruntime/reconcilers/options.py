"""What an operator decides about units, as the reconcilers take it."""

from typing import Any, Final

import attrs

# Raised with every change of a child's shape; see drift for what that does to running units.
TEMPLATE_REVISION: Final = 3
# Raised with every change of the rules of NetworkPolicies: it reaches those that are there at
# once, because they, unlike Pods, lose nothing by it.
RULES_REVISION: Final = 1


@attrs.frozen(kw_only=True, slots=True)
class PodDefaults:
    """Added to every Pod; the quantities stand in where a unit names none."""

    cpu: str = "1"
    memory: str = "1Gi"
    ephemeral_storage: str = "10Gi"
    image_pull_secrets: tuple[str, ...] = ()
    tolerations: tuple[dict[str, Any], ...] = ()  # JSON, as Pods spell them
    node_selector: dict[str, str] = attrs.field(factory=dict)
    runtime_class: str = ""


@attrs.frozen(kw_only=True, slots=True)
class HelperOptions:
    """Of the containers beside users': what they run, and how much each of them gets."""

    accessor_image: str = "docker.io/sigoden/dufs:v0.47.0"
    copy_image: str = "docker.io/library/busybox:1.36"
    cpu: str = "250m"
    memory: str = "256Mi"


@attrs.frozen(kw_only=True, slots=True)
class SidecarOptions:
    """Of the worker beside a function's container. Without a broker functions are off.

    `broker_files` are files of the manager's own, by the key that names them in a configuration.
    """

    image: str = "gpuruntime"
    cpu: str = "100m"
    cpu_limit: str = "1"
    memory: str = "256Mi"
    ephemeral_storage: str = "256Mi"
    # How long work in hand may go on once its Pod has to end.
    drain_seconds: float = 30.0
    broker_url: str = ""
    broker_user: str = ""
    broker_files: dict[str, str] = attrs.field(factory=dict)
    subject_prefix: str = "runtime"
    ack_wait_seconds: float = 30.0
    retention_seconds: float = 86_400.0


@attrs.frozen(kw_only=True, slots=True)
class NatsPeer:
    """Where functions find their queue: Pods by both kinds of labels, or one address."""

    namespace_labels: dict[str, str] = attrs.field(factory=dict)
    pod_labels: dict[str, str] = attrs.field(factory=dict)
    cidr: str = ""
    port: int = 4222


@attrs.frozen(kw_only=True, slots=True)
class NetworkOptions:
    """Where units may not go; the Internet is the rest.

    `name_servers` are addresses of such, as CIDRs, beside the cluster's own.
    """

    blocked_cidrs: tuple[str, ...] = ()
    name_servers: tuple[str, ...] = ()
    allows_all: bool = False
    nats: NatsPeer | None = None


@attrs.frozen(kw_only=True, slots=True)
class UnitOptions:
    stock_namespace: str = "runtime-stock"
    instance_namespace: str = "runtime-instance"
    system_namespace: str = "runtime-system"
    cluster_domain: str = "cluster.local"
    gpu_resource: str = "nvidia.com/gpu"
    is_restricted: bool = False
    stock_priority: str = "gpuruntime-stock"
    instance_priority: str = "gpuruntime-instance"
    pod_defaults: PodDefaults = PodDefaults()
    helpers: HelperOptions = HelperOptions()
    sidecar: SidecarOptions = SidecarOptions()
    network: NetworkOptions = NetworkOptions()
    template_revision: int = TEMPLATE_REVISION
    rules_revision: int = RULES_REVISION
