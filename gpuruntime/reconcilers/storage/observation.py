"""The only reads of a storage's reconcile: the caches, then the few live reads of its stage."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from itertools import chain
from typing import Final

import attrs

from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.phases import StepPhase
from gpuruntime.models.kinds.storages import (
    GPUStorage,
    accessor_name,
    asks_to_recover,
    awaited,
    copy_cycle,
    source_in_use,
)
from gpuruntime.models.kinds.tombstones import Tombstone
from gpuruntime.models.kubernetes.cluster import EVENTS
from gpuruntime.models.kubernetes.metadata import Key, KubernetesObject
from gpuruntime.models.kubernetes.pods import PODS, Pod
from gpuruntime.models.kubernetes.volumes import VOLUME_CLAIMS, Job, VolumeClaim
from gpuruntime.models.kubernetes.workloads import Deployment
from gpuruntime.operations.tombstones import Tombstones
from gpuruntime.reconcilers.caches import STORAGE, Caches
from gpuruntime.reconcilers.children.keeper import REFUSALS
from gpuruntime.reconcilers.children.refusals import is_owned_by
from gpuruntime.reconcilers.storage.observed import Holding, Observed, Stage, stage_of
from gpuruntime.reconcilers.storage.prepare_plan import reads_pods_live, waits_of
from gpuruntime.reconcilers.storage.volume_plan import volume_verdict
from gpuruntime.reconcilers.unit.pod_failures import ENDED, current_pod, failure_of

# Kubernetes sets this label on the Pods of a Job.
JOB_NAME: Final = "batch.kubernetes.io/job-name"
# A Job controller creates the Pod at once. After this time, its creation was refused.
OVERDUE: Final = timedelta(seconds=10)


@attrs.frozen(kw_only=True, slots=True)
class StorageObserver:
    client: Client
    caches: Caches
    tombstones: Tombstones
    now: Callable[[], datetime]

    def cached(self, key: Key) -> GPUStorage | None:
        return self.caches.storages.store.get(key)

    async def observe(self, storage: GPUStorage, holding: Holding) -> Observed:
        seen = self._seen(storage, holding)
        match stage_of(seen):
            case Stage.ENDING:
                return await self._ending(seen)
            case Stage.NEW:
                return attrs.evolve(seen, tombstone=await self._tombstone(storage))
            case Stage.FILLING:
                return await self._filling(seen)
            case _:
                return seen

    def _seen(self, storage: GPUStorage, holding: Holding) -> Observed:
        caches, key = self.caches, storage.metadata.key
        claim = caches.claims.store.get(key)
        class_name = claim.spec.storageClassName if claim else ""
        source = storage.spec.prepare.fromStorageName if storage.spec.prepare else ""
        job = self._job(storage)
        server = Key(key.namespace, accessor_name(key.name))
        return Observed(
            storage=storage,
            holding=holding,
            circle=copy_cycle(key.name, awaited(storage), lambda name: self._stored(key, name)),
            claim=claim,
            storage_class=caches.classes.store.get(Key("", class_name)) if class_name else None,
            job=job,
            job_pods=self._pods_of(job) if job is not None else (),
            source=self._stored(key, source) if source else None,
            server=self._server(storage, server),
            server_pods=tuple(
                pod
                for pod in caches.helper_pods_of(key)
                if pod.metadata.name.startswith(f"{server.name}-")
            ),
            holder_pods=self._holder_pods(storage),
        )

    async def _ending(self, seen: Observed) -> Observed:
        """Read the claim live before it is deleted: the cache may not hold it yet."""
        storage = seen.storage
        if storage.status.holder is not None or self._is_in_use(storage):
            return attrs.evolve(seen, is_in_use=True)
        return attrs.evolve(seen, live_claim=await self._live_claim(storage))

    async def _filling(self, seen: Observed) -> Observed:
        storage, job = seen.storage, seen.job
        seen = attrs.evolve(seen, words=await self._pod_message(seen))
        volume = volume_verdict(storage, seen.claim, seen.storage_class)
        waits = waits_of(storage, volume, source=seen.source, left=())
        left = () if waits else await self._pods_left(storage, job)
        is_due = job is None and storage.status.prepare.phase == StepPhase.PENDING
        node = self._node_of(seen.source) if seen.source is not None and is_due else ""
        return attrs.evolve(seen, pods_left=left, source_node=node)

    async def _tombstone(self, storage: GPUStorage) -> Tombstone | None:
        """Read the tombstone live: the operation may have ended before this create landed."""
        operation = provenance.operation_of(storage)
        return await self.tombstones.find(operation) if operation else None

    async def _live_claim(self, storage: GPUStorage) -> VolumeClaim | None:
        try:
            return await self.client.get(VOLUME_CLAIMS, storage.metadata.key)
        except NotFoundError:
            return None

    async def _pods_left(self, storage: GPUStorage, job: Job | None) -> tuple[str, ...]:
        """Return the names of Pods on the volume; a Job that is gone may have left its Pod."""
        phase = storage.status.prepare.phase
        if phase not in ("", StepPhase.PENDING) and not asks_to_recover(storage):
            return ()
        left = _living(self.caches.helper_pods_of(storage.metadata.key))
        if left or not reads_pods_live(storage, job):
            return left
        selector = f"{labels.STORAGE}={storage.metadata.name}"
        return _living(await self._live_pods(storage, selector))

    async def _pod_message(self, seen: Observed) -> str:
        """Return why the Job's Pod does not run; read Pods live before a failure is recorded."""
        storage, job, pods = seen.storage, seen.job, seen.job_pods
        if job is None:
            return ""
        if not pods and job.is_running:
            return await self._refusal(job)
        # Once its Pod has ended, the Job ends a moment later, and one status reports both.
        failure = failure_of(
            pod for pod in pods if job.has_failed or pod.status.phase not in ENDED
        )
        is_unexplained = failure is None and job.has_failed
        if is_unexplained and not storage.status.prepare.has_ended:
            selector = f"{JOB_NAME}={job.metadata.name}"
            failure = failure_of(await self._live_pods(storage, selector))
        return failure.message if failure else ""

    async def _refusal(self, job: Job) -> str:
        """Return why a Job has no Pod yet; only an Event says what a quota or webhook refused."""
        started = job.status.startTime
        if started is None or self.now() - started < OVERDUE:
            return ""
        fields = f"involvedObject.uid={job.metadata.uid},reason=FailedCreate"
        try:
            page = await self.client.list_page(
                EVENTS, namespace=job.metadata.namespace, field_selector=fields
            )
        except REFUSALS:
            return ""
        told = sorted(
            (event.last_seen_at, event.message) for event in page.items if event.last_seen_at
        )
        return told[-1][1] if told else ""

    async def _live_pods(self, storage: GPUStorage, label_selector: str) -> tuple[Pod, ...]:
        page = await self.client.list_page(
            PODS, namespace=storage.metadata.namespace, label_selector=label_selector
        )
        return tuple(page.items)

    def _stored(self, key: Key, name: str) -> GPUStorage | None:
        return self.caches.storages.store.get(Key(key.namespace, name))

    def _job(self, storage: GPUStorage) -> Job | None:
        """Return the storage's own Job, or None; a Job of an earlier storage does not count."""
        name = storage.status.prepare.jobName
        job = self.caches.jobs.store.get(Key(storage.metadata.namespace, name)) if name else None
        return job if job is not None and is_owned_by(job, storage) else None

    def _pods_of(self, job: Job) -> tuple[Pod, ...]:
        helpers = self.caches.pods[job.metadata.namespace].store.by_index(
            STORAGE, job.metadata.labels.get(labels.STORAGE, "")
        )
        return tuple(pod for pod in helpers if is_owned_by(pod, job))

    def _server(self, storage: GPUStorage, key: Key) -> Deployment | None:
        live = self.caches.deployments[key.namespace].store.get(key)
        return live if live is not None and is_owned_by(live, storage) else None

    def _holder_pods(self, storage: GPUStorage) -> tuple[Pod, ...]:
        """Return the holder's Pods that mount the storage, also those that start or terminate."""
        holder = storage.status.holder
        if holder is None:
            return ()
        unit = Key(storage.metadata.namespace, holder.name)
        # A Pod of an older version has no uid.
        pods = chain.from_iterable(self.caches.pods_of(unit, uid=uid) for uid in (holder.uid, ""))
        return tuple(pod for pod in pods if _uses(pod, storage))

    def _all_pods(self, storage: GPUStorage) -> tuple[Pod, ...]:
        """Return all Pods that mount the storage, of units and of helpers.

        This scans every Pod of the namespace, so it is for steps that a storage needs once.
        """
        pods = self.caches.pods[storage.metadata.namespace].store.values()
        return tuple(pod for pod in pods if _uses(pod, storage))

    def _is_in_use(self, storage: GPUStorage) -> bool:
        """Return whether a Pod other than our own helpers mounts it, or a Job copies it."""
        name = storage.metadata.name
        pods = self._all_pods(storage)
        return any(pod.metadata.labels.get(labels.STORAGE) != name for pod in pods) or any(
            source_in_use(each) == name and self._is_filling(each)
            for each in self.caches.storages.store.values()
        )

    def _is_filling(self, storage: GPUStorage) -> bool:
        """Return whether the storage's Job is unfinished, with or without a Pod."""
        job = self._job(storage)
        return job is not None and not (job.has_succeeded or job.has_failed)

    def _node_of(self, source: GPUStorage) -> str:
        """Return the node on which a Pod mounts the source now; no other node could mount it."""
        pod = current_pod(self._holder_pods(source) or self._all_pods(source))
        return pod.spec.nodeName if pod else ""


def _uses(pod: Pod, storage: KubernetesObject) -> bool:
    return pod.mounts(storage.metadata.name) and pod.status.phase not in ENDED


def _living(pods: Iterable[Pod]) -> tuple[str, ...]:
    return tuple(sorted(pod.metadata.name for pod in pods if pod.status.phase not in ENDED))
