"""What a storage needs next, and what is true of it: decided from what was observed.

A prepare runs once. Its run is named by a digest and recorded before its Job is made, so that a
Job which is gone later, collected or removed, is never made again; a failed run stays failed
until somebody asks to recover.
"""

from typing import Final, TypeAlias

import attrs

from gpuruntime.models.phases import StepPhase
from gpuruntime.models.quantities import InvalidQuantityError, parse_quantity
from gpuruntime.models.reasons import StorageReason
from gpuruntime.models.storages import (
    GPUStorage,
    PrepareStatus,
    asks_to_recover,
    prepare_digest,
    prepare_name,
)
from gpuruntime.models.volumes import Job, StorageClass, VolumeClaim

_ENDED: Final = (StepPhase.SUCCEEDED, StepPhase.FAILED)


@attrs.frozen(kw_only=True, slots=True)
class StorageVerdict:
    """A condition in the making."""

    is_true: bool = False
    reason: StorageReason
    message: str


@attrs.frozen(slots=True)
class MakeClaim:
    """There is no claim yet, and there never was a volume."""


@attrs.frozen(slots=True)
class GrowClaim:
    """To the size of the spec."""


@attrs.frozen(slots=True)
class KeepClaim:
    """Nothing to do; or nothing that would help."""


ClaimMove: TypeAlias = MakeClaim | GrowClaim | KeepClaim


@attrs.frozen(kw_only=True, slots=True)
class PrepareStep:
    """The record as it should be; with `makes_job` the Job is to be made once it is written."""

    status: PrepareStatus
    verdict: StorageVerdict
    makes_job: bool = False


def claim_move(
    storage: GPUStorage, claim: VolumeClaim | None, storage_class: StorageClass | None
) -> ClaimMove:
    if claim is None:
        return KeepClaim() if _had_volume(storage) else MakeClaim()
    may_grow = storage_class is not None and storage_class.allowVolumeExpansion
    if may_grow and claim.status.phase == "Bound" and _is_larger(storage.spec.size, claim.size):
        return GrowClaim()
    return KeepClaim()


def volume_verdict(
    storage: GPUStorage, claim: VolumeClaim | None, storage_class: StorageClass | None
) -> StorageVerdict:
    """Of a storage whose claim has been made, if it could be."""
    name = storage.metadata.name
    if claim is None and _had_volume(storage):
        return StorageVerdict(
            reason=StorageReason.VOLUME_LOST,
            message=f"claim {name} was removed, and what was on it: delete this storage",
        )
    if claim is None or claim.status.phase in ("", "Pending"):
        return _pending(name, storage_class, is_made=claim is not None)
    if claim.status.phase == "Lost":
        return StorageVerdict(
            reason=StorageReason.VOLUME_LOST,
            message=f"claim {name} lost its volume {claim.spec.volumeName}: delete this storage",
        )
    return _bound(storage, claim, storage_class)


def prepare_step(
    storage: GPUStorage, job: Job | None, *, source_ready: str, words: str
) -> PrepareStep:
    """`source_ready` tells why a copy cannot begin, or is empty; `words` are a failed Pod's."""
    record = storage.status.prepare
    prepare = storage.spec.prepare
    if prepare is None and not record.phase:
        return PrepareStep(
            status=record,
            verdict=StorageVerdict(
                is_true=True,
                reason=StorageReason.NOTHING_TO_PREPARE,
                message="nothing was asked for",
            ),
        )
    if record.phase in _ENDED and not asks_to_recover(storage):
        return PrepareStep(status=record, verdict=_ended(storage, record))
    if prepare is not None and record.phase not in (StepPhase.PENDING, StepPhase.RUNNING):
        return _begin(storage, source_ready)
    return _follow(storage, record, job, words)


