"""A scope limits a use case to the objects of some tenants, or shows it all objects.

An object out of scope is treated as if it did not exist.
"""

import heapq
from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import Final, Generic, TypeVar

import attrs

from gpuruntime.models.kinds import labels
from gpuruntime.models.kubernetes.metadata import KubernetesObject
from gpuruntime.operations.lookup.caches import Cache
from gpuruntime.operations.lookup.ordering import OrderedCache, Place

ObjectT = TypeVar("ObjectT", bound=KubernetesObject)


@attrs.frozen(slots=True)
class Scope:
    """The tenants whose objects are visible; None also shows objects without a tenant."""

    tenants: frozenset[str] | None = None

    @property
    def is_bound(self) -> bool:
        return self.tenants is not None

    def holds(self, value: KubernetesObject) -> bool:
        return self.tenants is None or tenant_of(value) in self.tenants


EVERYTHING: Final = Scope()


def tenant_of(value: KubernetesObject) -> str:
    """Return the object's tenant, or an empty string if it has none."""
    return value.metadata.labels.get(labels.TENANT, "")


class ScopedCache(Generic[ObjectT]):
    """The objects of a cache in order, of all tenants or of those in a scope."""

    def __init__(self, cache: Cache[ObjectT], place_of: Callable[[ObjectT], Place | None]) -> None:
        self._all = OrderedCache(cache, place_of)
        self._by_tenant = OrderedCache(cache, lambda value: _behind_tenant(value, place_of))
        self._place_of = place_of

    def after(self, place: Place, scope: Scope = EVERYTHING) -> Iterator[ObjectT]:
        """Yield the objects after the place; objects out of scope are not even read."""
        if scope.tenants is None:
            return self._all.after(place)
        rows = [self._of(tenant, place) for tenant in scope.tenants if tenant]
        return heapq.merge(*rows, key=lambda value: self._place_of(value) or ())

    def _of(self, tenant: str, place: Place) -> Iterator[ObjectT]:
        found = self._by_tenant.after((tenant, *(place or ("",))))
        return takewhile(lambda value: tenant_of(value) == tenant, found)


def _behind_tenant(value: ObjectT, place_of: Callable[[ObjectT], Place | None]) -> Place | None:
    place, tenant = place_of(value), tenant_of(value)
    return (tenant, *place) if tenant and place is not None else None
