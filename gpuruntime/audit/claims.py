"""Rules of claims: marks are whole and temporary, and each stock unit starts at most one unit."""

from collections.abc import Iterator
from typing import Final

from gpuruntime.audit.breach import Finding, reference_to
from gpuruntime.audit.index import SnapshotIndex
from gpuruntime.audit.pools import waits_for_a_name
from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.claim_timing import DOUBT_SECONDS
from gpuruntime.models.kinds.envelopes import envelope_of
from gpuruntime.models.kinds.units import GPUUnit

# Recording an ordinal waits for the life of a request, and once more after a lost answer.
CONSUME_SECONDS: Final = 300.0
_MARKS = ", ".join(provenance.CLAIM_MARKS)


def whole_marks(stock: GPUUnit, _: SnapshotIndex) -> Iterator[Finding]:
    """A claim's marks are written and removed in one patch; a unit has all of them or none."""
    marks = stock.metadata.annotations
    missing = [name for name in provenance.CLAIM_MARKS if not marks.get(name)]
    fault = ""
    if 0 < len(missing) < len(provenance.CLAIM_MARKS):
        fault = f"without {', '.join(missing)}"
    elif not missing and provenance.claimant_of(stock) is None:
        fault = f"by {marks[labels.CLAIMED_BY]!r}, which is not namespace/name"
    if fault:
        yield Finding(
            objects=(reference_to(stock),),
            message=f"{reference_to(stock)} has a claim {fault}",
            remedy=f"remove {_MARKS}, unless an active unit names it as its source",
        )


def settled(stock: GPUUnit, index: SnapshotIndex) -> Iterator[Finding]:
    """A claim is for a unit that will start, or it ends.

    Any time is allowed while the claimant uses the stock and has not started, because it
    waits or has lost a conflict. Twice the grace is allowed if no unit uses the stock. A
    while is allowed between a start and the deletion of the stock; this has no bound while a name
    in use delays the pool's record.
    """
    claimant_key = provenance.claimant_of(stock)
    if claimant_key is None or provenance.is_terminating(stock):
        return
    claimant, attempt = index.unit_by_key.get(claimant_key), provenance.attempt_of(stock)
    operation = provenance.operation_of(stock)
    if claimant is None or provenance.is_doubtful(stock, claimant):
        yield Finding(
            objects=(reference_to(stock),),
            message=f"{reference_to(stock)} is claimed by operation {operation} for "
            f"{claimant_key}, and no such unit uses it",
            remedy=f"see that a manager leads, which frees it; or remove {_MARKS}",
            allowed_seconds=DOUBT_SECONDS,
            version=f"doubt {attempt}",
        )
    elif claimant.status.timeline.createdAt is not None and not _waits(stock, index):
        yield Finding(
            objects=(reference_to(stock), reference_to(claimant)),
            message=f"{reference_to(claimant)} has started, and its stock "
            f"{reference_to(stock)} still counts as claimed",
            remedy="see that a manager leads, which deletes the stock unit",
            allowed_seconds=CONSUME_SECONDS,
            version=attempt,
        )


def one_start_for_stock(units: list[GPUUnit], _: SnapshotIndex) -> Iterator[Finding]:
    """If several units name one stock uid, only the unit that has the claim starts."""
    if len(units) > 1:
        uid = provenance.source_uid_of(units[0])
        yield Finding(
            objects=tuple(map(reference_to, units)),
            message=f"stock {provenance.source_of(units[0])} ({uid}) was given to "
            f"{len(units)} started units: {_names(units)}",
            remedy="delete all of them but one, and ask for their replacement",
        )


def one_start_for_operation(units: list[GPUUnit], _: SnapshotIndex) -> Iterator[Finding]:
    """An operation may have any number of units, but only one of them has started."""
    if len(units) > 1:
        yield Finding(
            objects=tuple(map(reference_to, units)),
            message=f"operation {provenance.operation_of(units[0])} started "
            f"{len(units)} units: {_names(units)}",
            remedy="delete all of them but the one that its caller knows",
        )


def held_by_its_unit(unit: GPUUnit, index: SnapshotIndex) -> Iterator[Finding]:
    """The stock that a started unit uses is claimed by it until the stock is deleted.

    A unit that has not started is allowed to lose its stock, and stock may be gone.
    """
    stock = index.stock_by_uid.get(provenance.source_uid_of(unit))
    if stock is None or not index.has_started(unit):
        return
    is_held = provenance.claimant_of(stock) == unit.metadata.key and not provenance.is_doubtful(
        stock, unit
    )
    if not is_held:
        holder = provenance.claimant_of(stock) or "nobody"
        yield Finding(
            objects=(reference_to(unit), reference_to(stock)),
            message=f"{reference_to(unit)} has started on {reference_to(stock)}, "
            f"which is claimed by {holder}",
            remedy="delete the stock unit, so that no other unit gets its envelope",
        )


def same_envelope(unit: GPUUnit, index: SnapshotIndex) -> Iterator[Finding]:
    """The envelopes of a unit and its stock are equal by value, and never change."""
    stock = index.stock_by_uid.get(provenance.source_uid_of(unit))
    if stock is None:
        return
    mine, its = unit.spec, stock.spec
    if (mine.specName, envelope_of(mine)) != (its.specName, envelope_of(its)):
        yield Finding(
            objects=(reference_to(unit), reference_to(stock)),
            message=f"{reference_to(unit)} has another envelope than {reference_to(stock)}, "
            "which it uses",
            remedy="delete the unit and ask for it again",
        )


def _waits(stock: GPUUnit, index: SnapshotIndex) -> bool:
    pool = index.pool_by_uid.get(stock.metadata.annotations.get(labels.POOL_UID, ""))
    is_recorded = pool is None or provenance.ordinal_of(stock) <= pool.status.seeded
    return not is_recorded and waits_for_a_name(pool)


def _names(units: list[GPUUnit]) -> str:
    return ", ".join(str(each.metadata.key) for each in units)
