"""A storage made true: its claim, what fills it, who holds it, and its file server.

What is on a volume is never risked: a prepare is recorded before it runs, a claim that once had a
volume is never made again, and nothing is given to a second unit while a Pod may still write.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final

import attrs
import structlog

from gpuruntime.controller.result import DONE, Result
from gpuruntime.inventory.tombstones import Tombstones
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import AlreadyExistsError, NotFoundError
from gpuruntime.models import codec, provenance
from gpuruntime.models.json import JsonObject
from gpuruntime.models.metadata import Key, KubernetesObject
from gpuruntime.models.network import NetworkPolicy
from gpuruntime.models.phases import StoragePhase, storage_phase_of
from gpuruntime.models.reasons import StorageReason
from gpuruntime.models.storages import (
    FINALIZER,
    GPU_STORAGES,
    GPUStorage,
    prepare_policy_name,
)
from gpuruntime.models.strict import Problem
from gpuruntime.models.validation import storage_problems
from gpuruntime.models.volumes import JOBS, VOLUME_CLAIMS, Job, StorageClass, VolumeClaim
from gpuruntime.reconcilers.accessors import Accessors
from gpuruntime.reconcilers.caches import Caches
from gpuruntime.reconcilers.child_keeper import REFUSALS, ChildKeeper, ChildSyncError
from gpuruntime.reconcilers.deletions import bury
from gpuruntime.reconcilers.holds import Holds
from gpuruntime.reconcilers.options import UnitOptions
from gpuruntime.reconcilers.pod_failures import current_pod, failure_of
from gpuruntime.reconcilers.storage_children import claim_of, prepare_job, prepare_policy
from gpuruntime.reconcilers.storage_plan import (
    GrowClaim,
    KeepClaim,
    MakeClaim,
    PrepareStep,
    StorageVerdict,
    claim_move,
    prepare_step,
    volume_verdict,
)
from gpuruntime.reconcilers.storage_status import (
    ACCESSOR_OFF,
    ACCESSOR_WAITS,
    Findings,
    storage_status,
)

log = structlog.get_logger()

# How often what was refused, or is on its way out, is looked at beside its events.
LOOK_AGAIN_SECONDS: Final = 15.0


@attrs.frozen(kw_only=True, slots=True)
class StorageReconciler:
    client: Client
    caches: Caches
    options: UnitOptions
    holds: Holds
    accessors: Accessors
    policies: ChildKeeper[NetworkPolicy]
    tombstones: Tombstones
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
        if FINALIZER not in storage.metadata.finalizers:
            finalizers = (*storage.metadata.finalizers, FINALIZER)
            storage = await self._patch(storage, {"metadata": {"finalizers": list(finalizers)}})
        problems = (*storage_problems(storage), *self._circle(storage))
        if problems:
            await self._report(storage, self._spoilt(storage, problems))
            return again
        return await self._carry_out(storage) or again

    async def _carry_out(self, storage: GPUStorage) -> Result | None:
        try:
            claim = await self._keep_claim(storage)
            volume = volume_verdict(storage, claim, self._class_of(claim))
            step = self._step(storage, volume)
            if step.makes_job:
                await self._isolate(storage)
        except ChildSyncError as error:
            verdict = StorageVerdict(reason=StorageReason(error.reason), message=str(error))
            await self._report(storage, self._without_volume(storage, verdict))
            return Result(LOOK_AGAIN_SECONDS)
        is_ready = volume.is_true and step.verdict.is_true
        accessor, result = await self.accessors.keep(storage, is_ready=is_ready)
        found = Findings(volume=volume, prepare=step, accessor=accessor, claim=claim)
        storage = await self._report(storage, found)
        if step.makes_job:
            await self._make_job(storage)
        return result

    async def _keep_claim(self, storage: GPUStorage) -> VolumeClaim | None:
        key = storage.metadata.key
        claim = self.caches.claims.store.get(key)
        if claim is not None:
            self._demand_ours(claim, storage, "PersistentVolumeClaim")
        match claim_move(storage, claim, self._class_of(claim)):
            case KeepClaim():
                return claim
            case MakeClaim():
                return await self._make_claim(storage)
            case GrowClaim():
                return await self._grow_claim(storage, claim)

    async def _make_claim(self, storage: GPUStorage) -> VolumeClaim:
        try:
            made = await self.client.create(
                VOLUME_CLAIMS, claim_of(storage), namespace=storage.metadata.namespace
            )
        except AlreadyExistsError:
            found = await self.client.get(VOLUME_CLAIMS, storage.metadata.key)
            self._demand_ours(found, storage, "PersistentVolumeClaim")
            made = found
        except REFUSALS as error:
            raise ChildSyncError(StorageReason.VOLUME_SYNC_FAILED, str(error)) from error
        self.caches.claims.write_through(made)
        return made

    async def _grow_claim(self, storage: GPUStorage, claim: VolumeClaim | None) -> VolumeClaim:
        requests: JsonObject = {"storage": storage.spec.size}
        patch: JsonObject = {"spec": {"resources": {"requests": requests}}}
        version = claim.metadata.resourceVersion if claim else ""
        try:
            grown = await self.client.patch(
                VOLUME_CLAIMS, storage.metadata.key, patch, resource_version=version
            )
        except REFUSALS as error:
            raise ChildSyncError(StorageReason.VOLUME_SYNC_FAILED, str(error)) from error
        self.caches.claims.write_through(grown)
        log.info("claim grown", size=storage.spec.size)
        return grown

    def _step(self, storage: GPUStorage, volume: StorageVerdict) -> PrepareStep:
        record = storage.status.prepare
        job = self._job(storage)
        pods = self.caches.helper_pods_of(storage.metadata.key)
        failure = failure_of([pod for pod in pods if _is_of_job(pod, record.jobName)])
        waits = "" if volume.is_true else volume.message
        return prepare_step(
            storage,
            job,
            source_ready=waits or self._source_fault(storage),
            words=failure.message if failure else "",
        )

    def _job(self, storage: GPUStorage) -> Job | None:
        name = storage.status.prepare.jobName
        return self.caches.jobs.store.get(Key(storage.metadata.namespace, name)) if name else None

    async def _isolate(self, storage: GPUStorage) -> None:
        """Before anything runs that somebody asked to fill the volume with."""
        if storage.spec.prepare is not None:
            desired = prepare_policy(storage, storage.spec.prepare, self.options)
            key = Key(storage.metadata.namespace, prepare_policy_name(storage.metadata.name))
            await self.policies.keep(storage, key, desired)

    async def _make_job(self, storage: GPUStorage) -> None:
        prepare = storage.spec.prepare
        if prepare is None:
            return
        node = self._node_of(Key(storage.metadata.namespace, prepare.fromStorageName))
        body = prepare_job(storage, prepare, self.options, node)
        try:
            made = await self.client.create(JOBS, body, namespace=storage.metadata.namespace)
        except AlreadyExistsError:
            return  # by an earlier try, or the term before: its event tells the rest
        self.caches.jobs.write_through(made)
        log.info("prepare started", job=made.metadata.name)

    def _source_fault(self, storage: GPUStorage) -> str:
        name = storage.spec.prepare.fromStorageName if storage.spec.prepare else ""
        if not name:
            return ""
        source = self.caches.storages.store.get(Key(storage.metadata.namespace, name))
        if source is None or provenance.is_terminating(source):
            return f"storage {name} to copy from does not exist"
        if storage_phase_of(source.status.conditions) is not StoragePhase.READY:
            return f"storage {name} to copy from is not ready"
        return ""

    def _circle(self, storage: GPUStorage) -> tuple[Problem, ...]:
        """Storages that wait for each other would wait for ever."""
        seen, prepare = [storage.metadata.name], storage.spec.prepare
        while prepare is not None and prepare.fromStorageName:
            if prepare.fromStorageName in seen:
                message = f"closes a circle of copies: {', '.join(seen)}"
                return (Problem(field="spec.prepare.fromStorageName", message=message),)
            seen.append(prepare.fromStorageName)
            key = Key(storage.metadata.namespace, prepare.fromStorageName)
            source = self.caches.storages.store.get(key)
            prepare = source.spec.prepare if source else None
        return ()

    def _node_of(self, storage: Key) -> str:
        """Where a unit's Pod has the volume now; another node could not mount it."""
        held = self.caches.storages.store.get(storage)
        pod = current_pod(self.holds.pods_on(held)) if held else None
        return pod.spec.nodeName if pod else ""

    def _class_of(self, claim: VolumeClaim | None) -> StorageClass | None:
        name = claim.spec.storageClassName if claim else ""
        return self.caches.classes.store.get(Key("", name)) if name else None

    def _while_held(self, storage: GPUStorage) -> Result:
        """A holder that wants no more is looked at again: its Pods' end may have been missed."""
        return DONE if self.holds.is_wanted(storage) else Result(LOOK_AGAIN_SECONDS)

    async def _end(self, storage: GPUStorage) -> Result:
        """What a unit mounts stays until its Pod is gone."""
        if FINALIZER not in storage.metadata.finalizers:
            return DONE
        if storage.status.holder is not None or self.holds.pods_on(storage):
            return Result(LOOK_AGAIN_SECONDS)
        await bury(self.tombstones, GPU_STORAGES.kind, storage)
        others = [each for each in storage.metadata.finalizers if each != FINALIZER]
        try:
            await self._patch(storage, {"metadata": {"finalizers": list(others)}})
        except NotFoundError:
            return DONE
        log.info("storage let go")
        return DONE

    async def _report(self, storage: GPUStorage, found: Findings) -> GPUStorage:
        status = storage_status(storage, found, self.options, now=self.now())
        if status == storage.status:
            return storage
        return await self._patch(storage, {"status": codec.to_json(status)}, subresource="status")

    def _spoilt(self, storage: GPUStorage, problems: tuple[Problem, ...]) -> Findings:
        message = "; ".join(f"{each.field}: {each.message}" for each in problems)
        verdict = StorageVerdict(reason=StorageReason.INVALID_SPEC, message=message)
        return self._without_volume(storage, verdict)

    def _without_volume(self, storage: GPUStorage, verdict: StorageVerdict) -> Findings:
        waiting = StorageVerdict(
            reason=StorageReason.PREPARE_PROGRESSING, message="waits for the volume"
        )
        is_asked = storage.spec.accessor.enabled
        return Findings(
            volume=verdict,
            prepare=PrepareStep(status=storage.status.prepare, verdict=waiting),
            accessor=ACCESSOR_WAITS if is_asked else ACCESSOR_OFF,
            claim=None,
        )

    async def _patch(
        self, storage: GPUStorage, patch: JsonObject, *, subresource: str = ""
    ) -> GPUStorage:
        written = await self.client.patch(
            GPU_STORAGES,
            storage.metadata.key,
            patch,
            resource_version=storage.metadata.resourceVersion,
            subresource=subresource,
        )
        self.caches.storages.write_through(written)
        return written

    @staticmethod
    def _demand_ours(child: KubernetesObject, storage: GPUStorage, kind: str) -> None:
        owner = child.metadata.controller_owner
        if owner is None or owner.uid != storage.metadata.uid:
            whose = f"belongs to {owner.kind} {owner.name}" if owner else "has no owner"
            raise ChildSyncError(
                StorageReason.VOLUME_SYNC_FAILED,
                f"{kind} {child.metadata.key} {whose}: it is left as it is; "
                "delete or rename it to let the storage have its own",
            )


def _is_of_job(pod: KubernetesObject, job: str) -> bool:
    owner = pod.metadata.controller_owner
    return owner is not None and owner.name == job
