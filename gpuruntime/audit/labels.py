"""Rules of names, labels and annotations: they agree with the object that has them."""

from collections.abc import Iterator

from gpuruntime.audit.breach import Finding, reference_to
from gpuruntime.audit.index import SnapshotIndex
from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.envelopes import envelope_of
from gpuruntime.models.kinds.pools import StockPool
from gpuruntime.models.kinds.units import GPUUnit

_SOURCES = (labels.SOURCE_STOCK, labels.SOURCE_STOCK_UID)
_CLAIMS = (labels.CLAIMED_BY, labels.CLAIM_ATTEMPT)


def unit_labels(unit: GPUUnit, _: SnapshotIndex) -> Iterator[Finding]:
    """A unit's labels agree with it, and a unit that the product created has all of them.

    Units that were written by hand are allowed to have none.
    """
    given = unit.metadata.labels
    due = {labels.UNIT: unit.metadata.name, labels.SPEC: unit.spec.specName}
    is_made = given.get(labels.MANAGED_BY) == labels.MANAGER or bool(provenance.pool_of(unit))
    for name, value in due.items():
        if given.get(name, "" if is_made else value) != value:
            yield _mislabelled(unit, name, value)


def source_marks(unit: GPUUnit, _: SnapshotIndex) -> Iterator[Finding]:
    """A unit names its source by name and uid, in one write, and has no claim itself."""
    notes = unit.metadata.annotations
    named = [name for name in _SOURCES if notes.get(name)]
    if len(named) == 1 or (named and provenance.source_of(unit) is None):
        yield _marked(unit, f"names half of a source: {', '.join(named)}")
    claimed = [name for name in _CLAIMS if name in notes]
    if claimed:
        yield _marked(unit, f"is active, and has the mark of a claim: {', '.join(claimed)}")


def pool_labels(pool: StockPool, _: SnapshotIndex) -> Iterator[Finding]:
    """A pool's labels agree with it. Pools that were written by hand are allowed to have none."""
    due = {labels.POOL: pool.metadata.name, labels.SPEC: pool.spec.specName}
    for name, value in due.items():
        if pool.metadata.labels.get(name, value) != value:
            yield _mislabelled(pool, name, value)


def stock_of_its_pool(stock: GPUUnit, index: SnapshotIndex) -> Iterator[Finding]:
    """Stock that a pool creates has its name, an ordinal and its envelope from the start.

    A pool may leave quantities to the manager's defaults, and may be gone.
    """
    notes = stock.metadata.annotations
    pool = index.pool_by_uid.get(notes.get(labels.POOL_UID, ""))
    if labels.POOL_UID in notes and not provenance.ordinal_of(stock):
        name = stock.metadata.labels.get(labels.POOL, "")
        yield _marked(stock, f"was made by a pool, and has no ordinal of pool {name!r}")
    elif pool and provenance.pool_of(stock) != pool.metadata.name:
        yield _mislabelled(stock, labels.POOL, pool.metadata.name)
    elif pool and not _is_alike(stock, pool):
        yield Finding(
            objects=(reference_to(stock), reference_to(pool)),
            message=f"{reference_to(stock)} has another envelope than {reference_to(pool)}, "
            "which made it",
            remedy="delete the stock unit, unless it is claimed",
        )


def _is_alike(stock: GPUUnit, pool: StockPool) -> bool:
    same_name = stock.spec.specName == pool.spec.specName
    return same_name and envelope_of(stock.spec).may_equal(envelope_of(pool.spec))


def _mislabelled(held: GPUUnit | StockPool, name: str, value: str) -> Finding:
    found = held.metadata.labels.get(name, "")
    return Finding(
        objects=(reference_to(held),),
        message=f"{reference_to(held)} has the label {name}={found or 'nothing'}",
        remedy=f"label it {name}={value}: it is not found without",
    )


def _marked(unit: GPUUnit, fault: str) -> Finding:
    return Finding(
        objects=(reference_to(unit),),
        message=f"{reference_to(unit)} {fault}",
        remedy="find out who wrote it by hand; delete it, and ask for another one",
    )
