"""Pure decisions about a storage: its next step, and the conditions that hold.

A prepare runs once. A digest names its run, which is recorded before its Job is created, and again
before the Job is unsuspended. So a Job that is gone later is never created again. A failed run
stays failed until a caller asks to recover.
"""

from typing import Final, TypeAlias

import attrs

from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.phases import StepPhase
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
from gpuruntime.models.kubernetes.quantities import InvalidQuantityError, parse_quantity
from gpuruntime.models.kubernetes.volumes import Job, StorageClass, VolumeClaim
from gpuruntime.operations.storage_identity import mistaken


@attrs.frozen(kw_only=True, slots=True)
class StorageVerdict:
    """A condition to write: whether it holds, its reason and its message."""

    is_true: bool = False
    reason: StorageReason
    message: str
    # The cluster refused a write, and may accept it later without any event.
    is_refused: bool = False


@attrs.frozen(slots=True)
class MakeClaim:
    """Create the claim: there is none, and there never was a volume."""


@attrs.frozen(slots=True)
class GrowClaim:
    """Grow the claim to the size in the spec."""


@attrs.frozen(slots=True)
class KeepClaim:
    """Leave the claim as it is: nothing is to be done, or nothing would help."""


# Waiting reasons of a container whose image is at fault.
_IMAGE_FAULTS: Final = ("ErrImage", "ImagePullBackOff", "InvalidImageName")
# Conditions of a claim that grows.
_GROWTH: Final = ("FileSystemResizePending", "Resizing")
_GROWTH_FAULTS: Final = ("ControllerResizeError", "NodeResizeError")

WAITS_FOR_VOLUME: Final = StorageVerdict(
    reason=StorageReason.PREPARE_PROGRESSING, message="waits for the volume"
)

ClaimMove: TypeAlias = MakeClaim | GrowClaim | KeepClaim


@attrs.frozen(kw_only=True, slots=True)
class PrepareStep:
    """The record as it should be written.

    With `makes_job`, the next step follows that write: create the Job, or unsuspend it.
    """

    status: PrepareStatus
    verdict: StorageVerdict
    makes_job: bool = False


def claim_move(
    storage: GPUStorage, claim: VolumeClaim | None, storage_class: StorageClass | None
) -> ClaimMove:
    if claim is None:
        return KeepClaim() if _had_volume(storage) else MakeClaim()
    may_grow = storage_class is not None and storage_class.allowVolumeExpansion
    may_grow = may_grow and not provenance.is_terminating(claim)
    if may_grow and claim.status.phase == "Bound" and _is_larger(storage.spec.size, claim.size):
        return GrowClaim()
    return KeepClaim()


def may_be_mounted(claim: VolumeClaim, storage_class: StorageClass | None) -> bool:
    """Return whether the claim has a volume, or gets one with its first Pod."""
    binds_late = storage_class is not None and storage_class.binds_late
    return binds_late or claim.status.phase not in ("", "Pending")


def volume_verdict(
    storage: GPUStorage,
    claim: VolumeClaim | None,
    storage_class: StorageClass | None,
    *,
    refusal: str = "",
) -> StorageVerdict:
    """Return the verdict on the claim; `refusal` says why the cluster refused its growth."""
    name = storage.metadata.name
    if claim is None and _had_volume(storage):
        return StorageVerdict(
            reason=StorageReason.VOLUME_LOST,
            message=f"claim {name} was removed, and what was on it: delete this storage",
        )
    if claim is None or claim.status.phase in ("", "Pending"):
        return _pending(name, claim, storage_class)
    if claim.status.phase == "Lost":
        return StorageVerdict(
            reason=StorageReason.VOLUME_LOST,
            message=f"claim {name} lost its volume {claim.spec.volumeName}: delete this storage",
        )
    if provenance.is_terminating(claim):
        return StorageVerdict(
            reason=StorageReason.VOLUME_ENDING,
            message=f"claim {name} is being deleted, and the volume goes with the last Pod that "
            "mounts it: save what is on it",
        )
    return _bound(storage, claim, storage_class, refusal)


