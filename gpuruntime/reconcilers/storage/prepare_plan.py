"""Pure decisions about the prepare of a storage, which fills its volume once.

A digest names its run, which is recorded before its Job is created, and again before the Job is
unsuspended. So a Job that is gone later is never created again. A failed run stays failed until a
caller asks to recover.
"""

from collections.abc import Sequence
from typing import Final

import attrs

from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.phases import StepPhase, StoragePhase, storage_phase_of
from gpuruntime.models.kinds.reasons import ConditionType, StorageReason
from gpuruntime.models.kinds.storages import (
    GPUStorage,
    Holder,
    PrepareStatus,
    asks_to_recover,
    prepare_digest,
    prepare_name,
)
from gpuruntime.models.kubernetes.conditions import condition_of
from gpuruntime.models.kubernetes.volumes import JOBS, Job
from gpuruntime.operations.storage_identity import mistaken
from gpuruntime.reconcilers.storage.children import foreign_child
from gpuruntime.reconcilers.storage.verdict import StorageVerdict

# Waiting reasons of a container whose image is at fault.
_IMAGE_FAULTS: Final = ("ErrImage", "ImagePullBackOff", "InvalidImageName")

WAITS_FOR_VOLUME: Final = StorageVerdict(
    reason=StorageReason.PREPARE_PROGRESSING, message="waits for the volume"
)


@attrs.frozen(kw_only=True, slots=True)
class PrepareStep:
    """The record as it should be written.

    With `makes_job`, the next step follows that write: create the Job, or unsuspend it.
    """

    status: PrepareStatus
    verdict: StorageVerdict
    makes_job: bool = False


def prepare_step(
    storage: GPUStorage, job: Job | None, *, waits: StorageVerdict | None, words: str
) -> PrepareStep:
    """Return the next step of the prepare.

    `waits` says why it cannot begin yet, or is None. `words` is the message of a failed Pod.
    """
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
    if record.has_ended and not asks_to_recover(storage):
        return PrepareStep(status=record, verdict=_ended(storage, record))
    if prepare is not None and record.phase not in (StepPhase.PENDING, StepPhase.RUNNING):
        return _begin(storage, waits)
    if job is None and record.phase == StepPhase.PENDING:
        return _make(record, waits)
    if job is not None and job.spec.suspend:
        return _unsuspend(record, waits)
    return _follow(storage, record, job, words)


def resting_step(storage: GPUStorage) -> PrepareStep:
    """Return the step of a storage that cannot go on; an ended run keeps its phase and message."""
    record = storage.status.prepare
    verdict = _ended(storage, record) if record.has_ended else WAITS_FOR_VOLUME
    return PrepareStep(status=record, verdict=verdict)


def foreign_job(storage: GPUStorage, job: Job) -> StorageVerdict | None:
    return foreign_child(
        JOBS,
        job,
        storage,
        refused=StorageReason.PREPARE_SYNC_FAILED,
        waits=StorageReason.PREPARE_PROGRESSING,
    )


def reads_pods_live(storage: GPUStorage, job: Job | None) -> bool:
    """Return whether Pods on the volume have to be read live before the next step of the run.

    A cache that lags must not let two Pods write at once. A Job that is created suspended has no
    Pod yet, so its release is the step that matters.
    """
    is_recorded = storage.status.prepare.phase == StepPhase.PENDING
    return asks_to_recover(storage) or (is_recorded and job is not None)


def waits_of(
    storage: GPUStorage,
    volume: StorageVerdict,
    *,
    source: GPUStorage | None,
    left: Sequence[str],
) -> StorageVerdict | None:
    """Return why the prepare cannot begin yet, or None.

    `left` names the Pods on the volume: a prepare must be the only one.
    """
    if not volume.is_true:
        return WAITS_FOR_VOLUME
    if storage.status.holder is not None:
        return _waits_for_holder(storage.status.holder)
    name = storage.spec.prepare.fromStorageName if storage.spec.prepare else ""
    wrong = wrong_source(storage, name, source) if name else None
    if wrong is not None:
        return wrong
    if source is not None and storage_phase_of(source.status.conditions) is not StoragePhase.READY:
        return source_missing(f"storage {name} to copy from is not ready")
    return _waits_for_pod(left[0]) if left else None


def wrong_source(
    storage: GPUStorage, name: str, found: GPUStorage | None
) -> StorageVerdict | None:
    """Return a verdict if the source is missing, terminating or replaced, else None."""
    if found is None:
        fault, remedy = "does not exist", "create it, or delete this one"
    elif fault := mistaken(storage, found):
        remedy = "delete this one, and make it from what is there"
    elif provenance.is_terminating(found):
        fault = "is being deleted"
        remedy = "create it again once it is gone, or delete this one"
    else:
        return None
    return source_missing(f"storage {name} to copy from {fault}: {remedy}")


