"""How many units of each specName are in which state, kept as they come and go."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from enum import StrEnum

from gpuruntime.inventory.stores import Cache
from gpuruntime.models import provenance
from gpuruntime.models.metadata import Key
from gpuruntime.models.phases import UnitPhase, phase_of
from gpuruntime.models.units import GPUUnit


class StockState(StrEnum):
    # Ready and unclaimed: a claim can have it now.
    AVAILABLE = "available"
    CLAIMED = "claimed"
    PROGRESSING = "progressing"
    FAILED = "failed"


def stock_state_of(stock: GPUUnit) -> str:
    if provenance.is_claimed(stock):
        return StockState.CLAIMED
    if provenance.is_free(stock):
        return StockState.AVAILABLE
    is_failed = phase_of(stock.status.conditions) is UnitPhase.FAILED
    return StockState.FAILED if is_failed else StockState.PROGRESSING


def active_state_of(unit: GPUUnit) -> str:
    return phase_of(unit.status.conditions)


class UnitCounts:
    """Counts what the cache has, and hears of every change from then on."""

    def __init__(self, cache: Cache[GPUUnit], state_of: Callable[[GPUUnit], str]) -> None:
        self._state_of = state_of
        self._by_spec: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._all: Counter[str] = Counter()
        for unit in cache.store.values():
            self._add(unit, +1)
        cache.add_handler(self._heed)

    def of(self, spec_name: str) -> Mapping[str, int]:
        return self._by_spec.get(spec_name, Counter())

    def in_state(self, state: str) -> int:
        """Over all specNames."""
        return self._all[state]

    @property
    def total(self) -> int:
        return self._all.total()

    @property
    def spec_names(self) -> set[str]:
        return set(self._by_spec)

    def _heed(self, _: Key, old: GPUUnit | None, new: GPUUnit | None) -> None:
        if old is not None:
            self._add(old, -1)
        if new is not None:
            self._add(new, +1)

    def _add(self, unit: GPUUnit, amount: int) -> None:
        spec_name, state = unit.spec.specName, self._state_of(unit)
        counted = self._by_spec[spec_name]
        counted[state] += amount
        self._all[state] += amount
        if not counted.total():
            del self._by_spec[spec_name]
