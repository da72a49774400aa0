"""Units in the order of their names, by lifecycle and by what lists filter for.

Kept as units come and go, so a page costs what it shows: nothing is sorted, searched through or
encoded again for a unit that stayed as it was. Among several filters the rarest leads.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Final, TypeAlias

import attrs
import msgspec

from gpuruntime.api.views.units import unit_view
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.phases import UnitPhase, phase_of
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.views.units import Lifecycle
from gpuruntime.operations.lookup.caches import Cache, Store
from gpuruntime.operations.lookup.ordering import Ordered, Place

# A lifecycle and, beside it, nothing or one filter and its value.
Facet: TypeAlias = tuple[Lifecycle, str, str]

_encoder: Final = msgspec.json.Encoder()


@attrs.frozen(kw_only=True, slots=True)
class Filter:
    """What is empty or None is not asked for."""

    lifecycle: Lifecycle = Lifecycle.INSTANCE
    phase: UnitPhase | None = None
    spec_name: str = ""
    # Any of these; None: whosesoever.
    tenants: frozenset[str] | None = None

    def alternatives(self) -> list[list[Facet]]:
        """Of one of these lists a unit has to have all."""
        if self.tenants is None:
            return [self._facets("")]
        return [self._facets(tenant) for tenant in self.tenants if tenant]

    def _facets(self, tenant: str) -> list[Facet]:
        asked = {"phase": self.phase or "", "specName": self.spec_name, "tenant": tenant}
        named = [(self.lifecycle, name, value) for name, value in asked.items() if value]
        return named or [(self.lifecycle, "", "")]


@attrs.frozen(kw_only=True, slots=True)
class UnitPage:
    """Each view as JSON; `next` is the key to ask for after them, None after the last."""

    views: list[bytes]
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


class UnitIndex:
    """Takes what the caches have, and hears of every change from then on."""

    def __init__(self, *, units: Cache[GPUUnit], stock: Cache[GPUUnit]) -> None:
        self._rows: defaultdict[Facet, Ordered[_Entry]] = defaultdict(Ordered)
        self._entries: dict[Key, _Entry] = {}
        for lifecycle, cache in ((Lifecycle.INSTANCE, units), (Lifecycle.STOCK, stock)):
            for unit in cache.store.values():
                self._put(lifecycle, unit)
            cache.add_handler(partial(self._heed, lifecycle, cache.store))

    def page(self, wanted: Filter, *, limit: int, after: Key | None = None) -> UnitPage:
        entries, following = self._entries_of(wanted, limit, after)
        views = [entry.view or entry.encoded() for entry in entries]
        return UnitPage(views=views, next=following)

    def units(
        self, wanted: Filter, *, limit: int, after: Key | None = None
    ) -> tuple[list[GPUUnit], Key | None]:
        """The units of a page themselves, and the key to ask for after them."""
        entries, following = self._entries_of(wanted, limit, after)
        return [entry.unit for entry in entries], following

    def _entries_of(
        self, wanted: Filter, limit: int, after: Key | None
    ) -> tuple[list[_Entry], Key | None]:
        """Of one page, and the key after which the next one begins."""
        place = _place_of(after) if after else ()
        parts = [self._found(facets, place, limit + 1) for facets in wanted.alternatives()]
        found = _merged(parts, limit + 1)
        kept = found[:limit]
        following = kept[-1].unit.metadata.key if len(found) > limit else None
        return kept, following

    def _found(self, facets: list[Facet], place: Place, count: int) -> list[_Entry]:
        rows = [self._rows[facet] for facet in facets if facet in self._rows]
        if len(rows) < len(facets):
            return []
        if len(rows) == 1:
            return rows[0].some_after(place, count)
        wanted = frozenset(facets)
        entries = min(rows, key=len).after(place)
        return list(islice((each for each in entries if wanted <= each.facets), count))

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
            self._rows[facet].put(_place_of(key), entry)
        self._entries[key] = entry

    def _remove(self, key: Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._leave(key, entry.facets)

    def _leave(self, key: Key, facets: frozenset[Facet]) -> None:
        for facet in facets:
            self._rows[facet].remove(_place_of(key))
            if not len(self._rows[facet]):
                del self._rows[facet]


def _merged(parts: list[list[_Entry]], count: int) -> list[_Entry]:
    """A unit has one tenant, so it is in one part."""
    if len(parts) == 1:
        return parts[0]
    entries = [entry for part in parts for entry in part]
    return sorted(entries, key=lambda entry: _place_of(entry.unit.metadata.key))[:count]


def _place_of(key: Key) -> Place:
    """Units of one name may be in both namespaces."""
    return (key.name, key.namespace)


def _facets_of(unit: GPUUnit, lifecycle: Lifecycle) -> Iterator[Facet]:
    for seen_as in (lifecycle, Lifecycle.ALL):
        yield seen_as, "", ""
        yield seen_as, "phase", phase_of(unit.status.conditions)
        yield seen_as, "specName", unit.spec.specName
        if tenant := unit.metadata.labels.get(labels.TENANT):
            yield seen_as, "tenant", tenant
