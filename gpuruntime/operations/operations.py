"""The use cases of one process, put together: what roles build and routes hold."""

import asyncio

import attrs

from gpuruntime.operations.claim.stock import StockClaims
from gpuruntime.operations.deletion import Deletions
from gpuruntime.operations.jobs import Jobs
from gpuruntime.operations.options import Means
from gpuruntime.operations.pools import Pools
from gpuruntime.operations.single_flight import Attempts
from gpuruntime.operations.storages import Storages
from gpuruntime.operations.tombstones import Tombstones
from gpuruntime.operations.units import Units


@attrs.frozen(kw_only=True, slots=True)
class Inventory:
    units: Units
    pools: Pools
    jobs: Jobs
    storages: Storages


def inventory_of(means: Means, tasks: asyncio.TaskGroup) -> Inventory:
    """Before the informers of its caches run. Attempts end as tasks of the role's group."""
    tombstones, attempts = tombstones_of(means), Attempts(tasks)
    deletions = Deletions(means.client, tombstones)
    storages = Storages(means, tombstones=tombstones, deletions=deletions, attempts=attempts)
    units = Units(
        means,
        storages=storages,
        stock=stock_claims_of(means),
        tombstones=tombstones,
        deletions=deletions,
        attempts=attempts,
    )
    pools = Pools(means, tombstones=tombstones, deletions=deletions, attempts=attempts)
    return Inventory(units=units, pools=pools, jobs=Jobs(means, deletions), storages=storages)


def tombstones_of(means: Means) -> Tombstones:
    """The manager writes and sweeps them too."""
    return Tombstones(
        means.client,
        namespace=means.options.namespaces.system,
        retention_seconds=means.options.retention_seconds,
        now=means.now,
    )


def stock_claims_of(means: Means) -> StockClaims:
    """The manager claims for units whose claim was lost."""
    return StockClaims(
        means.client,
        stock=means.caches.stock,
        units=means.caches.units,
        namespace=means.options.namespaces.stock,
        now=means.now,
        rng=means.rng,
        meter=means.meter,
    )