def _begin(storage: GPUStorage, source_ready: str) -> PrepareStep:
    """Of a first run, or of one more that somebody asked for."""
    record = storage.status.prepare
    if source_ready:
        verdict = StorageVerdict(reason=StorageReason.SOURCE_NOT_READY, message=source_ready)
        return PrepareStep(status=record, verdict=verdict)
    digest = prepare_digest(storage)
    is_recovery = bool(record.phase)
    begun = PrepareStatus(
        phase=StepPhase.PENDING,
        jobName=prepare_name(storage.metadata.name, digest),
        observedDigest=digest,
        recoveryPhase=StepPhase.PENDING if is_recovery else "",
    )
    return PrepareStep(status=begun, verdict=_progressing(begun), makes_job=True)


def _follow(
    storage: GPUStorage, record: PrepareStatus, job: Job | None, words: str
) -> PrepareStep:
    if job is None and record.phase == StepPhase.PENDING:
        return PrepareStep(status=record, verdict=_progressing(record), makes_job=True)
    if job is None:
        why = f"Job {record.jobName} was removed before it ended"
        return _failed(record, why)
    if job.has_failed:
        return _failed(record, words or job.words)
    phase = StepPhase.SUCCEEDED if job.has_succeeded else StepPhase.RUNNING
    status = _moved(record, phase)
    verdict = _ended(storage, status) if job.has_succeeded else _progressing(status)
    return PrepareStep(status=status, verdict=verdict)


def _failed(record: PrepareStatus, why: str) -> PrepareStep:
    message = f"{why}; mend what it needs and ask to recover"
    verdict = StorageVerdict(reason=StorageReason.PREPARE_FAILED, message=message)
    return PrepareStep(status=_moved(record, StepPhase.FAILED), verdict=verdict)


def _moved(record: PrepareStatus, phase: StepPhase) -> PrepareStatus:
    recovery = phase if record.recoveryPhase else ""
    return attrs.evolve(record, phase=phase, recoveryPhase=recovery)


def _ended(storage: GPUStorage, record: PrepareStatus) -> StorageVerdict:
    """A failure's words were written when it happened; its Pod may be gone by now."""
    if record.phase == StepPhase.SUCCEEDED:
        return StorageVerdict(
            is_true=True,
            reason=StorageReason.PREPARE_SUCCEEDED,
            message=f"Job {record.jobName} filled the volume",
        )
    kept = [each.message for each in storage.status.conditions if each.type == "Prepared"]
    message = kept[0] if kept else f"Job {record.jobName} failed: ask to recover"
    return StorageVerdict(reason=StorageReason.PREPARE_FAILED, message=message)


def _progressing(record: PrepareStatus) -> StorageVerdict:
    return StorageVerdict(
        reason=StorageReason.PREPARE_PROGRESSING, message=f"Job {record.jobName} fills the volume"
    )


def _pending(name: str, storage_class: StorageClass | None, *, is_made: bool) -> StorageVerdict:
    if is_made and storage_class is not None and storage_class.binds_late:
        message = f"claim {name} gets its volume with the first Pod that mounts it"
        return StorageVerdict(is_true=True, reason=StorageReason.VOLUME_READY, message=message)
    message = f"claim {name} waits for its volume"
    return StorageVerdict(reason=StorageReason.VOLUME_PENDING, message=message)


def _bound(
    storage: GPUStorage, claim: VolumeClaim, storage_class: StorageClass | None
) -> StorageVerdict:
    name, has, wants = storage.metadata.name, claim.capacity or claim.size, storage.spec.size
    if not _is_larger(wants, has):
        return StorageVerdict(
            is_true=True, reason=StorageReason.VOLUME_READY, message=f"claim {name} holds {has}"
        )
    may_grow = storage_class is not None and storage_class.allowVolumeExpansion
    if may_grow:
        message = f"claim {name} holds {has} and grows to {wants}"
        return StorageVerdict(is_true=True, reason=StorageReason.VOLUME_READY, message=message)
    which = claim.spec.storageClassName or "of the volume"
    return StorageVerdict(
        is_true=True,
        reason=StorageReason.EXPANSION_REFUSED,
        message=f"claim {name} stays at {has}: class {which} does not let volumes grow to {wants}",
    )


def _had_volume(storage: GPUStorage) -> bool:
    return bool(storage.status.capacity)


def _is_larger(size: str, other: str) -> bool:
    try:
        return parse_quantity(size) > parse_quantity(other)
    except InvalidQuantityError:
        return False
