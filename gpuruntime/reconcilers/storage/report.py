"""The only writes of a storage's status."""

from collections.abc import Callable
from datetime import datetime

import attrs

from gpuruntime.controller.controller import Result
from gpuruntime.kube.events import EventRecorder, record_note
from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds.storages import GPU_STORAGES, GPUStorage
from gpuruntime.reconcilers.events import storage_notes
from gpuruntime.reconcilers.options import UnitOptions
from gpuruntime.reconcilers.storage.intents import Outcome, Overtaken, Plan
from gpuruntime.reconcilers.storage.plan import AT_ONCE, LOOK_AGAIN_SECONDS, findings_after
from gpuruntime.reconcilers.storage.status import status_of
from gpuruntime.reconcilers.storage.writes import StorageWrites


@attrs.frozen(kw_only=True, slots=True)
class StorageReporter:
    writes: StorageWrites
    options: UnitOptions
    recorder: EventRecorder
    now: Callable[[], datetime]

    async def report(self, storage: GPUStorage, plan: Plan, outcome: Outcome) -> Result:
        """Write the status if it differs, with its Events, and return when to look again."""
        if isinstance(outcome, Overtaken):
            return Result(AT_ONCE)
        found = findings_after(plan, outcome)
        status = status_of(storage, found, self.options, now=self.now())
        if status != storage.status:
            patch: JsonObject = {"status": codec.to_json(status)}
            await self.writes.patch(storage, patch, subresource="status")
            for note in storage_notes(storage, status):
                record_note(self.recorder, GPU_STORAGES, storage, note)
        refused = LOOK_AGAIN_SECONDS if outcome.is_refused else None
        return Result.earliest(plan.again_seconds, refused)
