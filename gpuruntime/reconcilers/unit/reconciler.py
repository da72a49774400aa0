"""Reconciler of units: observe, decide, act, report."""

import attrs

from gpuruntime.controller.controller import DONE, Result
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.reconcilers.options import UnitOptions
from gpuruntime.reconcilers.unit.act import UnitActor
from gpuruntime.reconcilers.unit.observation import UnitObserver
from gpuruntime.reconcilers.unit.plan import decide
from gpuruntime.reconcilers.unit.report import UnitReporter
from gpuruntime.reconcilers.unit.start_locks import StartLocks


@attrs.frozen(kw_only=True, slots=True)
class UnitReconciler:
    """UnitReconciler reconciles active units, and keeps stock units for their own reconciler."""

    observer: UnitObserver
    actor: UnitActor
    reporter: UnitReporter
    starts: StartLocks
    options: UnitOptions

    async def reconcile(self, key: Key) -> Result:
        """Keep the unit under its start lock, so that no rival is judged in between."""
        unit = self.observer.cached(key)
        if unit is None:
            self.actor.secrets.forget(key)
            return DONE
        async with self.starts.turn(unit):
            return await self.keep(key)

    async def keep(self, key: Key) -> Result:
        """Keep the unit without a lock; stock has no rivals."""
        observed = await self.observer.observe(key)
        if observed is None:
            return DONE
        plan = decide(observed, self.options)
        outcome = await self.actor.act(observed, plan.intents)
        return await self.reporter.report(observed, plan, outcome)
