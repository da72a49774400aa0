"""Reconciler of stock units: it keeps a unit's envelope and resolves a claim on it."""

import attrs

from gpuruntime.controller.controller import DONE, Result
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.reconcilers.stock.act import StockActor
from gpuruntime.reconcilers.stock.observation import StockObserver
from gpuruntime.reconcilers.stock.plan import decide


@attrs.frozen(kw_only=True, slots=True)
class StockReconciler:
    observer: StockObserver
    actor: StockActor

    async def reconcile(self, key: Key) -> Result:
        """Keep the unit, which also reports its status, or end its claim or its life."""
        stock = self.observer.cached(key)
        if stock is None:
            self.observer.forget(key)
            return DONE
        plan = decide(await self.observer.observe(stock))
        kept = await self.actor.act(stock, plan.intents)
        return Result.earliest(plan.again_seconds, kept.requeue_after_seconds)
