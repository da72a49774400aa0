"""The provenance of units: their operation, claim, source and pool, read from their metadata."""

from datetime import datetime
from typing import Final

from gpuruntime.models.definitions.rules import LONGEST_ORDINAL
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.phases import UnitPhase, phase_of
from gpuruntime.models.kinds.pools import StockPool
from gpuruntime.models.kinds.reasons import ConditionType, UnitReason
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.conditions import condition_of
from gpuruntime.models.kubernetes.metadata import Key, KubernetesObject
from gpuruntime.models.kubernetes.names import is_dns_label
from gpuruntime.models.kubernetes.timestamps import moment_of, rfc3339_micro

CLAIM_MARKS: Final = (
    labels.CLAIMED_BY,
    labels.CLAIM_ATTEMPT,
    labels.OPERATION_ID,
    labels.REQUEST_HASH,
    labels.CLAIMED_AT,
)


def operation_of(value: KubernetesObject) -> str:
    """Return the operationID, or an empty string if no operation created the object."""
    return value.metadata.annotations.get(labels.OPERATION_ID, "")


def hash_of(value: KubernetesObject) -> str:
    return value.metadata.annotations.get(labels.REQUEST_HASH, "")


def source_uid_of(unit: GPUUnit) -> str:
    return unit.metadata.annotations.get(labels.SOURCE_STOCK_UID, "")


def source_pool_uid_of(unit: GPUUnit) -> str:
    """Return the uid of the pool that created the unit's stock, or an empty string if unknown."""
    return unit.metadata.annotations.get(labels.SOURCE_POOL_UID, "")


def source_of(unit: GPUUnit) -> Key | None:
    return _key(unit.metadata.annotations.get(labels.SOURCE_STOCK, ""))


def claimant_of(stock: GPUUnit) -> Key | None:
    return _key(stock.metadata.annotations.get(labels.CLAIMED_BY, ""))


def attempt_of(stock: GPUUnit) -> str:
    return stock.metadata.annotations.get(labels.CLAIM_ATTEMPT, "")


def claimed_at(stock: GPUUnit) -> datetime | None:
    """Return the time of the claim by the claimant's clock, or None if it cannot be read."""
    return moment_of(stock.metadata.annotations.get(labels.CLAIMED_AT, ""))


def accepted_at(unit: GPUUnit) -> datetime | None:
    """Return when the unit's request was accepted, or None if that cannot be read."""
    return moment_of(unit.metadata.annotations.get(labels.ACCEPTED_AT, ""))


def is_claimed(stock: GPUUnit) -> bool:
    return labels.CLAIMED_BY in stock.metadata.annotations


def is_doubtful(stock: GPUUnit, claimant: GPUUnit | None) -> bool:
    """Return whether the claimant does not exist, or does not use this stock."""
    return claimant is None or (
        operation_of(claimant) != operation_of(stock)
        or source_uid_of(claimant) != stock.metadata.uid
    )


def has_lost(unit: GPUUnit) -> bool:
    """Return whether the status says that another unit of the operation has precedence."""
    ready = condition_of(unit.status.conditions, ConditionType.READY)
    return ready is not None and ready.reason == UnitReason.OPERATION_CONFLICT


def seniority(value: KubernetesObject) -> tuple[float, str]:
    """Return a sort key that puts the oldest object first."""
    created = value.metadata.creationTimestamp
    return (created.timestamp() if created else 0.0, value.metadata.uid)


def is_terminating(value: KubernetesObject) -> bool:
    return value.metadata.deletionTimestamp is not None


def present_phase(unit: GPUUnit) -> UnitPhase:
    """Return the phase, or Progressing while the status is of an earlier spec.

    A condition without a generation is of the present spec, as for `kubectl wait`.
    """
    ready = condition_of(unit.status.conditions, ConditionType.READY)
    if ready is not None and ready.observedGeneration not in (0, unit.metadata.generation):
        return UnitPhase.PROGRESSING
    return phase_of(unit.status.conditions)


def is_ready(unit: GPUUnit) -> bool:
    """Return whether the unit runs its present spec and is ready."""
    return present_phase(unit) is UnitPhase.READY


