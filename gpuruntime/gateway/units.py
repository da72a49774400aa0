"""The units that the gateway reaches, found by name or by slug in the mirror of units."""

from collections.abc import Iterator
from typing import Final

from gpuruntime.informer.store import Store
from gpuruntime.models.kinds.templates import PortProtocol
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.tickets.addresses import slug_of

SLUG: Final = "slug"


def _by_slug(unit: GPUUnit) -> Iterator[str]:
    yield slug_of(unit.metadata.name, unit.metadata.uid)


# The index that the informer of units needs.
GATEWAY_INDEXES: Final = {SLUG: _by_slug}


class Units:
    def __init__(self, store: Store[GPUUnit], namespace: str) -> None:
        self._store = store
        self._namespace = namespace

    def named(self, name: str) -> GPUUnit | None:
        return self._store.get(Key(self._namespace, name))

    def with_slug(self, slug: str) -> GPUUnit | None:
        return next(iter(self._store.by_index(SLUG, slug)), None)


def declared_port(unit: GPUUnit, port: str) -> int | None:
    """Return the number of the unit's TCP port of this name or number, or None without one."""
    for each in unit.spec.template.ports:
        if each.protocol == PortProtocol.TCP and port in (each.name, str(each.port)):
            return each.port
    return None
