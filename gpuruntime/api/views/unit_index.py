"""An index of units by name, for each lifecycle and each filter of lists.

It follows the caches, so that a page costs only what it shows: nothing is sorted or searched, and
an unchanged unit is not encoded again. Several filters are read along the rarest one.
"""

from collections import defaultdict
from functools import lru_cache, partial
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

# A lifecycle with one filter and its value, or with two empty texts for all of its units.
Facet: TypeAlias = tuple[Lifecycle, str, str]

# A set has about 1 KB.
MOST_FACET_SETS: Final = 4_096

_encoder: Final = msgspec.json.Encoder()


@attrs.frozen(kw_only=True, slots=True)
class Filter:
    """Filters of a list; an empty one or None matches every unit."""

    lifecycle: Lifecycle = Lifecycle.INSTANCE
    phase: UnitPhase | None = None
    spec_name: str = ""
    # A unit of any of these tenants matches; None matches units of all and of none.
    tenants: frozenset[str] | None = None

    def alternatives(self) -> list[list[Facet]]:
        """Return lists of facets; a unit matches if it has all facets of one list."""
        if self.tenants is None:
            return [self._facets("")]
        return [self._facets(tenant) for tenant in self.tenants if tenant]

    def _facets(self, tenant: str) -> list[Facet]:
        asked = {"phase": self.phase or "", "specName": self.spec_name, "tenant": tenant}
        named = [(self.lifecycle, name, value) for name, value in asked.items() if value]
        return named or [(self.lifecycle, "", "")]


@attrs.frozen(kw_only=True, slots=True)
class UnitPage:
    """A page of views as JSON; `next` is the key of its last unit, or None on the last page."""

    views: list[bytes]
    next: Key | None = None


@attrs.define(slots=True, eq=False)
class _Entry:
    """A unit in the index; its view is encoded when it is first read."""

    unit: GPUUnit
    lifecycle: Lifecycle
    facets: frozenset[Facet]
    view: bytes = b""

    def encoded(self) -> bytes:
        self.view = _encoder.encode(unit_view(self.unit, self.lifecycle))
        return self.view


class UnitIndex:
    """The index; it takes the units of the caches, and then follows every change."""

    def __init__(self, *, units: Cache[GPUUnit], stock: Cache[GPUUnit]) -> None:
        self._rows: defaultdict[Facet, Ordered[_Entry]] = defaultdict(Ordered)
        self._entries: dict[Key, _Entry] = {}
        # Changes with every change of the index.
        self.version = 0
        for lifecycle, cache in ((Lifecycle.INSTANCE, units), (Lifecycle.STOCK, stock)):
            for unit in cache.store.values():
                self._put(lifecycle, unit)
            cache.add_handler(partial(self._follow, lifecycle, cache.store))

    def page(self, wanted: Filter, *, limit: int, after: Key | None = None) -> UnitPage:
        entries, following = self._entries_of(wanted, limit, after)
        views = [entry.view or entry.encoded() for entry in entries]
        return UnitPage(views=views, next=following)

    def units(
        self, wanted: Filter, *, limit: int, after: Key | None = None
    ) -> tuple[list[GPUUnit], Key | None]:
        """Return the units of a page, and the key after which the next page begins."""
        entries, following = self._entries_of(wanted, limit, after)
        return [entry.unit for entry in entries], following

    def _entries_of(
        self, wanted: Filter, limit: int, after: Key | None
    ) -> tuple[list[_Entry], Key | None]:
        """Return the entries of a page, and the key after which the next page begins."""
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

    def _follow(
        self, lifecycle: Lifecycle, store: Store[GPUUnit], key: Key, *_: GPUUnit | None
    ) -> None:
        """Take the store's own value, so that no unit is in memory twice."""
        unit = store.get(key)
        if unit is None:
            self._remove(key)
        else:
            self._put(lifecycle, unit)

    def _put(self, lifecycle: Lifecycle, unit: GPUUnit) -> None:
        self.version += 1
        key = unit.metadata.key
        facets = _facets_of(
            lifecycle,
            phase_of(unit.status.conditions),
            unit.spec.specName,
            unit.metadata.labels.get(labels.TENANT, ""),
        )
        before = self._entries.get(key)
        if before is not None and before.facets == facets:
            before.unit, before.view = unit, b""
            return
        if before is not None:
            self._leave(key, before.facets - facets)
        entry, place = _Entry(unit, lifecycle, facets), _place_of(key)
        for facet in facets:
            self._rows[facet].put(place, entry)
        self._entries[key] = entry

    def _remove(self, key: Key) -> None:
        self.version += 1
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._leave(key, entry.facets)

    def _leave(self, key: Key, facets: frozenset[Facet]) -> None:
        for facet in facets:
            self._rows[facet].remove(_place_of(key))
            if not len(self._rows[facet]):
                del self._rows[facet]


def _merged(parts: list[list[_Entry]], count: int) -> list[_Entry]:
    """Merge sorted parts, which share no unit, as a unit has one tenant."""
    if len(parts) == 1:
        return parts[0]
    entries = [entry for part in parts for entry in part]
    return sorted(entries, key=lambda entry: _place_of(entry.unit.metadata.key))[:count]


def _place_of(key: Key) -> Place:
    """Return the sort key; both namespaces may have a unit of the same name."""
    return (key.name, key.namespace)


@lru_cache(MOST_FACET_SETS)
def _facets_of(
    lifecycle: Lifecycle, phase: UnitPhase, spec_name: str, tenant: str
) -> frozenset[Facet]:
    """Return the facets of all such units, which share one set."""
    named = [("", ""), ("phase", phase), ("specName", spec_name)]
    if tenant:
        named.append(("tenant", tenant))
    return frozenset(
        (seen_as, name, value) for seen_as in (lifecycle, Lifecycle.ALL) for name, value in named
    )