def lacks_node(unit: GPUUnit) -> bool:
    """Return whether the status says that no node accepts the Pod of the present spec."""
    ready = condition_of(unit.status.conditions, ConditionType.READY)
    return (
        ready is not None
        and ready.reason == UnitReason.POD_UNSCHEDULABLE
        and ready.observedGeneration in (0, unit.metadata.generation)
    )


def is_stale(stock: GPUUnit, pool: StockPool) -> bool:
    """Return whether the stock runs another image or template than its pool asks for."""
    running, asked = stock.spec, pool.spec
    return running.image != asked.image or running.template != asked.template


def is_free(stock: GPUUnit) -> bool:
    """Return whether the stock can be claimed, as far as the object itself shows."""
    return is_ready(stock) and not is_claimed(stock) and not is_terminating(stock)


def is_of(value: KubernetesObject, operation_id: str, request_hash: str) -> bool:
    return (operation_of(value), hash_of(value)) == (operation_id, request_hash)


def pool_of(stock: GPUUnit) -> str:
    """Return the name of the pool that created the stock, or an empty string."""
    return stock.metadata.labels.get(labels.POOL, "") if _is_made(stock) else ""


def is_of_pool(stock: GPUUnit, pool: StockPool) -> bool:
    return stock.metadata.annotations.get(labels.POOL_UID, "") == pool.metadata.uid


def is_orphaned(stock: GPUUnit) -> bool:
    """Return whether stock is left over if its pool is gone: created by a pool and unclaimed."""
    return _is_made(stock) and not is_claimed(stock)


def ordinal_of(stock: GPUUnit) -> int:
    """Return the ordinal of a stock unit, or 0 if no pool created it."""
    pool, _, ordinal = stock.metadata.name.rpartition("-")
    is_made = stock.metadata.labels.get(labels.POOL) == pool
    return _ordinal_in(ordinal) if is_made else 0


def source_ordinal(unit: GPUUnit) -> int:
    """Return the ordinal of the stock that an active unit names, or 0."""
    source = source_of(unit)
    return _ordinal_in(source.name.rpartition("-")[2]) if source else 0


def source_marks(stock: GPUUnit) -> dict[str, str]:
    """Return the annotations of a unit that takes the claimed stock."""
    marks = stock.metadata.annotations
    pool_uid = marks.get(labels.POOL_UID, "")
    return {
        labels.SOURCE_STOCK: str(stock.metadata.key),
        labels.SOURCE_STOCK_UID: stock.metadata.uid,
        labels.CLAIMED_AT: marks[labels.CLAIMED_AT],
        **({labels.SOURCE_POOL_UID: pool_uid} if pool_uid else {}),
    }


def claim_marks(
    *, claimant: Key, attempt: str, operation_id: str, request_hash: str, claimed_at: datetime
) -> JsonObject:
    """Return a merge patch that marks a stock unit as claimed, or re-stamps its claim."""
    written = (str(claimant), attempt, operation_id, request_hash, rfc3339_micro(claimed_at))
    return {"metadata": {"annotations": dict(zip(CLAIM_MARKS, written, strict=True))}}


def no_claim_marks() -> JsonObject:
    """Return a merge patch that makes a stock unit free again."""
    return {"metadata": {"annotations": dict.fromkeys(CLAIM_MARKS)}}


def _is_made(stock: GPUUnit) -> bool:
    return labels.POOL_UID in stock.metadata.annotations


def _ordinal_in(text: str) -> int:
    """Return the number, or 0 if it is none or has more digits than a pool's ordinals can have.

    Names may be written by hand, so the number may be of any length.
    """
    is_one = len(text) <= LONGEST_ORDINAL and text.isascii() and text.isdecimal()
    return int(text) if is_one else 0


def _key(text: str) -> Key | None:
    """Return the key, or None if a part is not a DNS label; keys become paths of requests."""
    namespace, _, name = text.partition("/")
    return Key(namespace, name) if is_dns_label(namespace) and is_dns_label(name) else None
