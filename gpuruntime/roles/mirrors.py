"""The mirrors of a role: informers by name, and what they say about the cluster."""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from gpuruntime.informer.informer import Informer
from gpuruntime.informer.store import Index
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import UnreachableError
from gpuruntime.kube.watch import WINDOW_SECONDS, Selection
from gpuruntime.models.kinds.pools import STOCK_POOLS
from gpuruntime.models.kinds.storages import GPU_STORAGES
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.resources import ObjectT, Resource
from gpuruntime.operations.lookup.caches import (
    POOL_INDEXES,
    STOCK_INDEXES,
    STORAGE_INDEXES,
    Caches,
    UnitIndexes,
)
from gpuruntime.roles.cluster_role import ClusterContext

# A server that starts or is short of capacity may refuse all requests for this long.
LONGEST_SILENCE_SECONDS: Final = 10.0
# One and a half times the longest pause between two attempts: one refusal never lasts that long.
LONGEST_LAG_SECONDS: Final = 45.0


class Mirrors:
    """Mirrors has the informers of a role, by the names of their metrics."""

    def __init__(
        self, context: ClusterContext, client: Client, *, is_checked: bool = False
    ) -> None:
        self.informers: dict[str, Informer[Any]] = {}
        self._context = context
        self._client = client
        self._is_checked = is_checked

    def add(
        self,
        name: str,
        resource: Resource[ObjectT],
        selection: Selection,
        indexes: Mapping[str, Index[ObjectT]] | None = None,
        window_seconds: tuple[int, int] = WINDOW_SECONDS,
    ) -> Informer[ObjectT]:
        made = self.informers[name] = Informer(
            self._client,
            resource,
            rng=self._context.process.rng,
            selection=selection,
            mirror=name,
            indexes=indexes,
            meter=self._context.registry,
            is_checked=self._is_checked,
            window_seconds=window_seconds,
        )
        return made

    def add_caches(self, unit_indexes: UnitIndexes) -> Caches:
        """Add the mirrors of our own kinds."""
        names = self._context.settings.namespaces
        stock, instance = Selection(namespace=names.stock), Selection(namespace=names.instance)
        return Caches(
            stock=self.add("stock", GPU_UNITS, stock, STOCK_INDEXES),
            units=self.add("units", GPU_UNITS, instance, unit_indexes),
            pools=self.add("pools", STOCK_POOLS, stock, POOL_INDEXES),
            storages=self.add("storages", GPU_STORAGES, instance, STORAGE_INDEXES),
        )

    def start(self, tasks: asyncio.TaskGroup) -> None:
        for name, informer in self.informers.items():
            tasks.create_task(informer.run(), name=f"inform {name}")


def not_synced(informers: Mapping[str, Informer[Any]]) -> list[str]:
    return [name for name, informer in informers.items() if not informer.synced.is_set()]


def waits_for(unsynced: Iterable[str]) -> str:
    """Return why a role is not ready, or nothing if all mirrors are synced."""
    names = ", ".join(unsynced)
    return f"not synced yet: {names}" if names else ""


def is_away(informers: Collection[Informer[Any]]) -> bool:
    """Return whether the cluster is away: unreachable for all mirrors, or all fail for a while."""
    if not informers or any(each.error is None for each in informers):
        return False
    is_unreachable = all(isinstance(each.error, UnreachableError) for each in informers)
    return is_unreachable or all(
        each.failing_seconds > LONGEST_SILENCE_SECONDS for each in informers
    )


def is_behind(informer: Informer[Any]) -> bool:
    """Return whether the mirror's content is too old for a reader to take it as current."""
    return informer.failing_seconds > LONGEST_LAG_SECONDS
