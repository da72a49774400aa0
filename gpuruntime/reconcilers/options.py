"""What an operator decides about units, as the reconcilers take it."""

from typing import Any, Final

import attrs

# Raised with every change of a child's shape; see drift for what that does to running units.
TEMPLATE_REVISION: Final = 1


@attrs.frozen(kw_only=True, slots=True)
class PodDefaults:
    """Added to every Pod; the quantities stand in where a unit names none."""

    cpu: str = "1"
    memory: str = "1Gi"
    image_pull_secrets: tuple[str, ...] = ()
    tolerations: tuple[dict[str, Any], ...] = ()  # JSON, as Pods spell them
    node_selector: dict[str, str] = attrs.field(factory=dict)
    runtime_class: str = ""


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
    template_revision: int = TEMPLATE_REVISION
