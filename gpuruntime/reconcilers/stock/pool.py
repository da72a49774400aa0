"""Reconciler of pools: it checks the spec, then refills, retires or dissolves the pool."""

from collections.abc import Callable
from datetime import datetime, timedelta

import attrs

from gpuruntime.controller.controller import DONE, Result
from gpuruntime.kube.client import Client
from gpuruntime.kube.events import EventRecorder
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.envelopes import Envelope, envelope_of
from gpuruntime.models.kinds.pools import StockPool
from gpuruntime.models.kinds.reasons import PoolReason
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.operations.lookup.caches import SPEC
from gpuruntime.operations.lookup.repository import pool_in_force
from gpuruntime.operations.tombstones import Tombstones
from gpuruntime.reconcilers.caches import Caches
from gpuruntime.reconcilers.children.refusals import REFUSED_SECONDS
from gpuruntime.reconcilers.options import PodDefaults
from gpuruntime.reconcilers.stock.dissolution import FINALIZER, PoolDissolution
from gpuruntime.reconcilers.stock.inventory import PoolInventory
from gpuruntime.reconcilers.stock.pool_plan import ORIGIN
from gpuruntime.reconcilers.stock.pool_status import PoolVerdict
from gpuruntime.reconcilers.stock.refill import PoolRefill
from gpuruntime.reconcilers.stock.retirement import PoolRetirement
from gpuruntime.reconcilers.stock.seeding import Seeder
from gpuruntime.reconcilers.unit.start_plan import Term
from gpuruntime.strict import validation


class PoolReconciler:
    def __init__(
        self,
        *,
        client: Client,
        caches: Caches,
        tombstones: Tombstones,
        defaults: PodDefaults,
        retention_seconds: float,
        recorder: EventRecorder,
        term: Callable[[], Term],
        now: Callable[[], datetime],
    ) -> None:
        self._caches = caches
        self._defaults = defaults
        seeder = Seeder(client, caches.stock, defaults)
        self._inventory = PoolInventory(client=client, caches=caches, seeder=seeder, term=term)
        retirement = PoolRetirement(
            client=client,
            inventory=self._inventory,
            tombstones=tombstones,
            retention=timedelta(seconds=retention_seconds),
            now=now,
        )
        self._refill = PoolRefill(
            inventory=self._inventory,
            seeder=seeder,
            retirement=retirement,
            recorder=recorder,
            now=now,
        )
        self._dissolution = PoolDissolution(inventory=self._inventory, tombstones=tombstones)

    async def reconcile(self, key: Key) -> Result:
        pool = self._caches.pools.store.get(key)
        if pool is None:
            self._refill.forget(key)
            return DONE
        if provenance.is_terminating(pool):
            return await self._dissolution.dissolve(pool)
        refusal = self._refusal(pool)
        if refusal is not None:
            _, seconds = await self._refill.report(pool, self._inventory.take_stock(pool), refusal)
            return Result(requeue_after_seconds=seconds or REFUSED_SECONDS)
        if FINALIZER not in pool.metadata.finalizers:
            pool = await self._adopt(pool)
        return await self._refill.refill(pool)

    def _refusal(self, pool: StockPool) -> PoolVerdict | None:
        problems = validation.pool_problems(pool)
        if problems:
            text = "; ".join(str(problem) for problem in problems)
            return PoolVerdict(reason=PoolReason.INVALID_SPEC, message=text)
        decides = pool_in_force(self._caches.pools.store.by_index(SPEC, pool.spec.specName))
        if decides is None or self._envelope(decides) == self._envelope(pool):
            return None
        text = (
            f"pool {decides.metadata.name} gives {pool.spec.specName} another envelope: "
            "use its cpu, memory, gpu and gpuProduct, or another specName"
        )
        return PoolVerdict(reason=PoolReason.SPEC_CONFLICT, message=text)

    def _envelope(self, pool: StockPool) -> Envelope:
        """Return the envelope with our defaults, since another pool may spell them out."""
        cpu, memory = (
            pool.spec.cpu or self._defaults.cpu,
            pool.spec.memory or self._defaults.memory,
        )
        return envelope_of(attrs.evolve(pool.spec, cpu=cpu, memory=memory))

    async def _adopt(self, pool: StockPool) -> StockPool:
        """Add the finalizer and the original uid before the first unit is created."""
        metadata: JsonObject = {"finalizers": [*pool.metadata.finalizers, FINALIZER]}
        if ORIGIN not in pool.metadata.annotations:
            metadata["annotations"] = {ORIGIN: pool.metadata.uid}
        return await self._inventory.patch(pool, {"metadata": metadata})
