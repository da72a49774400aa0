"""A pool made true: stock made once per ordinal, surplus removed, what happened recorded."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import attrs
import structlog

from gpuruntime.controller.result import DONE, Result
from gpuruntime.inventory import provenance
from gpuruntime.inventory.envelopes import envelope_of
from gpuruntime.inventory.stores import POOL, SPEC
from gpuruntime.inventory.tombstones import Tombstones
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    KubeError,
    OutcomeUnknownError,
)
from gpuruntime.models import codec, labels, validation
from gpuruntime.models.conditions import condition_of
from gpuruntime.models.json import JsonObject
from gpuruntime.models.metadata import Key
from gpuruntime.models.pools import STOCK_POOLS, StockPool
from gpuruntime.models.reasons import ConditionType, PoolReason
from gpuruntime.models.units import GPU_UNITS, GPUUnit, GPUUnitSpec
from gpuruntime.reconcilers.caches import SOURCE_POOL, Caches
from gpuruntime.reconcilers.handoff_plan import POOL_UID, is_of_pool, source_ordinal
from gpuruntime.reconcilers.options import PodDefaults
from gpuruntime.reconcilers.pool_plan import PoolPlan, Stocktaking, plan, take_stock
from gpuruntime.reconcilers.pool_status import (
    PoolVerdict,
    is_used_up,
    pool_status,
    pool_verdict,
)
from gpuruntime.reconcilers.start_plan import REQUEST_LIFE_SECONDS, Term
from gpuruntime.reconcilers.stock import delete_stock

log = structlog.get_logger()

FINALIZER: Final = f"{labels.GROUP}/stock"


@attrs.frozen(kw_only=True, slots=True)
class PoolReconciler:
    client: Client
    caches: Caches
    tombstones: Tombstones
    defaults: PodDefaults
    retention_seconds: float
    term: Callable[[], Term]
    now: Callable[[], datetime]
    # Until when (loop time) a create of the pool whose answer was lost may still land, by uid.
    unsettled: dict[str, float] = attrs.field(factory=dict)

    async def reconcile(self, key: Key) -> Result:
        pool = self.caches.pools.store.get(key)
        if pool is None:
            return DONE
        if provenance.is_terminating(pool):
            return await self._dissolve(pool)
        verdict = self._refusal(pool)
        if verdict is not None:
            await self._report(pool, self._take_stock(pool), verdict)
            return DONE
        if FINALIZER not in pool.metadata.finalizers:
            pool = await self._set_finalizers(pool, (*pool.metadata.finalizers, FINALIZER))
        return await self._carry_out(pool)

    async def _carry_out(self, pool: StockPool) -> Result:
        stock = self._take_stock(pool)
        step = plan(pool, stock)
        made = await self._make(pool, step)
        await self._remove(step.removes)
        stock = attrs.evolve(self._take_stock(pool), highest=max(stock.highest, made))
        await self._report(pool, stock, pool_verdict(pool, stock))
        if step.is_cut_short:
            return Result(requeue_after_seconds=0.0)
        return await self._later(pool, stock)

    async def _later(self, pool: StockPool, stock: Stocktaking) -> Result:
        unsettled = self._unsettled_seconds(pool)
        if unsettled and stock.highest > pool.status.seeded:
            return Result(requeue_after_seconds=unsettled)
        if is_used_up(pool, stock) and pool.spec.replicas:
            return await self._retire(pool)
        return DONE

    async def _retire(self, pool: StockPool) -> Result:
        """The record of a finished operation is kept for the retention, then it goes."""
        current = self.caches.pools.store.get(pool.metadata.key) or pool
        condition = condition_of(current.status.conditions, ConditionType.READY)
        if condition is None or condition.lastTransitionTime is None:
            return DONE
        end = condition.lastTransitionTime + timedelta(seconds=self.retention_seconds)
        left = (end - self.now()).total_seconds()
        if left > 0:
            return Result(requeue_after_seconds=left)
        await self.tombstones.write(STOCK_POOLS.kind, pool)
        await self.client.delete(STOCK_POOLS, pool.metadata.key, uid=pool.metadata.uid)
        log.info("used-up pool removed")
        return DONE

    def _refusal(self, pool: StockPool) -> PoolVerdict | None:
        problems = validation.pool_problems(pool)
        if problems:
            text = "; ".join(str(problem) for problem in problems)
            return PoolVerdict(reason=PoolReason.INVALID_SPEC, message=text)
        for other in self.caches.pools.store.by_index(SPEC, pool.spec.specName):
            differs = envelope_of(other.spec) != envelope_of(pool.spec)
            if differs and _precedence(other) < _precedence(pool):
                text = (
                    f"pool {other.metadata.name} gives {pool.spec.specName} another envelope: "
                    "use its cpu, memory, gpu and gpuProduct, or another specName"
                )
                return PoolVerdict(reason=PoolReason.SPEC_CONFLICT, message=text)
        return None

    def _take_stock(self, pool: StockPool) -> Stocktaking:
        name = pool.metadata.name
        living = (
            unit for unit in self.caches.stock.store.by_index(POOL, name) if is_of_pool(unit, pool)
        )
        sources = self.caches.units.store.by_index(SOURCE_POOL, name)
        return take_stock(pool, living, (source_ordinal(unit) for unit in sources))

    async def _make(self, pool: StockPool, step: PoolPlan) -> int:
        """The highest ordinal made; creates go side by side, and none is left on its way."""
        async with asyncio.TaskGroup() as tasks:
            made = [
                tasks.create_task(self._make_one(pool, ordinal), name=f"create {ordinal}")
                for ordinal in step.creates
            ]
        outcomes = [task.result() for task in made]
        failures = [outcome for outcome in outcomes if isinstance(outcome, KubeError)]
        if failures:
            raise failures[0]
        if step.creates:
            log.info("stock made", count=len(step.creates))
        return max((outcome for outcome in outcomes if isinstance(outcome, int)), default=0)

    async def _make_one(self, pool: StockPool, ordinal: int) -> int | KubeError:
        key = Key(pool.metadata.namespace, f"{pool.metadata.name}-{ordinal}")
        body = self._stock_unit(pool, key)
        try:
            unit = await self._create_or_get(key, body)
        except OutcomeUnknownError as error:
            loop_time = asyncio.get_running_loop().time()
            self.unsettled[pool.metadata.uid] = loop_time + REQUEST_LIFE_SECONDS
            return error
        except KubeError as error:
            return error
        if not is_of_pool(unit, pool):
            return ConflictError(f"stock {key} is of another pool: its ordinal waits for its end")
        self.caches.stock.write_through(unit)
        return ordinal

    async def _create_or_get(self, key: Key, body: JsonObject) -> GPUUnit:
        try:
            return await self.client.create(GPU_UNITS, body, namespace=key.namespace)
        except AlreadyExistsError:
            return await self.client.get(GPU_UNITS, key)

    async def _remove(self, units: tuple[GPUUnit, ...]) -> None:
        for unit in units:
            try:
                await delete_stock(self.client, unit)
            except ConflictError:
                # Claimed meanwhile: the next round counts anew.
                continue

    async def _dissolve(self, pool: StockPool) -> Result:
        """Unclaimed units go; claimed ones finish their hand-off without the pool."""
        if FINALIZER not in pool.metadata.finalizers:
            return DONE
        stock = self._take_stock(pool)
        unclaimed = (*stock.ready, *stock.progressing, *stock.failed)
        await self._remove(unclaimed)
        if unclaimed:
            return DONE
        others = tuple(each for each in pool.metadata.finalizers if each != FINALIZER)
        await self._set_finalizers(pool, others)
        self.unsettled.pop(pool.metadata.uid, None)
        return DONE

    async def _set_finalizers(self, pool: StockPool, finalizers: tuple[str, ...]) -> StockPool:
        written = await self.client.patch(
            STOCK_POOLS,
            pool.metadata.key,
            {"metadata": {"finalizers": list(finalizers)}},
            resource_version=pool.metadata.resourceVersion,
        )
        self.caches.pools.write_through(written)
        return written

    async def _report(self, pool: StockPool, stock: Stocktaking, verdict: PoolVerdict) -> None:
        settled = not self._unsettled_seconds(pool)
        recorded = stock.highest if settled else pool.status.seeded
        status = pool_status(pool, stock, verdict, recorded=recorded, now=self.now())
        if status == pool.status:
            return
        written = await self.client.patch(
            STOCK_POOLS,
            pool.metadata.key,
            {"status": codec.to_json(status)},
            resource_version=pool.metadata.resourceVersion,
            subresource="status",
        )
        self.caches.pools.write_through(written)

    def _unsettled_seconds(self, pool: StockPool) -> float:
        loop_time = asyncio.get_running_loop().time()
        lost = self.unsettled.get(pool.metadata.uid, 0.0) - loop_time
        return max(0.0, lost, self.term().unsettled_seconds)

    def _stock_unit(self, pool: StockPool, key: Key) -> JsonObject:
        """The envelope is spelled out, so that a later default never changes what is in stock."""
        spec = GPUUnitSpec(
            specName=pool.spec.specName,
            image=pool.spec.image,
            cpu=pool.spec.cpu or self.defaults.cpu,
            memory=pool.spec.memory or self.defaults.memory,
            gpu=pool.spec.gpu,
            gpuProduct=pool.spec.gpuProduct,
            template=pool.spec.template,
        )
        return {
            "apiVersion": GPU_UNITS.api_version,
            "kind": GPU_UNITS.kind,
            "metadata": {
                "name": key.name,
                "namespace": key.namespace,
                "labels": {
                    labels.APP_NAME: labels.UNIT_APP,
                    labels.MANAGED_BY: labels.MANAGER,
                    labels.UNIT: key.name,
                    labels.POOL: pool.metadata.name,
                    labels.SPEC: pool.spec.specName,
                },
                "annotations": {POOL_UID: pool.metadata.uid},
            },
            "spec": codec.to_json(spec),
        }


def _precedence(pool: StockPool) -> tuple[float, str]:
    created = pool.metadata.creationTimestamp
    return (created.timestamp() if created else 0.0, pool.metadata.uid)
