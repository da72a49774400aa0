"""Values for operators: jobs, the health of the service, the fleet, and the audit."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

import attrs

from gpuruntime.models.definitions.schemas import Schema


class JobStatus(StrEnum):
    # No manager has reconciled the pool yet.
    PENDING = "pending"
    # Units are being created.
    RUNNING = "running"
    # All units were created as objects; `ready` counts those that are ready.
    SUCCEEDED = "succeeded"
    # No unit will be created; `error` says why.
    FAILED = "failed"


class HealthStatus(StrEnum):
    OK = "ok"
    # The API answers, and refuses requests that need the cluster.
    DEGRADED = "degraded"


@attrs.frozen(kw_only=True, slots=False)
class Job:
    """A job. `created` counts the units that exist or were consumed, as its pool reports them.

    While the cluster refuses units, or they fail, `error` says why. `message` says why not all
    units are ready, such as that no node accepts some of them.
    """

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
    message: str
    createdAt: datetime | None
    updatedAt: datetime | None


@attrs.frozen(kw_only=True, slots=False)
class HealthView:
    """Health of the API. Its counts come from the caches, as of the latest contact with the
    cluster. Held and free GPUs are null while Pods are unknown, and `gpuUsageError` says why.
    """

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
    totalGPUHeldByStock: int | None
    totalGPUHeldByUnits: int | None
    totalGPUHeldByOthers: int | None
    totalGPUFree: int | None
    gpuUsageError: str
    gpuProducts: list[str]


@attrs.frozen(kw_only=True, slots=False)
class NodeView:
    """A node. GPUs are numbers; cpu and memory are as the node itself writes them.

    Held GPUs are those that Pods on the node request; they are null while the Pods are unknown.
    """

    name: str
    ready: bool
    schedulable: bool
    gpuProduct: str
    gpuCapacity: int
    gpuAllocatable: int
    gpuHeldByStock: int | None
    gpuHeldByUnits: int | None
    gpuHeldByOthers: int | None
    gpuFree: int | None
    cpuAllocatable: str
    memoryAllocatable: str


@attrs.frozen(kw_only=True, slots=False)
class GpuProductView:
    """GPUs of one product, over all nodes that have them."""

    product: str
    nodes: int
    gpuCapacity: int
    gpuAllocatable: int
    gpuHeldByStock: int | None
    gpuHeldByUnits: int | None
    gpuHeldByOthers: int | None
    gpuFree: int | None


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
    """Active units of one specName, by phase; declared functions run nothing and do not count."""

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
    """A ResourceQuota of a namespace for units, in quantities by resource name."""

    namespace: str
    name: str
    hard: dict[str, str]
    used: dict[str, str]


@attrs.frozen(kw_only=True, slots=False)
class FleetView:
    """The fleet. While held and free GPUs are unknown, `gpuUsageError` says why."""

    nodes: list[NodeView]
    gpuProducts: list[GpuProductView]
    gpuUsageError: str
    specs: list[SpecView]
    quotas: list[QuotaView]


@attrs.frozen(kw_only=True, slots=False)
class RuleView:
    """An invariant; `checked` is false if this process does not read the objects that it needs."""

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
    """A broken invariant: its objects, what is wrong with them, and the remedy."""

    rule: str
    objects: list[AuditedObject]
    message: str
    remedy: str


@attrs.frozen(kw_only=True, slots=False)
class AuditView:
    """An audit. `suspicions` are too young to be breaches: caches lag, and some changes take a
    while.
    """

    rules: list[RuleView]
    breaches: list[BreachView]
    suspicions: int
    checkedAt: datetime
    objects: int
