"""Options of the reconcilers, which an operator configures."""

from typing import Any, Final

import attrs

from gpuruntime.tickets.addresses import GatewayAddress

# Raised with every change of a child's shape; `drift` says what that does to running units.
TEMPLATE_REVISION: Final = 4
# Raised with every change of NetworkPolicy rules. It reaches existing policies at once, because
# unlike Pods they lose nothing by a change.
RULES_REVISION: Final = 1


@attrs.frozen(kw_only=True, slots=True)
class PodDefaults:
    """Members of every Pod; the quantities apply if a unit names none.

    A node reserves `ephemeral_storage_request`, if that is below the limit `ephemeral_storage`.
    """

    cpu: str
    memory: str
    ephemeral_storage: str
    ephemeral_storage_request: str
    image_pull_secrets: tuple[str, ...]
    tolerations: tuple[dict[str, Any], ...]  # JSON, as Pods spell them
    node_selector: dict[str, str]
    runtime_class: str


@attrs.frozen(kw_only=True, slots=True)
class HelperOptions:
    """Images and resources of the helper containers that fill and serve storages."""

    accessor_image: str
    copy_image: str
    cpu: str
    memory: str


@attrs.frozen(kw_only=True, slots=True)
class SidecarOptions:
    """Options of the worker container. Functions are off if `broker_url` is empty.

    `broker_files` maps a configuration key to the manager's own file that it names.
    """

    image: str
    cpu: str
    cpu_limit: str
    memory: str
    ephemeral_storage: str = "256Mi"
    # Seconds for which calls in progress may continue once their Pod has to end.
    drain_seconds: float
    broker_url: str
    broker_user: str
    broker_files: dict[str, str]
    subject_prefix: str
    ack_wait_seconds: float
    retention_seconds: float


@attrs.frozen(kw_only=True, slots=True)
class NatsPeer:
    """Address of NATS for workers: Pods by both kinds of labels, or a CIDR."""

    namespace_labels: dict[str, str]
    pod_labels: dict[str, str]
    cidr: str
    port: int


@attrs.frozen(kw_only=True, slots=True)
class NetworkOptions:
    """Networks that units may not reach; they may reach the rest of the Internet.

    `name_servers` are the CIDRs of name servers beside the cluster's own.
    """

    blocked_cidrs: tuple[str, ...]
    name_servers: tuple[str, ...]
    allows_all: bool
    nats: NatsPeer | None


@attrs.frozen(kw_only=True, slots=True)
class UnitOptions:
    stock_namespace: str
    instance_namespace: str
    system_namespace: str
    cluster_domain: str
    gpu_resource: str
    is_restricted: bool
    stock_priority: str
    instance_priority: str
    pod_defaults: PodDefaults
    helpers: HelperOptions
    sidecar: SidecarOptions
    network: NetworkOptions
    public_address: GatewayAddress | None
    template_revision: int = TEMPLATE_REVISION
    rules_revision: int = RULES_REVISION
