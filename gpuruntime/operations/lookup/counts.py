"""Counts of objects by group and state, kept current as a cache changes."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Generic, TypeVar

from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.phases import UnitPhase, phase_of
from gpuruntime.models.kinds.pools import StockPool
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.metadata import Key, KubernetesObject
from gpuruntime.operations.lookup.caches import Cache

ObjectT = TypeVar("ObjectT", bound=KubernetesObject)


class StockState(StrEnum):
    # The unit is ready and unclaimed, so it can be claimed now.
    AVAILABLE = "available"
    CLAIMED = "claimed"
    PROGRESSING = "progressing"
    FAILED = "failed"


def stock_state_of(stock: GPUUnit) -> str:
    if provenance.is_claimed(stock):
        return StockState.CLAIMED
    if provenance.is_free(stock):
        return StockState.AVAILABLE
    is_failed = provenance.present_phase(stock) is UnitPhase.FAILED
    return StockState.FAILED if is_failed else StockState.PROGRESSING


def active_state_of(unit: GPUUnit) -> str:
    return phase_of(unit.status.conditions)


def running_count_of(unit: GPUUnit) -> int:
    """Return 1, or 0 for the declaration of a function, which runs nothing."""
    return 0 if unit.spec.is_function_template else 1


def spec_name_of(value: GPUUnit | StockPool) -> str:
    return value.spec.specName


def no_group(_: KubernetesObject) -> str:
    return ""


def one(_: KubernetesObject) -> int:
    return 1


class Counts(Generic[ObjectT]):
    """Counts by group and state that follow every change of a cache; reading them is cheap.

    Each object counts as one, unless `amount_of` returns another amount.
    """

    def __init__(
        self,
        cache: Cache[ObjectT],
        state_of: Callable[[ObjectT], str],
        *,
        group_of: Callable[[ObjectT], str] = no_group,
        amount_of: Callable[[ObjectT], int] = one,
    ) -> None:
        self._state_of = state_of
        self._group_of = group_of
        self._amount_of = amount_of
        self._by_group: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._all: Counter[str] = Counter()
        for value in cache.store.values():
            self._add(value, +1)
        cache.add_handler(self._on_change)

    def of(self, group: str) -> Mapping[str, int]:
        return self._by_group.get(group, Counter())

    def in_state(self, state: str) -> int:
        """Return the count of a state over all groups."""
        return self._all[state]

    @property
    def total(self) -> int:
        return self._all.total()

    @property
    def groups(self) -> set[str]:
        return set(self._by_group)

    def _on_change(self, _: Key, old: ObjectT | None, new: ObjectT | None) -> None:
        if old is not None:
            self._add(old, -1)
        if new is not None:
            self._add(new, +1)

    def _add(self, value: ObjectT, sign: int) -> None:
        group, state = self._group_of(value), self._state_of(value)
        amount = sign * self._amount_of(value)
        counted = self._by_group[group]
        counted[state] += amount
        self._all[state] += amount
        if not counted.total():
            del self._by_group[group]
