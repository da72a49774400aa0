"""What is worth an Event: a change that an operator would ask about, and never a state.

A claim that goes well is told once, by its unit's Ready; stock is told of only where it fails.
"""

from collections.abc import Iterable
from typing import Any, Final

import attrs

from gpuruntime.kube.events import EventRecorder, reference_to
from gpuruntime.models import provenance
from gpuruntime.models.conditions import Condition, condition_of
from gpuruntime.models.metadata import KubernetesObject
from gpuruntime.models.pools import StockPool, StockPoolStatus
from gpuruntime.models.reasons import ConditionType, PoolReason, UnitReason
from gpuruntime.models.resources import Resource
from gpuruntime.models.units import GPUUnit, GPUUnitStatus

COMPONENT: Final = "gpuruntime-manager"
GOOD: Final = frozenset(
    {UnitReason.DEPLOYMENT_READY, UnitReason.FUNCTION_DECLARED, UnitReason.SCALED_TO_ZERO}
)
POOL_FAULTS: Final = frozenset(
    {
        PoolReason.STOCK_FAILED,
        PoolReason.STOCK_SYNC_FAILED,
        PoolReason.INVALID_SPEC,
        PoolReason.SPEC_CONFLICT,
    }
)


@attrs.frozen(slots=True)
class Note:
    reason: str
    message: str
    is_warning: bool = False


def tell(
    recorder: EventRecorder, resource: Resource[Any], about: KubernetesObject, note: Note
) -> None:
    """Never waits: the Event is sent when there is time."""
    reference = reference_to(resource, about.metadata)
    recorder.record(reference, note.reason, note.message, is_warning=note.is_warning)


def unit_note(unit: GPUUnit, status: GPUUnitStatus, *, is_stock: bool) -> Note | None:
    """What the step from the unit's status to a new one has to tell."""
    ready = _turned(unit.status.conditions, status.conditions)
    if ready is None or ready.reason == UnitReason.DEPLOYMENT_PROGRESSING:
        return None
    is_good = ready.reason in GOOD
    if is_good and is_stock:
        return None
    runs = ready.reason == UnitReason.DEPLOYMENT_READY
    message = _arrival(unit, status) if runs else ready.message
    return Note(ready.reason, message, is_warning=not is_good)


def pool_note(pool: StockPool, status: StockPoolStatus) -> Note | None:
    ready = _turned(pool.status.conditions, status.conditions)
    if ready is not None and ready.reason in POOL_FAULTS:
        return Note(ready.reason, ready.message, is_warning=True)
    if pool.status.seeded < pool.spec.replicas <= status.seeded:
        return Note("StockSeeded", f"{status.seeded} units of {pool.spec.specName} are made")
    return None


def _turned(before: Iterable[Condition], after: Iterable[Condition]) -> Condition | None:
    """The new Ready, where its reason is another one: words alone are no news."""
    old, new = (condition_of(each, ConditionType.READY) for each in (before, after))
    return new if new is not None and (old is None or old.reason != new.reason) else None


def _arrival(unit: GPUUnit, status: GPUUnitStatus) -> str:
    where = f" on {status.nodeName}" if status.nodeName else ""
    source = provenance.source_of(unit)
    whence = f", in the place of stock {source}" if source else ""
    return f"the Pod is ready{where}{whence}"
