"""What operators see: jobs, how the service and the fleet are doing, and the audit."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

import attrs

from gpuruntime.models.definitions.schemas import Schema


class JobStatus(StrEnum):
    # No manager has looked at it yet.
    PENDING = "pending"
    # Units are being created.
    RUNNING = "running"
    # All units were created as objects; whether they are ready is told by `ready`.
    SUCCEEDED = "succeeded"
    # No unit will be created; `error` says why.
    FAILED = "failed"


class HealthStatus(StrEnum):
    OK = "ok"
    # It answers, and has to refuse what needs the cluster.
    DEGRADED = "degraded"


@attrs.frozen(kw_only=True, slots=False)
class Job:
    operationID: str
    type: str
    status: Annotated[str, Schema(enum=tuple(JobStatus))]
    objectName: str
    objectNamespace: str
    requested: int
    created: int
    ready: int
    consumed: int
    error: str
    createdAt: datetime | None
    updatedAt: datetime | None


@attrs.frozen(kw_only=True, slots=False)
class HealthView:
    """Counts are as of the caches, so of the moment in which the cluster was last heard."""

    status: Annotated[str, Schema(enum=tuple(HealthStatus))]
    version: str
    startedAt: datetime
    uptimeSeconds: float
    kubernetesConnected: bool
    kubernetesError: str
    cacheSynced: bool
    queueConnected: bool
    activeUnitCount: int
    stockUnitCount: int
    readyStockCount: int
    nodeCount: int
    readyNodeCount: int
    totalGPUCapacity: int
    totalGPUAllocatable: int
    gpuProducts: list[str]


@attrs.frozen(kw_only=True, slots=False)
class NodeView:
    """GPUs in numbers; cpu and memory as the node itself writes them."""

    name: str
    ready: bool
    schedulable: bool
    gpuProduct: str
    gpuCapacity: int
    gpuAllocatable: int
    cpuAllocatable: str
    memoryAllocatable: str


@attrs.frozen(kw_only=True, slots=False)
class GpuProductView:
    """GPUs of one make, over all nodes that have them."""

    product: str
    nodes: int
    gpuCapacity: int
    gpuAllocatable: int


@attrs.frozen(kw_only=True, slots=False)
class StockCounts:
    """Stock units of one specName; `available` ones can be claimed now."""

    total: int
    available: int
    claimed: int
    progressing: int
    failed: int


@attrs.frozen(kw_only=True, slots=False)
class ActiveCounts:
    """Units of one specName that serve somebody, by phase."""

    total: int
    ready: int
    progressing: int
    suspended: int
    failed: int


@attrs.frozen(kw_only=True, slots=False)
class SpecView:
    specName: str
    stock: StockCounts
    active: ActiveCounts


@attrs.frozen(kw_only=True, slots=False)
class QuotaView:
    """A ResourceQuota of one of our namespaces, in quantities by resource name."""

    namespace: str
    name: str
    hard: dict[str, str]
    used: dict[str, str]


@attrs.frozen(kw_only=True, slots=False)
class FleetView:
    nodes: list[NodeView]
    gpuProducts: list[GpuProductView]
    specs: list[SpecView]
    quotas: list[QuotaView]


@attrs.frozen(kw_only=True, slots=False)
class RuleView:
    """An invariant; one that needs what this process does not read is not checked by it."""

    name: str
    description: str
    checked: bool
    breaches: int


@attrs.frozen(kw_only=True, slots=False)
class AuditedObject:
    kind: str
    namespace: str
    name: str
    uid: str


@attrs.frozen(kw_only=True, slots=False)
class BreachView:
    """What is wrong, of which objects, and what to do about it."""

    rule: str
    objects: list[AuditedObject]
    message: str
    remedy: str


@attrs.frozen(kw_only=True, slots=False)
class AuditView:
    """`suspicions` are too young to be breaches: caches may lag, and some things take a while."""

    rules: list[RuleView]
    breaches: list[BreachView]
    suspicions: int
    checkedAt: datetime
    objects: int