def source_missing(message: str) -> StorageVerdict:
    return StorageVerdict(reason=StorageReason.SOURCE_NOT_READY, message=message)


def _waits_for_holder(holder: Holder) -> StorageVerdict:
    """Return the verdict on a prepare that waits until no unit holds the storage."""
    return StorageVerdict(
        reason=StorageReason.PREPARE_PROGRESSING,
        message=f"waits until unit {holder.name} gives the storage back: delete the unit, or take "
        "the storage out of its storageMounts",
    )


def _waits_for_pod(name: str) -> StorageVerdict:
    """Return the verdict on a prepare that waits for a Pod on the volume to end."""
    return StorageVerdict(
        reason=StorageReason.PREPARE_PROGRESSING,
        message=f"waits until Pod {name} has ended, which is on the volume: whatever fills it has "
        "it to itself",
    )


def _begin(storage: GPUStorage, waits: StorageVerdict | None) -> PrepareStep:
    """Begin the first run, or one more that a caller asked for."""
    record = storage.status.prepare
    if waits is not None:
        return PrepareStep(status=record, verdict=waits)
    digest = prepare_digest(storage)
    is_recovery = bool(record.phase)
    begun = PrepareStatus(
        phase=StepPhase.PENDING,
        jobName=prepare_name(storage.metadata.name, digest),
        observedDigest=digest,
        recoveryPhase=StepPhase.PENDING if is_recovery else "",
    )
    return PrepareStep(status=begun, verdict=_progressing(begun), makes_job=True)


def _make(record: PrepareStatus, waits: StorageVerdict | None) -> PrepareStep:
    """Create the Job of a recorded run, unless its source is gone meanwhile."""
    verdict = waits or _progressing(record)
    return PrepareStep(status=record, verdict=verdict, makes_job=waits is None)


def _unsuspend(record: PrepareStatus, waits: StorageVerdict | None) -> PrepareStep:
    """Unsuspend the Job. The record says so first, so that no run is ever repeated."""
    if waits is not None and record.phase == StepPhase.PENDING:
        return PrepareStep(status=record, verdict=waits)
    status = _moved(record, StepPhase.RUNNING)
    return PrepareStep(status=status, verdict=_progressing(status), makes_job=True)


def _follow(
    storage: GPUStorage, record: PrepareStatus, job: Job | None, words: str
) -> PrepareStep:
    if job is None:
        why = f"Job {record.jobName} was removed before it ended"
        return _failed(record, why)
    if job.has_failed:
        return _failed(record, words or job.words)
    phase = StepPhase.SUCCEEDED if job.has_succeeded else StepPhase.RUNNING
    status = _moved(record, phase)
    way_out = _remedy(storage, words)
    verdict = (
        _ended(storage, status) if job.has_succeeded else _progressing(status, words + way_out)
    )
    return PrepareStep(status=status, verdict=verdict)


def _failed(record: PrepareStatus, why: str) -> PrepareStep:
    message = f"{why}; mend what it needs and ask to recover"
    verdict = StorageVerdict(reason=StorageReason.PREPARE_FAILED, message=message)
    return PrepareStep(status=_moved(record, StepPhase.FAILED), verdict=verdict)


def _moved(record: PrepareStatus, phase: StepPhase) -> PrepareStatus:
    recovery = phase if record.recoveryPhase else ""
    return attrs.evolve(record, phase=phase, recoveryPhase=recovery)


def _ended(storage: GPUStorage, record: PrepareStatus) -> StorageVerdict:
    """Return the verdict on an ended run; keep the old message, as the failed Pod may be gone."""
    if record.phase == StepPhase.SUCCEEDED:
        return StorageVerdict(
            is_true=True,
            reason=StorageReason.PREPARE_SUCCEEDED,
            message=f"Job {record.jobName} filled the volume",
        )
    kept = condition_of(storage.status.conditions, ConditionType.PREPARED)
    message = kept.message if kept else f"Job {record.jobName} failed: ask to recover"
    return StorageVerdict(reason=StorageReason.PREPARE_FAILED, message=message)


def _remedy(storage: GPUStorage, words: str) -> str:
    """Return a remedy for an image that cannot be pulled; the image of a prepare never changes."""
    prepare = storage.spec.prepare
    is_users = prepare is not None and bool(prepare.fromImage)
    if not is_users or not any(f": {reason}" in words for reason in _IMAGE_FAULTS):
        return ""
    return "; delete this storage and make it with another image, unless the image is to come"


def _progressing(record: PrepareStatus, words: str = "") -> StorageVerdict:
    """Return the verdict on a run; a Pod without its image or a node does not fail its Job."""
    message = f"Job {record.jobName} fills the volume"
    return StorageVerdict(
        reason=StorageReason.PREPARE_PROGRESSING,
        message=f"{message}; its Pod waits: {words}" if words else message,
    )
