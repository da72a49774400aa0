"""The bytes of units' views, kept while the units stay as they are."""

from typing import Final

import msgspec

from gpuruntime.api.views import unit_view
from gpuruntime.inventory.options import Namespaces
from gpuruntime.inventory.units import Lifecycle
from gpuruntime.models.metadata import Key
from gpuruntime.models.units import GPUUnit

# At some 1.5 kB each; beyond it pages only cost what the first page of each unit did.
MOST_KEPT: Final = 20_000


class UnitEncoder:
    """A cache hands out one and the same value until its object changes: identity is enough."""

    def __init__(self, namespaces: Namespaces) -> None:
        self._stock = namespaces.stock
        self._encoder = msgspec.json.Encoder()
        self._kept: dict[Key, tuple[GPUUnit, msgspec.Raw]] = {}

    def lifecycle_of(self, unit: GPUUnit) -> Lifecycle:
        in_stock = unit.metadata.namespace == self._stock
        return Lifecycle.STOCK if in_stock else Lifecycle.INSTANCE

    def encoded(self, unit: GPUUnit) -> msgspec.Raw:
        key = unit.metadata.key
        kept = self._kept.get(key)
        if kept is not None and kept[0] is unit:
            return kept[1]
        view = msgspec.Raw(self._encoder.encode(unit_view(unit, self.lifecycle_of(unit))))
        if len(self._kept) >= MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = (unit, view)
        return view
