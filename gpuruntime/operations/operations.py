"""All use cases of one process; roles build them and routes call them."""

import asyncio

import attrs

from gpuruntime.concurrency.single_flight import SingleFlight
from gpuruntime.operations.claim.stock import StockClaims
from gpuruntime.operations.context import OperationContext
from gpuruntime.operations.deletion import Deletions
from gpuruntime.operations.errors import ClusterUnavailableError, UnknownOutcomeError
from gpuruntime.operations.jobs import Jobs
from gpuruntime.operations.pools import Pools
from gpuruntime.operations.secrets import Secrets
from gpuruntime.operations.storages import Storages
from gpuruntime.operations.tombstones import Tombstones
from gpuruntime.operations.units import Units


@attrs.frozen(kw_only=True, slots=True)
class Operations:
    units: Units
    pools: Pools
    jobs: Jobs
    storages: Storages
    secrets: Secrets


def operations_of(context: OperationContext, tasks: asyncio.TaskGroup) -> Operations:
    """Build the use cases, before the informers of their caches run.

    Attempts run as tasks of the role's group.
    """
    tombstones = tombstones_of(context)
    attempts = SingleFlight(
        tasks,
        refused=lambda: ClusterUnavailableError("this process is stopping: ask again"),
        unknown=lambda: UnknownOutcomeError("this process is stopping: send the operation again"),
    )
    deletions = Deletions(context.client, tombstones)
    storages = Storages(context, tombstones=tombstones, deletions=deletions, attempts=attempts)
    units = Units(
        context,
        storages=storages,
        stock=stock_claims_of(context),
        tombstones=tombstones,
        deletions=deletions,
        attempts=attempts,
    )
    pools = Pools(context, tombstones=tombstones, deletions=deletions, attempts=attempts)
    return Operations(
        units=units,
        pools=pools,
        jobs=Jobs(context, deletions),
        storages=storages,
        secrets=Secrets(context),
    )


def tombstones_of(context: OperationContext) -> Tombstones:
    """Build the tombstones, which the manager writes and sweeps as well."""
    return Tombstones(
        context.client,
        namespace=context.options.namespaces.system,
        retention_seconds=context.options.retention_seconds,
        now=context.now,
    )


def stock_claims_of(context: OperationContext) -> StockClaims:
    """Build the claims, which the manager uses for units whose claim was lost."""
    return StockClaims(
        context.client,
        stock=context.caches.stock,
        units=context.caches.units,
        namespace=context.options.namespaces.stock,
        now=context.now,
        rng=context.rng,
        meter=context.meter,
    )
