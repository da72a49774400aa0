"""Phases summarize conditions in one word; no decision ever depends on a phase."""

from collections.abc import Iterable
from enum import StrEnum

from gpuruntime.models.kinds.reasons import ConditionType, PoolReason, StorageReason, UnitReason
from gpuruntime.models.kubernetes.conditions import Condition, condition_of


class UnitPhase(StrEnum):
    PROGRESSING = "Progressing"
    READY = "Ready"
    SUSPENDED = "Suspended"
    FAILED = "Failed"


class PoolPhase(StrEnum):
    PROGRESSING = "Progressing"
    READY = "Ready"
    EMPTY = "Empty"
    FAILED = "Failed"


class StoragePhase(StrEnum):
    PENDING = "Pending"
    READY = "Ready"
    FAILED = "Failed"


class StepPhase(StrEnum):
    """The progress of a prepare or a recovery; an empty text means that none was requested."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


_STORAGE_FAILURES = frozenset(
    {
        StorageReason.INVALID_SPEC,
        StorageReason.VOLUME_LOST,
        StorageReason.VOLUME_ENDING,
        StorageReason.VOLUME_SYNC_FAILED,
        StorageReason.NETWORK_POLICY_SYNC_FAILED,
        StorageReason.PREPARE_SYNC_FAILED,
        StorageReason.PREPARE_FAILED,
    }
)
_UNIT_PHASES: dict[str, UnitPhase] = {
    UnitReason.SCALED_TO_ZERO: UnitPhase.SUSPENDED,
    UnitReason.INVALID_SPEC: UnitPhase.FAILED,
    UnitReason.POD_STARTUP_FAILED: UnitPhase.FAILED,
    UnitReason.STORAGE_MOUNT_INVALID: UnitPhase.FAILED,
    UnitReason.SERVERLESS_CONFIG_INVALID: UnitPhase.FAILED,
    UnitReason.OPERATION_CONFLICT: UnitPhase.FAILED,
}
_POOL_PHASES: dict[str, PoolPhase] = {
    PoolReason.STOCK_CONSUMED: PoolPhase.EMPTY,
    PoolReason.INVALID_SPEC: PoolPhase.FAILED,
    PoolReason.SPEC_CONFLICT: PoolPhase.FAILED,
    PoolReason.STOCK_FAILED: PoolPhase.FAILED,
}


def phase_of(conditions: Iterable[Condition]) -> UnitPhase:
    ready = condition_of(conditions, ConditionType.READY)
    if ready is None:
        return UnitPhase.PROGRESSING
    if ready.is_true:
        return UnitPhase.READY
    return _UNIT_PHASES.get(ready.reason, UnitPhase.PROGRESSING)


def pool_phase_of(conditions: Iterable[Condition]) -> PoolPhase:
    ready = condition_of(conditions, ConditionType.READY)
    if ready is None:
        return PoolPhase.PROGRESSING
    if ready.is_true:
        return PoolPhase.READY
    return _POOL_PHASES.get(ready.reason, PoolPhase.PROGRESSING)


def storage_phase_of(conditions: Iterable[Condition]) -> StoragePhase:
    ready = condition_of(conditions, ConditionType.READY)
    if ready is None:
        return StoragePhase.PENDING
    if ready.is_true:
        return StoragePhase.READY
    return StoragePhase.FAILED if ready.reason in _STORAGE_FAILURES else StoragePhase.PENDING
