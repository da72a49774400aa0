"""Reconciler of storages: the claim, the prepare, the holder and the file server.

The data on a volume is never put at risk. A prepare is recorded before it runs, and a claim that
once had a volume is never created again. A storage is given to no second unit while a Pod may
still write to it.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final

import attrs
import structlog

from gpuruntime.controller.controller import DONE, Result
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.kube.events import EventRecorder, record_note
from gpuruntime.models.encoding import codec
from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.reasons import StorageReason
from gpuruntime.models.kinds.storages import FINALIZER, GPU_STORAGES, GPUStorage, GPUStorageStatus
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.operations.tombstones import Tombstones
from gpuruntime.reconcilers.caches import Caches
from gpuruntime.reconcilers.children.keeper import ChildSyncError
from gpuruntime.reconcilers.events import storage_notes
from gpuruntime.reconcilers.options import UnitOptions
from gpuruntime.reconcilers.storage.file_server import FileServers
from gpuruntime.reconcilers.storage.holders import StorageHolders
from gpuruntime.reconcilers.storage.plan import StorageVerdict, ending_verdict, resting_step
from gpuruntime.reconcilers.storage.prepare import PrepareJobs
from gpuruntime.reconcilers.storage.status import Findings, ending_status, storage_status
from gpuruntime.reconcilers.storage.volume_claim import VolumeClaims
from gpuruntime.reconcilers.storage.writes import StorageWrites
from gpuruntime.reconcilers.tombstones import ensure_tombstone
from gpuruntime.strict.structure import Problem
from gpuruntime.strict.validation import storage_problems

log = structlog.get_logger()

# A storage that was refused, or is being deleted, is checked this often, beside its events.
LOOK_AGAIN_SECONDS: Final = 15.0


@attrs.frozen(kw_only=True, slots=True)
class StorageReconciler:
    caches: Caches
    options: UnitOptions
    writes: StorageWrites
    holds: StorageHolders
    claims: VolumeClaims
    prepares: PrepareJobs
    accessors: FileServers
    tombstones: Tombstones
    recorder: EventRecorder
    now: Callable[[], datetime]

    async def reconcile(self, key: Key) -> Result:
        storage = self.caches.storages.store.get(key)
        if storage is None:
            return DONE
        freed = await self.holds.give_back(storage)
        storage = freed or storage
        again = DONE if freed else self._while_held(storage)
        if provenance.is_terminating(storage):
            return await self._end(storage)
        if await self._remove_if_late(storage):
            return DONE
        if FINALIZER not in storage.metadata.finalizers:
            finalizers = (*storage.metadata.finalizers, FINALIZER)
            storage = await self.writes.patch(
                storage, {"metadata": {"finalizers": list(finalizers)}}
            )
        problems = (*storage_problems(storage), *self.prepares.circle(storage))
        if problems:
            return await self._report_invalid_spec(storage, problems) or again
        return await self._carry_out(storage) or again

    async def _remove_if_late(self, storage: GPUStorage) -> bool:
        """Delete a storage whose create landed after it was deleted; return whether it was one."""
        operation = provenance.operation_of(storage)
        if FINALIZER in storage.metadata.finalizers or not operation:
            return False
        tombstone = await self.tombstones.find(operation)
        if tombstone is None or not tombstone.forbids(storage):
            return False
        await self.writes.remove(storage)
        log.info("storage of a finished operation removed")
        return True

    async def _carry_out(self, storage: GPUStorage) -> Result | None:
        try:
            claim, volume = await self.claims.keep(storage)
        except ChildSyncError as error:
            verdict = StorageVerdict(reason=StorageReason(error.reason), message=str(error))
            # A claim of this name that is not the storage's own is never served.
            await self._report_without_volume(storage, verdict, serves=False)
            return Result(LOOK_AGAIN_SECONDS)
        step = await self.prepares.step(storage, volume)
        # While a volume ends, a file server is a way to save its data.
        has_volume = volume.is_true or volume.reason is StorageReason.VOLUME_ENDING
        is_ready = has_volume and step.verdict.is_true
        accessor, result = await self.accessors.keep(storage, is_ready=is_ready)
        found = Findings(volume=volume, prepare=step, accessor=accessor, claim=claim)
        storage = await self._report(storage, found)
        if step.makes_job:
            step = await self.prepares.begin(storage, step)
            await self._report(storage, attrs.evolve(found, prepare=step))
        is_refused = volume.is_refused or step.verdict.is_refused
        return Result(LOOK_AGAIN_SECONDS) if is_refused else result

    def _while_held(self, storage: GPUStorage) -> Result:
        """Check an unwanted holder again later: the event of its Pods' end may be missed."""
        return DONE if self.holds.is_wanted(storage) else Result(LOOK_AGAIN_SECONDS)

    async def _end(self, storage: GPUStorage) -> Result:
        """Delete the claim once no unit mounts the volume and no copy reads it."""
        if FINALIZER not in storage.metadata.finalizers:
            return DONE
        is_read = self.prepares.is_copied(storage)
        if storage.status.holder is not None or self.holds.others_pods(storage) or is_read:
            await self.claims.shelter(storage)
            await self._report_deletion(storage)
            return Result(LOOK_AGAIN_SECONDS)
        await ensure_tombstone(self.tombstones, GPU_STORAGES.kind, storage)
        # This must come before the finalizer is removed: no other controller deletes the claim.
        await self.claims.remove(storage)
        others = [each for each in storage.metadata.finalizers if each != FINALIZER]
        try:
            await self.writes.patch(storage, {"metadata": {"finalizers": list(others)}})
        except NotFoundError:
            return DONE
        log.info("storage let go")
        return DONE

    async def _report_deletion(self, storage: GPUStorage) -> None:
        status = ending_status(storage, ending_verdict(storage), now=self.now())
        await self._write_status(storage, status)

    async def _report(self, storage: GPUStorage, found: Findings) -> GPUStorage:
        status = storage_status(storage, found, self.options, now=self.now())
        return await self._write_status(storage, status)

    async def _write_status(self, storage: GPUStorage, status: GPUStorageStatus) -> GPUStorage:
        if status == storage.status:
            return storage
        written = await self.writes.patch(
            storage, {"status": codec.to_json(status)}, subresource="status"
        )
        for note in storage_notes(storage, status):
            record_note(self.recorder, GPU_STORAGES, storage, note)
        return written

    async def _report_invalid_spec(
        self, storage: GPUStorage, problems: tuple[Problem, ...]
    ) -> Result | None:
        """Report an invalid spec. Begin no step until it is corrected, but keep serving files."""
        message = "; ".join(f"{each.field}: {each.message}" for each in problems)
        verdict = StorageVerdict(reason=StorageReason.INVALID_SPEC, message=message)
        serves = self.accessors.is_there(storage) and self.claims.is_there(storage)
        result = await self._report_without_volume(storage, verdict, serves=serves)
        await self.claims.shelter(storage)
        return result

    async def _report_without_volume(
        self, storage: GPUStorage, verdict: StorageVerdict, *, serves: bool
    ) -> Result | None:
        accessor, result = await self.accessors.keep(storage, is_ready=serves)
        found = Findings(
            volume=verdict, prepare=resting_step(storage), accessor=accessor, claim=None
        )
        await self._report(storage, found)
        return result
