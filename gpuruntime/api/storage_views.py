"""What callers see of storages."""

from datetime import datetime

import attrs

from gpuruntime.models import labels, provenance
from gpuruntime.models.conditions import Condition, condition_of
from gpuruntime.models.phases import StoragePhase, storage_phase_of
from gpuruntime.models.reasons import ConditionType
from gpuruntime.models.storages import (
    Accessor,
    AccessorStatus,
    GPUStorage,
    Holder,
    Prepare,
    PrepareStatus,
)

_NO_CONDITION = Condition(type=ConditionType.READY)


@attrs.frozen(kw_only=True, slots=False)
class StorageView:
    """A storage as it is wished for and as it is; `phase` follows from `conditions`."""

    name: str
    namespace: str
    tenant: str
    operationID: str
    size: str
    storageClassName: str
    prepare: Prepare | None
    accessor: Accessor
    phase: StoragePhase
    reason: str
    message: str
    conditions: tuple[Condition, ...]
    claimName: str
    capacity: str
    holder: Holder | None
    mountedBy: tuple[str, ...]
    prepareStatus: PrepareStatus
    accessorStatus: AccessorStatus
    generation: int
    observedGeneration: int
    createdAt: datetime | None


def storage_view(storage: GPUStorage) -> StorageView:
    metadata, spec, status = storage.metadata, storage.spec, storage.status
    ready = condition_of(status.conditions, ConditionType.READY) or _NO_CONDITION
    return StorageView(
        name=metadata.name,
        namespace=metadata.namespace,
        tenant=metadata.labels.get(labels.TENANT, ""),
        operationID=provenance.operation_of(storage),
        size=spec.size,
        storageClassName=spec.storageClassName,
        prepare=spec.prepare,
        accessor=spec.accessor,
        phase=storage_phase_of(status.conditions),
        reason=ready.reason,
        message=ready.message,
        conditions=status.conditions,
        claimName=status.claimName,
        capacity=status.capacity,
        holder=status.holder,
        mountedBy=status.mountedBy,
        prepareStatus=status.prepare,
        accessorStatus=status.accessor,
        generation=metadata.generation,
        observedGeneration=status.observedGeneration,
        createdAt=metadata.creationTimestamp,
    )
