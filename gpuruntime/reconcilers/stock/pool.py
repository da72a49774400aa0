"""Reconciler of pools: observe, decide, act, report."""

from collections.abc import Callable
from datetime import datetime

import attrs

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.controller.controller import DONE, Result
from gpuruntime.kube.events import EventRecorder, record_note
from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds.pools import STOCK_POOLS
from gpuruntime.models.kinds.reasons import PoolReason
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.reconcilers.events import pool_note
from gpuruntime.reconcilers.stock.pool_act import PoolActor
from gpuruntime.reconcilers.stock.pool_observation import PoolObserver
from gpuruntime.reconcilers.stock.pool_pass_plan import (
    Observed,
    Plan,
    PoolOptions,
    again_after_report,
    decide,
    status_of,
)
from gpuruntime.reconcilers.stock.pool_status import PoolVerdict


@attrs.frozen(kw_only=True, slots=True)
class PoolReconciler:
    observer: PoolObserver
    actor: PoolActor
    options: PoolOptions
    recorder: EventRecorder
    now: Callable[[], datetime]

    async def reconcile(self, key: Key) -> Result:
        pool = self.observer.cached(key)
        if pool is None:
            self.observer.forget(key)
            return DONE
        observed = self.observer.observe(pool)
        plan = decide(observed, self.options, now=self.now())
        refused = await self.actor.act(pool, plan.intents)
        return await self._report(observed, plan, refused)

    async def _report(self, observed: Observed, plan: Plan, refused: str) -> Result:
        """Write the status if it differs and is due."""
        if not plan.reports:
            return Result(plan.again_seconds)
        pool = observed.pool
        if plan.intents:  # count the units that were just created
            observed = self.observer.observe(pool)
        refusal = plan.refusal
        if refused:
            refusal = PoolVerdict(reason=PoolReason.STOCK_SYNC_FAILED, message=refused)
        status = status_of(observed, refusal, now=self.now())
        waits = observed.unreported_seconds if status != pool.status else None
        if status != pool.status and not waits:
            patch: JsonObject = {"status": codec.to_json(status)}
            began_at = loop_time()
            written = await self.actor.patch(pool, patch, subresource="status")
            self.observer.reported[pool.metadata.key] = began_at
            unsettled = self.observer.unsettled_seconds(pool)
            observed = attrs.evolve(observed, pool=written, unsettled_seconds=unsettled)
            if (note := pool_note(pool, status)) is not None:
                record_note(self.recorder, STOCK_POOLS, pool, note)
        if plan.refusal is not None:
            return Result(waits or plan.again_seconds)
        again = again_after_report(
            observed, self.options, is_refused=bool(refused), now=self.now()
        )
        return Result.earliest(waits or None, again)
