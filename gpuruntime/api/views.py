"""What callers see of units and pools: the answers' models, and how they come from objects.

The models of answers have no slots, so that their members are sent in the order of their fields.
"""

from datetime import datetime

import attrs

from gpuruntime.inventory.units import Lifecycle
from gpuruntime.models import labels, provenance
from gpuruntime.models.conditions import Condition, condition_of
from gpuruntime.models.functions import Serverless
from gpuruntime.models.phases import PoolPhase, UnitPhase, phase_of, pool_phase_of
from gpuruntime.models.pools import StockPool
from gpuruntime.models.reasons import ConditionType
from gpuruntime.models.templates import Template
from gpuruntime.models.units import Access, GPUUnit, StorageMount, Timeline

_NO_CONDITION = Condition(type=ConditionType.READY)


@attrs.frozen(kw_only=True, slots=False)
class SourceStock:
    """The stock unit whose envelope the unit took over."""

    name: str
    namespace: str
    uid: str


@attrs.frozen(kw_only=True, slots=False)
class UnitView:
    """A unit as it is wished for and as it is; `phase` follows from `conditions`."""

    name: str
    namespace: str
    lifecycle: Lifecycle
    tenant: str
    specName: str
    image: str
    cpu: str
    memory: str
    gpu: int
    gpuProduct: str
    template: Template
    access: Access
    storageMounts: tuple[StorageMount, ...]
    serverless: Serverless | None
    suspended: bool
    phase: UnitPhase
    reason: str
    message: str
    conditions: tuple[Condition, ...]
    readyReplicas: int
    generation: int
    observedGeneration: int
    nodeName: str
    serviceName: str
    accessURL: str
    operationID: str
    sourceStock: SourceStock | None
    timeline: Timeline
    createdAt: datetime | None


@attrs.frozen(kw_only=True, slots=False)
class PoolView:
    """A pool as it is wished for, and how its stock stands."""

    name: str
    namespace: str
    operationID: str
    specName: str
    cpu: str
    memory: str
    gpu: int
    gpuProduct: str
    replicas: int
    refill: str
    image: str
    template: Template
    phase: PoolPhase
    reason: str
    message: str
    conditions: tuple[Condition, ...]
    available: int
    claimed: int
    progressing: int
    failed: int
    seeded: int
    consumed: int
    generation: int
    observedGeneration: int
    createdAt: datetime | None


def unit_view(unit: GPUUnit, lifecycle: Lifecycle) -> UnitView:
    metadata, spec, status = unit.metadata, unit.spec, unit.status
    ready = condition_of(status.conditions, ConditionType.READY) or _NO_CONDITION
    return UnitView(
        name=metadata.name,
        namespace=metadata.namespace,
        lifecycle=lifecycle,
        tenant=metadata.labels.get(labels.TENANT, ""),
        specName=spec.specName,
        image=spec.image,
        cpu=spec.cpu,
        memory=spec.memory,
        gpu=spec.gpu,
        gpuProduct=spec.gpuProduct,
        template=spec.template,
        access=spec.access,
        storageMounts=spec.storageMounts,
        serverless=spec.serverless,
        suspended=spec.suspended,
        phase=phase_of(status.conditions),
        reason=ready.reason,
        message=ready.message,
        conditions=status.conditions,
        readyReplicas=status.readyReplicas,
        generation=metadata.generation,
        observedGeneration=status.observedGeneration,
        nodeName=status.nodeName,
        serviceName=status.serviceName,
        accessURL=status.accessURL,
        operationID=provenance.operation_of(unit),
        sourceStock=_source_of(unit),
        timeline=_timeline_of(unit),
        createdAt=metadata.creationTimestamp,
    )


def pool_view(pool: StockPool) -> PoolView:
    metadata, spec, status = pool.metadata, pool.spec, pool.status
    ready = condition_of(status.conditions, ConditionType.READY) or _NO_CONDITION
    return PoolView(
        name=metadata.name,
        namespace=metadata.namespace,
        operationID=provenance.operation_of(pool),
        specName=spec.specName,
        cpu=spec.cpu,
        memory=spec.memory,
        gpu=spec.gpu,
        gpuProduct=spec.gpuProduct,
        replicas=spec.replicas,
        refill=spec.refill,
        image=spec.image,
        template=spec.template,
        phase=pool_phase_of(status.conditions),
        reason=ready.reason,
        message=ready.message,
        conditions=status.conditions,
        available=status.available,
        claimed=status.claimed,
        progressing=status.progressing,
        failed=status.failed,
        seeded=status.seeded,
        consumed=status.consumed,
        generation=metadata.generation,
        observedGeneration=status.observedGeneration,
        createdAt=metadata.creationTimestamp,
    )


def _source_of(unit: GPUUnit) -> SourceStock | None:
    key = provenance.source_of(unit)
    if key is None:
        return None
    return SourceStock(name=key.name, namespace=key.namespace, uid=provenance.source_uid_of(unit))


def _timeline_of(unit: GPUUnit) -> Timeline:
    """What the API itself noted, until the manager has written the whole."""
    timeline = unit.status.timeline
    return attrs.evolve(
        timeline,
        acceptedAt=timeline.acceptedAt or provenance.accepted_at(unit),
        claimedAt=timeline.claimedAt or provenance.claimed_at(unit),
        createdAt=timeline.createdAt or unit.metadata.creationTimestamp,
    )
