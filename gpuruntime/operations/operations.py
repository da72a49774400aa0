"""The use cases of one process, put together: what roles build and routes hold."""

import asyncio

import attrs

from gpuruntime.concurrency.single_flight import SingleFlight
from gpuruntime.operations.claim.stock import StockClaims
from gpuruntime.operations.context import OperationContext
from gpuruntime.operations.deletion import Deletions
from gpuruntime.operations.errors import ClusterUnavailableError, UnknownOutcomeError
from gpuruntime.operations.jobs import Jobs
from gpuruntime.operations.pools import Pools
from gpuruntime.operations.storages import Storages
from gpuruntime.operations.tombstones import Tombstones
from gpuruntime.operations.units import Units


@attrs.frozen(kw_only=True, slots=True)
class Operations:
    units: Units
    pools: Pools
    jobs: Jobs
    storages: Storages


def operations_of(means: OperationContext, tasks: asyncio.TaskGroup) -> Operations:
    """Before the informers of its caches run. Attempts end as tasks of the role's group."""
    tombstones = tombstones_of(means)
    attempts = SingleFlight(
        tasks,
        refused=lambda: ClusterUnavailableError("this process is stopping: ask again"),
        unknown=lambda: UnknownOutcomeError("this process is stopping: send the operation again"),
    )
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
    return Operations(units=units, pools=pools, jobs=Jobs(means, deletions), storages=storages)


def tombstones_of(means: OperationContext) -> Tombstones:
    """The manager writes and sweeps them too."""
    return Tombstones(
        means.client,
        namespace=means.options.namespaces.system,
        retention_seconds=means.options.retention_seconds,
        now=means.now,
    )


def stock_claims_of(means: OperationContext) -> StockClaims:
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
