"""The only writes to a storage's children: a plan's writes in order, refusals as verdicts."""

from contextlib import suppress
from typing import Any, assert_never

import attrs
import structlog

from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import AlreadyExistsError, NotFoundError
from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds.reasons import StorageReason
from gpuruntime.models.kinds.storages import (
    FINALIZER,
    GPU_STORAGES,
    GPUStorage,
    accessor_name,
    prepare_policy_name,
)
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.network import NetworkPolicy, Service
from gpuruntime.models.kubernetes.volumes import JOBS, VOLUME_CLAIMS, Job, VolumeClaim
from gpuruntime.models.kubernetes.workloads import Deployment
from gpuruntime.operations.tombstones import Tombstones
from gpuruntime.reconcilers.caches import Caches
from gpuruntime.reconcilers.children.keeper import REFUSALS, ChildKeeper, ChildSyncError
from gpuruntime.reconcilers.storage.children import claim_marks, claim_of
from gpuruntime.reconcilers.storage.holders import StorageHolders
from gpuruntime.reconcilers.storage.intents import (
    AddFinalizer,
    CreateJob,
    GiveBack,
    Intent,
    LetGo,
    Outcome,
    Overtaken,
    ReleaseJob,
    RemoveLate,
    ServeFiles,
    StopServing,
    Written,
)
from gpuruntime.reconcilers.storage.observed import Observed
from gpuruntime.reconcilers.storage.prepare_plan import foreign_job
from gpuruntime.reconcilers.storage.status import accessor_verdict
from gpuruntime.reconcilers.storage.verdict import StorageVerdict
from gpuruntime.reconcilers.storage.volume_plan import (
    ClaimWrite,
    GrowClaim,
    MakeClaim,
    ShelterClaim,
    foreign_claim,
    volume_verdict,
)
from gpuruntime.reconcilers.storage.writes import StorageWrites
from gpuruntime.reconcilers.tombstones import ensure_tombstone

log = structlog.get_logger()


