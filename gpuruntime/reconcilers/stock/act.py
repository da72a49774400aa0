"""The writes of a stock unit's plan; the unit's reconciler keeps its children and status."""

from typing import assert_never

import attrs
import structlog

from gpuruntime.controller.controller import DONE, Result
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.kube.events import EventRecorder, Note, record_note
from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.claim_timing import GRACE_SECONDS
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit
from gpuruntime.operations.lookup.caches import Cache
from gpuruntime.reconcilers.stock.plan import Delete, Free, Intent, Keep
from gpuruntime.reconcilers.unit.reconciler import UnitReconciler

log = structlog.get_logger()


@attrs.frozen(kw_only=True, slots=True)
class StockActor:
    client: Client
    stock: Cache[GPUUnit]
    units: UnitReconciler
    recorder: EventRecorder

    async def act(self, stock: GPUUnit, intents: tuple[Intent, ...]) -> Result:
        """Carry out the intents; return when the unit itself has to be looked at again."""
        kept = DONE
        for intent in intents:
            match intent:
                case Keep():
                    kept = await self.units.keep(stock.metadata.key)
                case Delete(why):
                    await delete_stock(self.client, stock)
                    log.info("stock removed", why=why)
                case Free():
                    await self._free(stock)
                case _:
                    assert_never(intent)
        return kept

    async def _free(self, stock: GPUUnit) -> None:
        freed = await self.client.patch(
            GPU_UNITS,
            stock.metadata.key,
            provenance.no_claim_marks(),
            resource_version=stock.metadata.resourceVersion,
        )
        self.stock.write_through(freed)
        claimant = provenance.claimant_of(stock) or "nobody"
        log.info("claim freed after its grace", claimant=str(claimant))
        grace = f"{GRACE_SECONDS:.0f} s"
        text = f"no unit came of the claim for {claimant} in {grace}: free again"
        record_note(self.recorder, GPU_UNITS, stock, Note("ClaimFreed", text, is_warning=True))


async def delete_stock(client: Client, stock: GPUUnit) -> None:
    """Delete the stock, guarded by uid and version, so that a claim that wins keeps its unit."""
    try:
        await client.delete(
            GPU_UNITS,
            stock.metadata.key,
            uid=stock.metadata.uid,
            resource_version=stock.metadata.resourceVersion,
        )
    except NotFoundError:
        return
