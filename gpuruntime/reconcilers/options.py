"""Options of the reconcilers, which an operator configures."""

from typing import Any, Final

import attrs

# Raised with every change of a child's shape; `drift` says what that does to running units.
TEMPLATE_REVISION: Final = 3
# Raised with every change of NetworkPolicy rules. It reaches existing policies at once, because
# unlike Pods they lose nothing by a change.
RULES_REVISION: Final = 1


@attrs.frozen(kw_only=True, slots=True)
class PodDefaults:
    """Members of every Pod; the quantities apply if a unit names none."""

    cpu: str = "1"
    memory: str = "1Gi"
    ephemeral_storage: str = "10Gi"
    image_pull_secrets: tuple[str, ...] = ()
    tolerations: tuple[dict[str, Any], ...] = ()  # JSON, as Pods spell them
    node_selector: dict[str, str] = attrs.field(factory=dict)
    runtime_class: str = ""


@attrs.frozen(kw_only=True, slots=True)
class HelperOptions:
    """Images and resources of the helper containers that fill and serve storages."""

    accessor_image: str = "docker.io/sigoden/dufs:v0.47.0"
    copy_image: str = "docker.io/library/busybox:1.36"
    cpu: str = "250m"
    memory: str = "256Mi"


@attrs.frozen(kw_only=True, slots=True)
class SidecarOptions:
    """Options of the worker container. Functions are off if `broker_url` is empty.

    `broker_files` maps a configuration key to the manager's own file that it names.
    """

    image: str = "gpuruntime"
    cpu: str = "100m"
    cpu_limit: str = "1"
    memory: str = "256Mi"
    ephemeral_storage: str = "256Mi"
    # Seconds for which calls in progress may continue once their Pod has to end.
    drain_seconds: float = 30.0
    broker_url: str = ""
    broker_user: str = ""
    broker_files: dict[str, str] = attrs.field(factory=dict)
    subject_prefix: str = "runtime"
    ack_wait_seconds: float = 30.0
    retention_seconds: float = 86_400.0


@attrs.frozen(kw_only=True, slots=True)
class NatsPeer:
    """Address of NATS for workers: Pods by both kinds of labels, or a CIDR."""

    namespace_labels: dict[str, str] = attrs.field(factory=dict)
    pod_labels: dict[str, str] = attrs.field(factory=dict)
    cidr: str = ""
    port: int = 4222


@attrs.frozen(kw_only=True, slots=True)
class NetworkOptions:
    """Networks that units may not reach; they may reach the rest of the Internet.

    `name_servers` are the CIDRs of name servers beside the cluster's own.
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
