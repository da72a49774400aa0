"""Status of a storage, as a pure function of what was observed."""

from datetime import datetime

import attrs

from gpuruntime.models.kinds.phases import StoragePhase, storage_phase_of
from gpuruntime.models.kinds.reasons import ConditionType, StorageReason
from gpuruntime.models.kinds.storages import (
    AccessorStatus,
    GPUStorage,
    GPUStorageStatus,
    accessor_name,
)
from gpuruntime.models.kubernetes.conditions import Condition, with_condition
from gpuruntime.models.kubernetes.pods import Pod
from gpuruntime.models.kubernetes.volumes import VolumeClaim
from gpuruntime.models.kubernetes.workloads import Deployment
from gpuruntime.reconcilers.options import UnitOptions
from gpuruntime.reconcilers.storage.children import Placing, accessor_url
from gpuruntime.reconcilers.storage.prepare_plan import PrepareStep
from gpuruntime.reconcilers.storage.verdict import StorageVerdict
from gpuruntime.reconcilers.unit.pod_failures import current_pod, failure_of


@attrs.frozen(kw_only=True, slots=True)
class Findings:
    """Findings of a reconcile, from which the status follows."""

    volume: StorageVerdict
    prepare: PrepareStep
    accessor: StorageVerdict
    claim: VolumeClaim | None = None


def ready_verdict(found: Findings) -> StorageVerdict:
    """Return the verdict on the volume and its prepare; the accessor does not count."""
    if not found.volume.is_true:
        return found.volume
    return found.volume if found.prepare.verdict.is_true else found.prepare.verdict


def accessor_verdict(
    storage: GPUStorage, deployment: Deployment, pods: tuple[Pod, ...], placing: Placing
) -> StorageVerdict:
    """Return the verdict on an accessor whose children are in place."""
    holder = storage.status.holder
    if placing.is_off and holder is not None:
        message = f"waits until the Pod of unit {holder.name} has a node"
        return StorageVerdict(reason=StorageReason.ACCESSOR_PROGRESSING, message=message)
    if deployment.status.readyReplicas:
        return StorageVerdict(
            is_true=True, reason=StorageReason.ACCESSOR_SERVING, message="the files are served"
        )
    failure = failure_of(pods)
    trouble = failure.message if failure else ""
    if current_pod(pods) is None:
        trouble = deployment.refusal
    if trouble:
        return StorageVerdict(reason=StorageReason.ACCESSOR_FAILED, message=trouble)
    name = accessor_name(storage.metadata.name)
    return StorageVerdict(
        reason=StorageReason.ACCESSOR_PROGRESSING, message=f"Deployment {name} is on its way"
    )


ACCESSOR_OFF = StorageVerdict(
    reason=StorageReason.ACCESSOR_OFF, message="no accessor was asked for"
)
ACCESSOR_WAITS = StorageVerdict(
    reason=StorageReason.ACCESSOR_PROGRESSING, message="the accessor waits for the volume"
)


def status_of(
    storage: GPUStorage,
    found: Findings | StorageVerdict | None,
    options: UnitOptions,
    *,
    now: datetime,
) -> GPUStorageStatus:
    match found:
        case Findings():
            return _living_status(storage, found, options, now=now)
        case StorageVerdict():
            return _ending_status(storage, found, now=now)
        case None:
            return storage.status


def _living_status(
    storage: GPUStorage, found: Findings, options: UnitOptions, *, now: datetime
) -> GPUStorageStatus:
    status, generation = storage.status, storage.metadata.generation
    conditions = status.conditions
    for type_, verdict in (
        (ConditionType.READY, ready_verdict(found)),
        (ConditionType.PREPARED, found.prepare.verdict),
        (ConditionType.ACCESSOR_READY, found.accessor),
    ):
        conditions = with_condition(conditions, _condition(type_, verdict, generation), now=now)
    holder = status.holder
    claim = found.claim
    return attrs.evolve(
        status,
        phase=storage_phase_of(conditions),
        claimName=claim.metadata.name if claim else status.claimName,
        # A claim that has lost its volume has no capacity. The old one is kept, because it proves
        # that there was a volume.
        capacity=(claim.capacity if claim else "") or status.capacity,
        mountedBy=(holder.name,) if holder else (),
        prepare=found.prepare.status,
        accessor=_accessor_status(storage, found.accessor, options),
        observedGeneration=generation,
        conditions=conditions,
    )


def _ending_status(
    storage: GPUStorage, verdict: StorageVerdict, *, now: datetime
) -> GPUStorageStatus:
    """Return the status of a storage that is being deleted; only Ready changes."""
    generation = storage.metadata.generation
    condition = _condition(ConditionType.READY, verdict, generation)
    conditions = with_condition(storage.status.conditions, condition, now=now)
    return attrs.evolve(
        storage.status,
        phase=storage_phase_of(conditions),
        observedGeneration=generation,
        conditions=conditions,
    )


def _condition(type_: ConditionType, verdict: StorageVerdict, generation: int) -> Condition:
    return Condition(
        type=type_,
        status="True" if verdict.is_true else "False",
        reason=verdict.reason,
        message=verdict.message,
        observedGeneration=generation,
    )


def _accessor_status(
    storage: GPUStorage, verdict: StorageVerdict, options: UnitOptions
) -> AccessorStatus:
    if not storage.spec.accessor.enabled:
        return AccessorStatus()
    phases = {
        StorageReason.ACCESSOR_SERVING: StoragePhase.READY,
        StorageReason.ACCESSOR_FAILED: StoragePhase.FAILED,
    }
    return AccessorStatus(
        phase=phases.get(verdict.reason, StoragePhase.PENDING),
        serviceName=accessor_name(storage.metadata.name),
        accessURL=accessor_url(storage, options),
    )
