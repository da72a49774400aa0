"""Events that the manager records: changes that an operator would ask about, never states.

A successful claim is reported once, by its unit's Ready. Stock is reported only if it fails.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from gpuruntime.kube.events import Note
from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.pools import StockPool, StockPoolStatus
from gpuruntime.models.kinds.reasons import ConditionType, PoolReason, StorageReason, UnitReason
from gpuruntime.models.kinds.storages import GPUStorage, GPUStorageStatus
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitStatus
from gpuruntime.models.kubernetes.conditions import Condition, condition_of

COMPONENT: Final = "gpuruntime-manager"
GOOD: Final = frozenset(
    {UnitReason.DEPLOYMENT_READY, UnitReason.FUNCTION_DECLARED, UnitReason.SCALED_TO_ZERO}
)
POOL_FAULTS: Final = frozenset(
    {
        PoolReason.STOCK_FAILED,
        PoolReason.STOCK_SYNC_FAILED,
        PoolReason.STOCK_UNSCHEDULABLE,
        PoolReason.INVALID_SPEC,
        PoolReason.SPEC_CONFLICT,
    }
)
STORAGE_FAULTS: Final = frozenset(
    {
        StorageReason.EXPANSION_REFUSED,
        StorageReason.INVALID_SPEC,
        StorageReason.NETWORK_POLICY_SYNC_FAILED,
        StorageReason.PREPARE_FAILED,
        StorageReason.PREPARE_SYNC_FAILED,
        StorageReason.VOLUME_LOST,
        StorageReason.VOLUME_SYNC_FAILED,
    }
)
ON_THEIR_WAY: Final = frozenset(
    {UnitReason.DEPLOYMENT_PROGRESSING, StorageReason.PREPARE_PROGRESSING}
)
# The API server's own words, for a quota and for an admission webhook alike.
_IS_FORBIDDEN: Final = " is forbidden: "


def unit_note(unit: GPUUnit, status: GPUUnitStatus, *, is_stock: bool) -> Note | None:
    """Return an Event about the change from the unit's status to a new one, or None."""
    before, after = unit.status.conditions, status.conditions
    ready = _turned(before, after)
    if ready is None or ready.reason == UnitReason.DEPLOYMENT_PROGRESSING:
        return _refusal(before, after, ConditionType.READY)
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
    before, now = (each.seeded - each.skipped for each in (pool.status, status))
    if before < pool.spec.replicas <= now:
        return Note("StockSeeded", f"{now} units of {pool.spec.specName} are made")
    return None


def storage_notes(storage: GPUStorage, status: GPUStorageStatus) -> Iterator[Note]:
    """Yield Events about the change from the storage's status to a new one."""
    before, after = storage.status.conditions, status.conditions
    if ready := _turned(before, after):
        is_fault = ready.reason in STORAGE_FAULTS
        if is_fault or ready.reason == StorageReason.VOLUME_READY:
            yield Note(ready.reason, ready.message, is_warning=is_fault)
    prepared = _turned(before, after, ConditionType.PREPARED)
    if prepared and _is(before, ConditionType.PREPARED, StorageReason.PREPARE_FAILED):
        yield Note("PrepareRecovering", "it is filled again, as somebody asked")
    if refused := _refusal(before, after, ConditionType.PREPARED):
        yield refused
    accessor = _turned(before, after, ConditionType.ACCESSOR_READY)
    if accessor and accessor.reason == StorageReason.ACCESSOR_FAILED:
        yield Note(accessor.reason, accessor.message, is_warning=True)


def _turned(
    before: Iterable[Condition],
    after: Iterable[Condition],
    type_: ConditionType = ConditionType.READY,
) -> Condition | None:
    """Return the new condition if its reason has changed; a new message alone is no news."""
    old, new = (condition_of(each, type_) for each in (before, after))
    return new if new is not None and (old is None or old.reason != new.reason) else None


def _refusal(
    before: Iterable[Condition], after: Iterable[Condition], type_: ConditionType
) -> Note | None:
    """Return an Event when a Pod is first refused; a message about another Pod is no news."""
    old, new = (condition_of(each, type_) for each in (before, after))
    if new is None or new.reason not in ON_THEIR_WAY or _IS_FORBIDDEN not in new.message:
        return None
    if old is not None and _IS_FORBIDDEN in old.message:
        return None
    return Note("PodRefused", new.message, is_warning=True)


def _is(conditions: Iterable[Condition], type_: ConditionType, reason: StorageReason) -> bool:
    condition = condition_of(conditions, type_)
    return condition is not None and condition.reason == reason


def _arrival(unit: GPUUnit, status: GPUUnitStatus) -> str:
    where = f" on {status.nodeName}" if status.nodeName else ""
    source = provenance.source_of(unit)
    whence = f", in the place of stock {source}" if source else ""
    return f"the Pod is ready{where}{whence}"
