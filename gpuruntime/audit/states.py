"""Rules of one object's status: it is in one state at a time, and uses known reasons."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from gpuruntime.audit.breach import Finding, reference_to
from gpuruntime.audit.index import SnapshotIndex
from gpuruntime.models.kinds.phases import UnitPhase, phase_of, pool_phase_of, storage_phase_of
from gpuruntime.models.kinds.pools import StockPool
from gpuruntime.models.kinds.reasons import (
    ConditionType,
    FunctionReason,
    MountReason,
    PoolReason,
    StorageReason,
    UnitReason,
)
from gpuruntime.models.kinds.storages import GPUStorage
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.conditions import Condition, condition_of

Reporting: TypeAlias = GPUUnit | StockPool | GPUStorage

_REASONS: Final[Mapping[tuple[type, str], frozenset[str]]] = {
    (GPUUnit, ConditionType.READY): frozenset(UnitReason),
    (GPUUnit, ConditionType.STORAGE_READY): frozenset(MountReason),
    (GPUUnit, ConditionType.SERVERLESS_READY): frozenset(FunctionReason),
    (StockPool, ConditionType.READY): frozenset(PoolReason),
    (GPUStorage, ConditionType.READY): frozenset(StorageReason),
    (GPUStorage, ConditionType.PREPARED): frozenset(StorageReason),
    (GPUStorage, ConditionType.ACCESSOR_READY): frozenset(StorageReason),
}
# The only reasons that a condition with status True may have.
_GOOD: Final = frozenset(
    {
        UnitReason.DEPLOYMENT_READY,
        UnitReason.FUNCTION_DECLARED,
        FunctionReason.WORKERS_READY,
        MountReason.STORAGES_HELD,
        PoolReason.STOCK_READY,
        StorageReason.VOLUME_READY,
        StorageReason.EXPANSION_REFUSED,
        StorageReason.NOTHING_TO_PREPARE,
        StorageReason.PREPARE_SUCCEEDED,
        StorageReason.ACCESSOR_SERVING,
    }
)
_STATUSES = frozenset({"True", "False"})
_REWRITE = "restart the manager: it then writes the status again"


def one_state(held: Reporting, _: SnapshotIndex) -> Iterator[Finding]:
    """Phase, readiness and conditions are written in one patch, so they always agree.

    A status may be missing, or belong to an older generation of the spec. Reasons of another
    version are reported by the rule on reasons.
    """
    for fault in _state_faults(held):
        yield Finding(
            objects=(reference_to(held),),
            message=f"{reference_to(held)} is in no single state: {fault}",
            remedy=_REWRITE,
        )


def known_reasons(held: Reporting, _: SnapshotIndex) -> Iterator[Finding]:
    """Conditions have known types, statuses and reasons. Before the first report there is none."""
    for condition in held.status.conditions:
        if fault := _fault_of(condition, held):
            yield Finding(
                objects=(reference_to(held),),
                message=f"{reference_to(held)} has the condition {condition.type}: {fault}",
                remedy="use the manager's own version for the audit, or remove the condition",
            )


def observed_generation(held: Reporting, _: SnapshotIndex) -> Iterator[Finding]:
    """A generation is reported only after it was read. Any lag behind the spec is allowed."""
    status = held.status
    observed = max(
        status.observedGeneration, *(each.observedGeneration for each in status.conditions), 0
    )
    if observed > held.metadata.generation:
        yield Finding(
            objects=(reference_to(held),),
            message=f"{reference_to(held)} is at generation {held.metadata.generation}, "
            f"and its status reports generation {observed}",
            remedy=f"find who else writes it, or restored it; {_REWRITE}",
        )


def _state_faults(held: Reporting) -> Iterator[str]:
    status = held.status
    for type_, count in Counter(each.type for each in status.conditions).items():
        if count > 1:
            yield f"the condition {type_} occurs {count} times"
    if not status.phase and not status.conditions:
        return
    ready = condition_of(status.conditions, ConditionType.READY)
    if ready is not None and ready.reason not in _REASONS[type(held), ConditionType.READY]:
        return
    expected = _phase_of(held, status.conditions)
    if status.phase != expected:
        yield f"the phase is {status.phase or 'empty'}, the conditions say {expected}"
    elif isinstance(held, GPUUnit):
        yield from _unit_faults(held)
    elif isinstance(held, GPUStorage):
        yield from _storage_faults(held)


def _unit_faults(unit: GPUUnit) -> Iterator[str]:
    status, spec = unit.status, unit.spec
    phase = phase_of(status.conditions)
    ready = condition_of(status.conditions, ConditionType.READY)
    runs_none = ready is not None and ready.reason == UnitReason.FUNCTION_DECLARED
    if status.readyReplicas != int(phase is UnitPhase.READY and not runs_none):
        yield f"the phase is {phase} with {status.readyReplicas} ready replicas"
    if status.observedGeneration != unit.metadata.generation:
        return
    if phase is UnitPhase.READY and spec.suspended:
        yield "it is Ready and suspended"
    if runs_none and not spec.is_function_template:
        yield "it is reported as a function, and declares none"
    if phase is UnitPhase.SUSPENDED and not spec.suspended:
        yield "it is Suspended, and its spec does not suspend it"


def _storage_faults(storage: GPUStorage) -> Iterator[str]:
    holder, mounted_by = storage.status.holder, storage.status.mountedBy
    if mounted_by != ((holder.name,) if holder else ()):
        whom = holder.name if holder else "nobody"
        yield f"it is held by {whom}, and mounted by {', '.join(mounted_by) or 'nobody'}"


def _fault_of(condition: Condition, held: Reporting) -> str:
    if condition.type not in set(ConditionType):
        return "no such type is ours"
    if condition.status not in _STATUSES:
        return f"its status is {condition.status!r}"
    reasons = _REASONS.get((type(held), condition.type))
    if reasons is None:
        return ""
    if condition.reason not in reasons:
        return f"no such reason is ours: {condition.reason!r}"
    if condition.is_true != (condition.reason in _GOOD):
        return f"it is {condition.status} with the reason {condition.reason}"
    return ""


def _phase_of(held: Reporting, conditions: Iterable[Condition]) -> str:
    match held:
        case GPUUnit():
            return phase_of(conditions)
        case StockPool():
            return pool_phase_of(conditions)
        case GPUStorage():
            return storage_phase_of(conditions)
