"""Numbers of stock, units, storages and pools, for metrics."""

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from gpuruntime.models.kinds.phases import (
    PoolPhase,
    StoragePhase,
    UnitPhase,
    pool_phase_of,
    storage_phase_of,
)
from gpuruntime.models.kinds.pools import Refill, StockPool
from gpuruntime.models.kinds.storages import GPUStorage
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.operations.lookup.counts import (
    Counts,
    StockState,
    active_state_of,
    running_count_of,
    spec_name_of,
    stock_state_of,
)
from gpuruntime.reconcilers.caches import Caches

# Values by the label values of a metric.
Rows: TypeAlias = Mapping[tuple[str, ...], float]

# Stands for every specName without a pool, so that units written by hand add no new series.
OTHER: Final = "other"


class ObjectMetrics:
    """ObjectMetrics counts objects; create it before the informers of its caches run.

    A read takes time in proportion to the number of specNames.
    """

    def __init__(self, caches: Caches) -> None:
        self._stock = Counts(caches.stock, stock_state_of, group_of=spec_name_of)
        self._units = Counts(
            caches.units, active_state_of, group_of=spec_name_of, amount_of=running_count_of
        )
        self._pools = Counts(caches.pools, _pool_state_of, group_of=spec_name_of)
        self._wanted = Counts(
            caches.pools, _refill_of, group_of=spec_name_of, amount_of=_replicas_of
        )
        self._storages = Counts(caches.storages, _storage_state_of)

    def stock_units(self) -> Rows:
        return self._by_spec(self._stock, StockState)

    def units(self) -> Rows:
        return self._by_spec(self._units, UnitPhase)

    def stock_wanted(self) -> Rows:
        """Return the replicas of pools that refill; pools that are seeded once do not count."""
        return {(spec,): self._wanted.of(spec).get(Refill.ALWAYS, 0) for spec in self._known}

    def storages(self) -> Rows:
        return {(phase,): self._storages.in_state(phase) for phase in StoragePhase}

    def pools(self) -> Rows:
        return {(phase,): self._pools.in_state(phase) for phase in PoolPhase}

    @property
    def _known(self) -> set[str]:
        return self._pools.groups

    def _by_spec(self, counts: Counts[GPUUnit], states: Iterable[str]) -> Rows:
        known = self._known
        rows: dict[tuple[str, ...], float]
        rows = {(spec, state): 0 for spec in known for state in states}
        for spec in counts.groups:
            for state, count in counts.of(spec).items():
                row = (spec if spec in known else OTHER, state)
                rows[row] = rows.get(row, 0) + count
        return rows


def _pool_state_of(pool: StockPool) -> str:
    return pool_phase_of(pool.status.conditions)


def _refill_of(pool: StockPool) -> str:
    return pool.spec.refill


def _replicas_of(pool: StockPool) -> int:
    return pool.spec.replicas


def _storage_state_of(storage: GPUStorage) -> str:
    return storage_phase_of(storage.status.conditions)
