"""Units in the order of their names, by lifecycle and by what lists filter for.

Kept as units come and go, so a page costs what it shows: nothing is sorted, searched through or
encoded again for a unit that stayed as it was. Among several filters the rarest leads.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import Final, TypeAlias

import attrs
import msgspec

from gpuruntime.api.views import unit_view
from gpuruntime.inventory.stores import Cache, Store
from gpuruntime.inventory.units import Lifecycle
from gpuruntime.models import labels
from gpuruntime.models.metadata import Key
from gpuruntime.models.phases import UnitPhase, phase_of
from gpuruntime.models.units import GPUUnit

# A lifecycle and, beside it, nothing or one filter and its value.
Facet: TypeAlias = tuple[Lifecycle, str, str]

_encoder: Final = msgspec.json.Encoder()


@attrs.frozen(kw_only=True, slots=True)
class Filter:
    """What is empty or None is not asked for."""

    lifecycle: Lifecycle = Lifecycle.INSTANCE
    phase: UnitPhase | None = None
    spec_name: str = ""
    tenant: str = ""

    def facets(self) -> list[Facet]:
        """All of which a unit has to have."""
        asked = {"phase": self.phase or "", "specName": self.spec_name, "tenant": self.tenant}
        named = [(self.lifecycle, name, value) for name, value in asked.items() if value]
        return named or [(self.lifecycle, "", "")]


@attrs.frozen(kw_only=True, slots=True)
class UnitPage:
    """An encoded list of views; `next` is the key to ask for after it, None after the last."""

    views: msgspec.Raw
    next: Key | None = None


@attrs.define(slots=True, eq=False)
class _Entry:
    """The view is encoded when it is asked for first."""

    unit: GPUUnit
    lifecycle: Lifecycle
    facets: frozenset[Facet]
    view: bytes = b""

    def encoded(self) -> bytes:
        self.view = _encoder.encode(unit_view(self.unit, self.lifecycle))
        return self.view


class _Row:
    """Entries sorted by name, then namespace, as a page of both lifecycles has to be."""

    def __init__(self) -> None:
        self._places: list[tuple[str, str]] = []
        self._entries: list[_Entry] = []

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, key: Key, entry: _Entry) -> None:
        place = (key.name, key.namespace)
        index = bisect_left(self._places, place)
        if self._places[index : index + 1] == [place]:
            self._entries[index] = entry
        else:
            self._places.insert(index, place)
            self._entries.insert(index, entry)

    def remove(self, key: Key) -> None:
        index = bisect_left(self._places, (key.name, key.namespace))
        del self._places[index], self._entries[index]

    def after(self, key: Key | None, limit: int) -> list[_Entry]:
        start = self._start(key)
        return self._entries[start : start + limit]

    def all_after(self, key: Key | None) -> Iterator[_Entry]:
        for index in range(self._start(key), len(self._entries)):
            yield self._entries[index]

    def _start(self, key: Key | None) -> int:
        return bisect_right(self._places, (key.name, key.namespace)) if key else 0


class UnitIndex:
    """Takes what the caches have, and hears of every change from then on."""

    def __init__(self, *, units: Cache[GPUUnit], stock: Cache[GPUUnit]) -> None:
        self._rows: defaultdict[Facet, _Row] = defaultdict(_Row)
        self._entries: dict[Key, _Entry] = {}
        for lifecycle, cache in ((Lifecycle.INSTANCE, units), (Lifecycle.STOCK, stock)):
            for unit in cache.store.values():
                self._put(lifecycle, unit)
            cache.add_handler(partial(self._heed, lifecycle, cache.store))

    def page(self, wanted: Filter, *, limit: int, after: Key | None = None) -> UnitPage:
        facets = wanted.facets()
        rows = [self._rows[facet] for facet in facets if facet in self._rows]
        if len(rows) < len(facets):
            return UnitPage(views=_list_of([]))
        row = min(rows, key=len)
        if len(rows) == 1:
            found = row.after(after, limit + 1)
        else:
            found = _first(row.all_after(after), frozenset(facets), limit + 1)
        kept = found[:limit]
        following = kept[-1].unit.metadata.key if len(found) > limit else None
        return UnitPage(views=_list_of(kept), next=following)

    def _heed(
        self, lifecycle: Lifecycle, store: Store[GPUUnit], key: Key, *_: GPUUnit | None
    ) -> None:
        """Shares the store's own value, so that no unit is held twice."""
        unit = store.get(key)
        if unit is None:
            self._remove(key)
        else:
            self._put(lifecycle, unit)

    def _put(self, lifecycle: Lifecycle, unit: GPUUnit) -> None:
        key = unit.metadata.key
        entry = _Entry(unit, lifecycle, frozenset(_facets_of(unit, lifecycle)))
        before = self._entries.get(key)
        if before is not None:
            self._leave(key, before.facets - entry.facets)
        for facet in entry.facets:
            self._rows[facet].put(key, entry)
        self._entries[key] = entry

    def _remove(self, key: Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._leave(key, entry.facets)

    def _leave(self, key: Key, facets: frozenset[Facet]) -> None:
        for facet in facets:
            self._rows[facet].remove(key)
            if not len(self._rows[facet]):
                del self._rows[facet]


def _list_of(entries: list[_Entry]) -> msgspec.Raw:
    views = [entry.view or entry.encoded() for entry in entries]
    return msgspec.Raw(b"[%b]" % b",".join(views))


def _facets_of(unit: GPUUnit, lifecycle: Lifecycle) -> Iterator[Facet]:
    for seen_as in (lifecycle, Lifecycle.ALL):
        yield seen_as, "", ""
        yield seen_as, "phase", phase_of(unit.status.conditions)
        yield seen_as, "specName", unit.spec.specName
        if tenant := unit.metadata.labels.get(labels.TENANT):
            yield seen_as, "tenant", tenant


def _first(entries: Iterator[_Entry], facets: frozenset[Facet], limit: int) -> list[_Entry]:
    found = (entry for entry in entries if facets <= entry.facets)
    return [entry for entry, _ in zip(found, range(limit), strict=False)]
