"""Rules of one object's status: one state at a time, told in words that we know."""

from collections import Counter
from collections.abc import Iterable, Iterator

from gpuruntime.audit.breach import Finding, reference_to
from gpuruntime.audit.facts import Facts
from gpuruntime.models.conditions import Condition, condition_of
from gpuruntime.models.phases import UnitPhase, phase_of, pool_phase_of
from gpuruntime.models.pools import StockPool
from gpuruntime.models.reasons import ConditionType, PoolReason, UnitReason
from gpuruntime.models.units import GPUUnit

_REASONS = (frozenset(UnitReason), frozenset(PoolReason))
_STATUSES = frozenset({"True", "False"})
_REWRITE = "restart the manager: its next look writes the status anew"


def one_state(held: GPUUnit | StockPool, _: Facts) -> Iterator[Finding]:
    """Phase, readiness and conditions are written in one patch, so they never differ.

    Allows a status that was never written, one of an older generation of the spec, and a reason
    of another version, which the rule on reasons tells of.
    """
    for fault in _state_faults(held):
        yield Finding(
            objects=(reference_to(held),),
            message=f"{reference_to(held)} is in no single state: {fault}",
            remedy=_REWRITE,
        )


def known_reasons(held: GPUUnit | StockPool, _: Facts) -> Iterator[Finding]:
    """Allows no condition at all, as before the first report."""
    for condition in held.status.conditions:
        if fault := _fault_of(condition, held):
            yield Finding(
                objects=(reference_to(held),),
                message=f"{reference_to(held)} has the condition {condition.type}: {fault}",
                remedy="use the manager's own version for the audit, or remove the condition",
            )


def observed_generation(held: GPUUnit | StockPool, _: Facts) -> Iterator[Finding]:
    """A generation is reported after it was read. Allows any lag behind the spec."""
    status = held.status
    observed = max(
        status.observedGeneration, *(each.observedGeneration for each in status.conditions), 0
    )
    if observed > held.metadata.generation:
        yield Finding(
            objects=(reference_to(held),),
            message=f"{reference_to(held)} is at generation {held.metadata.generation}, "
            f"and its status tells of generation {observed}",
            remedy=f"find who else writes it, or restored it; {_REWRITE}",
        )


def _state_faults(held: GPUUnit | StockPool) -> Iterator[str]:
    status = held.status
    for type_, count in Counter(each.type for each in status.conditions).items():
        if count > 1:
            yield f"the condition {type_} is there {count} times"
    if not status.phase and not status.conditions:
        return
    ready = condition_of(status.conditions, ConditionType.READY)
    if ready is not None and ready.reason not in _reasons_of(held):
        return
    expected = _phase_of(held, status.conditions)
    if status.phase != expected:
        yield f"the phase is {status.phase or 'empty'}, the conditions say {expected}"
    elif isinstance(held, GPUUnit):
        yield from _unit_faults(held)


def _unit_faults(unit: GPUUnit) -> Iterator[str]:
    status, spec = unit.status, unit.spec
    phase = phase_of(status.conditions)
    if status.readyReplicas != int(phase is UnitPhase.READY):
        yield f"the phase is {phase} with {status.readyReplicas} ready replicas"
    if status.observedGeneration != unit.metadata.generation:
        return
    if phase is UnitPhase.READY and spec.suspended:
        yield "it is Ready and suspended"
    is_template = spec.serverless is not None and spec.serverless.workerOf is None
    if phase is UnitPhase.SUSPENDED and not spec.suspended and not is_template:
        yield "it is Suspended, and nobody suspends it"


def _fault_of(condition: Condition, held: GPUUnit | StockPool) -> str:
    if condition.type not in set(ConditionType):
        return "no such type is ours"
    if condition.status not in _STATUSES:
        return f"its status is {condition.status!r}"
    if condition.type != ConditionType.READY:
        return ""
    if condition.reason not in _reasons_of(held):
        return f"no such reason is ours: {condition.reason!r}"
    is_good = condition.reason in (UnitReason.DEPLOYMENT_READY, PoolReason.STOCK_READY)
    if condition.is_true != is_good:
        return f"it is {condition.status} with the reason {condition.reason}"
    return ""


def _reasons_of(held: GPUUnit | StockPool) -> frozenset[str]:
    return _REASONS[isinstance(held, StockPool)]


def _phase_of(held: GPUUnit | StockPool, conditions: Iterable[Condition]) -> str:
    return phase_of(conditions) if isinstance(held, GPUUnit) else pool_phase_of(conditions)
