"""The writes of a pool's plan: to its stock, and to the pool itself except its status."""

from typing import assert_never

import attrs
import structlog

from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import ConflictError, NotFoundError
from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds.pools import STOCK_POOLS, StockPool
from gpuruntime.models.kinds.templates import Template
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit
from gpuruntime.models.kubernetes.timestamps import rfc3339
from gpuruntime.operations.lookup.caches import Cache
from gpuruntime.operations.tombstones import Tombstones
from gpuruntime.reconcilers.children.keeper import REFUSALS
from gpuruntime.reconcilers.stock.act import delete_stock
from gpuruntime.reconcilers.stock.pool_pass_plan import (
    FINALIZER,
    Adopt,
    ChangeUnits,
    CreateUnits,
    Intent,
    LetGo,
    MarkUsedUp,
    RemoveUnits,
    Retire,
)
from gpuruntime.reconcilers.stock.pool_plan import ORIGIN
from gpuruntime.reconcilers.stock.pool_status import USED_UP_AT
from gpuruntime.reconcilers.stock.seeding import Seeder
from gpuruntime.reconcilers.tombstones import ensure_tombstone

log = structlog.get_logger()


@attrs.frozen(kw_only=True, slots=True)
class PoolActor:
    client: Client
    pools: Cache[StockPool]
    stock: Cache[GPUUnit]
    seeder: Seeder
    tombstones: Tombstones

    async def act(self, pool: StockPool, intents: tuple[Intent, ...]) -> str:
        """Carry out the intents in their order; return why stock was refused, or nothing."""
        refused = ""
        for intent in intents:
            match intent:
                case Adopt():
                    await self._adopt(pool)
                case CreateUnits(ordinals):
                    refused = await self.seeder.make(pool, ordinals)
                case ChangeUnits(units):
                    refused = await self._change(pool, units) or refused
                case RemoveUnits(units):
                    await self._remove(units)
                case MarkUsedUp(since):
                    mark = rfc3339(since) if since else None
                    await self.patch(pool, {"metadata": {"annotations": {USED_UP_AT: mark}}})
                case Retire():
                    await ensure_tombstone(self.tombstones, STOCK_POOLS.kind, pool)
                    await self.client.delete(STOCK_POOLS, pool.metadata.key, uid=pool.metadata.uid)
                    log.info("used-up pool removed")
                case LetGo():
                    await ensure_tombstone(self.tombstones, STOCK_POOLS.kind, pool)
                    others = [each for each in pool.metadata.finalizers if each != FINALIZER]
                    await self.patch(pool, {"metadata": {"finalizers": others}})
                case _:
                    assert_never(intent)
        return refused

    async def patch(
        self, pool: StockPool, patch: JsonObject, *, subresource: str = ""
    ) -> StockPool:
        """Patch the pool and return it; raise ConflictError if it has changed since."""
        written = await self.client.patch(
            STOCK_POOLS,
            pool.metadata.key,
            patch,
            resource_version=pool.metadata.resourceVersion,
            subresource=subresource,
        )
        self.pools.write_through(written)
        return written

    async def _adopt(self, pool: StockPool) -> None:
        metadata: JsonObject = {"finalizers": [*pool.metadata.finalizers, FINALIZER]}
        if ORIGIN not in pool.metadata.annotations:
            metadata["annotations"] = {ORIGIN: pool.metadata.uid}
        await self.patch(pool, {"metadata": metadata})

    async def _change(self, pool: StockPool, units: tuple[GPUUnit, ...]) -> str:
        """Give the units the pool's image and template; return why one was refused, or nothing.

        A unit that has changed meanwhile may have been claimed. It is left alone; raise
        ConflictError at the end, so that the retry counts it again.
        """
        refused, lost = "", None
        for unit in units:
            try:
                changed = await self.client.patch(
                    GPU_UNITS,
                    unit.metadata.key,
                    following(pool),
                    resource_version=unit.metadata.resourceVersion,
                )
            except ConflictError as error:
                lost = error
            except NotFoundError:
                continue
            except REFUSALS as error:
                refused = str(error)
            else:
                self.stock.write_through(changed)
        if lost is not None:
            raise lost
        log.info("stock follows its pool", count=len(units))
        return refused

    async def _remove(self, units: tuple[GPUUnit, ...]) -> None:
        """Delete the units; raise ConflictError at the end if one has changed meanwhile.

        A changed unit may have been claimed. It is left alone, and counted again by the retry.
        """
        stale: ConflictError | None = None
        for unit in units:
            try:
                await delete_stock(self.client, unit)
            except ConflictError as error:
                stale = error
        if stale is not None:
            raise stale


def following(pool: StockPool) -> JsonObject:
    """Return a merge patch that gives a unit the pool's image and template.

    A member that the pool does not have is removed; a merge patch would keep it otherwise.
    """
    absent = dict.fromkeys(each.name for each in attrs.fields(Template))
    template = {**absent, **codec.to_json(pool.spec.template)}
    return {"spec": {"image": pool.spec.image or None, "template": template}}
