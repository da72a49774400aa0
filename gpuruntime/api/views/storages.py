"""Views of storages, made from their objects."""

from gpuruntime.models.encoding.members import shared
from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.phases import storage_phase_of
from gpuruntime.models.kinds.reasons import ConditionType
from gpuruntime.models.kinds.storages import GPUStorage
from gpuruntime.models.kubernetes.conditions import Condition, condition_of
from gpuruntime.models.views.storages import StorageView

_NO_CONDITION = Condition(type=ConditionType.READY)


def storage_view(storage: GPUStorage) -> StorageView:
    metadata, status = storage.metadata, storage.status
    ready = condition_of(status.conditions, ConditionType.READY) or _NO_CONDITION
    return StorageView(
        name=metadata.name,
        namespace=metadata.namespace,
        tenant=metadata.labels.get(labels.TENANT, ""),
        operationID=provenance.operation_of(storage),
        **shared(storage.spec, StorageView),
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
