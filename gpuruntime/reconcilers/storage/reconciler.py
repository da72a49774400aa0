"""Reconciler of storages: the claim, the prepare, the holder and the file server.

The data on a volume is never put at risk. A prepare is recorded before it runs, and a claim that
once had a volume is never created again. A storage is given to no second unit while a Pod may
still write to it.
"""

import attrs

from gpuruntime.controller.controller import DONE, Result
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.reconcilers.options import UnitOptions
from gpuruntime.reconcilers.storage.act import StorageActor
from gpuruntime.reconcilers.storage.holders import StorageHolders
from gpuruntime.reconcilers.storage.observation import StorageObserver
from gpuruntime.reconcilers.storage.plan import decide
from gpuruntime.reconcilers.storage.report import StorageReporter


@attrs.frozen(kw_only=True, slots=True)
class StorageReconciler:
    observer: StorageObserver
    actor: StorageActor
    reporter: StorageReporter
    holders: StorageHolders
    options: UnitOptions

    async def reconcile(self, key: Key) -> Result:
        storage = self.observer.cached(key)
        if storage is None:
            return DONE
        async with self.holders.settled(storage) as holding:
            observed = await self.observer.observe(storage, holding)
            plan = decide(observed, self.options)
            outcome = await self.actor.act(observed, plan.intents)
            return await self.reporter.report(storage, plan, outcome)