@attrs.frozen(kw_only=True, slots=True)
class StorageActor:
    client: Client
    caches: Caches
    writes: StorageWrites
    holders: StorageHolders
    tombstones: Tombstones
    deployments: ChildKeeper[Deployment]
    services: ChildKeeper[Service]
    # The NetworkPolicies of prepares and of file servers differ in the reason of a refusal.
    prepare_policies: ChildKeeper[NetworkPolicy]
    accessor_policies: ChildKeeper[NetworkPolicy]

    async def act(self, observed: Observed, intents: tuple[Intent, ...]) -> Outcome:
        """Carry out the intents in their order, until one changes what they were decided by."""
        storage, written = observed.storage, Written()
        for intent in intents:
            match intent:
                case GiveBack():
                    await self.holders.give_back(storage)
                    return Overtaken()
                case AddFinalizer():
                    finalizers = (*storage.metadata.finalizers, FINALIZER)
                    await self._write_finalizers(storage, finalizers)
                    return Overtaken()
                case MakeClaim() | ShelterClaim() | GrowClaim():
                    volume = await self._write_claim(intent, observed)
                    if volume is None:
                        return Overtaken()
                    written = attrs.evolve(written, volume=volume, is_refused=True)
                case CreateJob() | ReleaseJob():
                    prepare = await self._run(intent, storage)
                    is_refused = written.is_refused or prepare is not None
                    written = attrs.evolve(written, prepare=prepare, is_refused=is_refused)
                case ServeFiles():
                    written = await self._serve(intent, observed, written)
                case StopServing():
                    await self._stop_serving(storage)
                case LetGo(claim):
                    await self._let_go(storage, claim)
                case RemoveLate():
                    await self.writes.remove(storage)
                    log.info("storage of a finished operation removed")
                case _:
                    assert_never(intent)
        return written

    async def _write_claim(self, intent: ClaimWrite, observed: Observed) -> StorageVerdict | None:
        """Write the claim; return a verdict if that is refused, or another's is in its place."""
        storage = observed.storage
        try:
            claim = await self._written_claim(intent, storage)
        except REFUSALS as error:
            if isinstance(intent, GrowClaim):  # a claim that cannot grow still serves
                known = observed.storage_class
                return volume_verdict(storage, intent.claim, known, refusal=str(error))
            reason = StorageReason.VOLUME_SYNC_FAILED
            return StorageVerdict(reason=reason, message=str(error))
        taken = foreign_claim(storage, claim)
        if taken is None:
            self.caches.claims.write_through(claim)
        return taken

    async def _written_claim(self, intent: ClaimWrite, storage: GPUStorage) -> VolumeClaim:
        match intent:
            case MakeClaim():
                return await self._make_claim(storage)
            case ShelterClaim(claim):
                return await self._patch_claim(claim, {"metadata": _sheltered(claim, storage)})
            case GrowClaim(claim):
                requests: JsonObject = {"storage": storage.spec.size}
                grown = await self._patch_claim(
                    claim, {"spec": {"resources": {"requests": requests}}}
                )
                log.info("claim grown", size=storage.spec.size)
                return grown
            case _:
                assert_never(intent)

    async def _make_claim(self, storage: GPUStorage) -> VolumeClaim:
        """Create the claim, or return the one in its place, which may be another storage's."""
        body, namespace = claim_of(storage), storage.metadata.namespace
        try:
            return await self.client.create(VOLUME_CLAIMS, body, namespace=namespace)
        except AlreadyExistsError:
            return await self.client.get(VOLUME_CLAIMS, storage.metadata.key)

    async def _patch_claim(self, claim: VolumeClaim, patch: JsonObject) -> VolumeClaim:
        version = claim.metadata.resourceVersion
        key = claim.metadata.key
        return await self.client.patch(VOLUME_CLAIMS, key, patch, resource_version=version)

    async def _run(
        self, intent: CreateJob | ReleaseJob, storage: GPUStorage
    ) -> StorageVerdict | None:
        """Begin the run; return a verdict if that is refused, or another's Job is in its place."""
        try:
            if intent.policy is not None:
                key = Key(storage.metadata.namespace, prepare_policy_name(storage.metadata.name))
                await self.prepare_policies.keep(storage, key, intent.policy)
            job = await (
                self._create_job(storage, intent.body)
                if isinstance(intent, CreateJob)
                else self._release_job(intent.job)
            )
        except ChildSyncError as error:
            return StorageVerdict(reason=StorageReason(error.reason), message=str(error))
        except REFUSALS as error:
            reason = StorageReason.PREPARE_SYNC_FAILED
            return StorageVerdict(reason=reason, message=str(error))
        taken = foreign_job(storage, job)
        if taken is None:
            self.caches.jobs.write_through(job)
        return taken

    async def _create_job(self, storage: GPUStorage, body: JsonObject) -> Job:
        """Create the Job, or return the one in its place, which may be another storage's."""
        namespace = storage.metadata.namespace
        try:
            return await self.client.create(JOBS, body, namespace=namespace)
        except AlreadyExistsError:
            return await self.client.get(JOBS, Key(namespace, storage.status.prepare.jobName))

    async def _release_job(self, job: Job) -> Job:
        """Unsuspend this very Job, guarded by its version, once its run is recorded."""
        key, version = job.metadata.key, job.metadata.resourceVersion
        patch: JsonObject = {"spec": {"suspend": False}}
        started = await self.client.patch(JOBS, key, patch, resource_version=version)
        log.info("prepare started", job=started.metadata.name)
        return started

    async def _serve(self, intent: ServeFiles, observed: Observed, written: Written) -> Written:
        storage, key = observed.storage, _accessor_key(observed.storage)
        try:
            await self.accessor_policies.keep(storage, key, intent.policy)
            await self.services.keep(storage, key, intent.service)
            server = await self.deployments.keep(storage, key, intent.deployment)
        except ChildSyncError as error:
            refusal = StorageVerdict(reason=StorageReason.ACCESSOR_FAILED, message=str(error))
            return attrs.evolve(written, accessor=refusal, is_refused=True)
        verdict = accessor_verdict(storage, server, observed.server_pods, intent.placing)
        return attrs.evolve(written, accessor=verdict)

    async def _stop_serving(self, storage: GPUStorage) -> None:
        key = _accessor_key(storage)
        keepers: tuple[ChildKeeper[Any], ...] = (
            self.deployments,
            self.services,
            self.accessor_policies,
        )
        for keeper in keepers:
            await keeper.drop(storage, key)

    async def _let_go(self, storage: GPUStorage, claim: VolumeClaim | None) -> None:
        await ensure_tombstone(self.tombstones, GPU_STORAGES.kind, storage)
        with suppress(NotFoundError):
            if claim is not None:
                key, uid = claim.metadata.key, claim.metadata.uid
                await self.client.delete(VOLUME_CLAIMS, key, uid=uid)
                log.info("claim removed")
        others = tuple(each for each in storage.metadata.finalizers if each != FINALIZER)
        with suppress(NotFoundError):
            await self._write_finalizers(storage, others)
            log.info("storage let go")

    async def _write_finalizers(self, storage: GPUStorage, finalizers: tuple[str, ...]) -> None:
        await self.writes.patch(storage, {"metadata": {"finalizers": list(finalizers)}})


def _sheltered(claim: VolumeClaim, storage: GPUStorage) -> JsonObject:
    """Return the metadata of the claim without the storage among its owners."""
    owners = claim.metadata.ownerReferences
    others = [codec.to_json(each) for each in owners if each.uid != storage.metadata.uid]
    return {"annotations": claim_marks(storage), "ownerReferences": others}


def _accessor_key(storage: GPUStorage) -> Key:
    return Key(storage.metadata.namespace, accessor_name(storage.metadata.name))