def ending_verdict(storage: GPUStorage) -> StorageVerdict:
    """Return the verdict on a storage that is being deleted but still in use."""
    holder = storage.status.holder
    when = f"unit {holder.name} gives it back" if holder else "nobody reads it any more"
    return StorageVerdict(
        reason=StorageReason.VOLUME_ENDING,
        message=f"storage {storage.metadata.name} is being deleted, and what is on it goes "
        f"when {when}: save it before",
    )


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


def waits_for_holder(holder: Holder) -> StorageVerdict:
    """Return the verdict on a prepare that waits until no unit holds the storage."""
    return StorageVerdict(
        reason=StorageReason.PREPARE_PROGRESSING,
        message=f"waits until unit {holder.name} gives the storage back: delete the unit, or take "
        "the storage out of its storageMounts",
    )


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


def waits_for_pod(name: str) -> StorageVerdict:
    """Return the verdict on a prepare that waits for a Pod on the volume to end."""
    return StorageVerdict(
        reason=StorageReason.PREPARE_PROGRESSING,
        message=f"waits until Pod {name} has ended, which is on the volume: whatever fills it has "
        "it to itself",
    )


def source_missing(message: str) -> StorageVerdict:
    return StorageVerdict(reason=StorageReason.SOURCE_NOT_READY, message=message)


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


def _pending(
    name: str, claim: VolumeClaim | None, storage_class: StorageClass | None
) -> StorageVerdict:
    if claim is not None and may_be_mounted(claim, storage_class):
        message = f"claim {name} gets its volume with the first Pod that mounts it"
        return StorageVerdict(is_true=True, reason=StorageReason.VOLUME_READY, message=message)
    message = f"claim {name} waits for its volume"
    which = claim.spec.storageClassName if claim else ""
    if which and storage_class is None:
        message += f": there is no class {which}, only a volume made by hand can serve it"
    return StorageVerdict(reason=StorageReason.VOLUME_PENDING, message=message)


def _bound(
    storage: GPUStorage, claim: VolumeClaim, storage_class: StorageClass | None, refusal: str
) -> StorageVerdict:
    """Return the verdict on a bound claim. It is ready even if it cannot grow."""
    name, has, wants = storage.metadata.name, claim.capacity or claim.size, storage.spec.size
    if not _is_larger(wants, has):
        return StorageVerdict(
            is_true=True, reason=StorageReason.VOLUME_READY, message=f"claim {name} holds {has}"
        )
    may_grow = storage_class is not None and storage_class.allowVolumeExpansion
    growth = _words_of(claim, _GROWTH)
    trouble = refusal or _words_of(claim, _GROWTH_FAULTS)
    if may_grow and not trouble:
        message = f"claim {name} holds {has} and grows to {wants}"
        return StorageVerdict(
            is_true=True,
            reason=StorageReason.VOLUME_READY,
            message=f"{message}: {growth}" if growth else message,
        )
    which = claim.spec.storageClassName or "of the volume"
    why = trouble or f"class {which} does not let volumes grow to {wants}"
    return StorageVerdict(
        is_true=True,
        reason=StorageReason.EXPANSION_REFUSED,
        message=f"claim {name} stays at {has}: {why}",
        is_refused=bool(refusal),
    )


def _words_of(claim: VolumeClaim, types: tuple[str, ...]) -> str:
    """Return type and message of the first of these conditions that holds, or nothing."""
    for type_ in types:
        found = condition_of(claim.status.conditions, type_)
        if found is not None and found.is_true:
            return f"{type_}: {found.message}" if found.message else type_
    return ""


def _had_volume(storage: GPUStorage) -> bool:
    return bool(storage.status.capacity)


def _is_larger(size: str, other: str) -> bool:
    try:
        return parse_quantity(size) > parse_quantity(other)
    except InvalidQuantityError:
        return False
