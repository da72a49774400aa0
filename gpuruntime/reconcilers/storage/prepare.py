"""Prepare Jobs, which fill a storage once: recorded first, then isolated, then run."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

import attrs
import structlog

from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import AlreadyExistsError
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.phases import StepPhase, StoragePhase, storage_phase_of
from gpuruntime.models.kinds.reasons import StorageReason
from gpuruntime.models.kinds.storages import (
    GPUStorage,
    Prepare,
    asks_to_recover,
    awaited,
    copy_cycle,
    prepare_policy_name,
    source_in_use,
)
from gpuruntime.models.kubernetes.cluster import EVENTS
from gpuruntime.models.kubernetes.metadata import Key, KubernetesObject
from gpuruntime.models.kubernetes.network import NetworkPolicy
from gpuruntime.models.kubernetes.pods import PODS, Pod
from gpuruntime.models.kubernetes.volumes import JOBS, Job
from gpuruntime.reconcilers.caches import STORAGE, Caches
from gpuruntime.reconcilers.children.keeper import (
    REFUSALS,
    ChildKeeper,
    ChildSyncError,
)
from gpuruntime.reconcilers.children.refusals import is_owned_by
from gpuruntime.reconcilers.options import UnitOptions
from gpuruntime.reconcilers.storage.children import demand_ours, prepare_job, prepare_policy
from gpuruntime.reconcilers.storage.holders import StorageHolders
from gpuruntime.reconcilers.storage.plan import (
    WAITS_FOR_VOLUME,
    PrepareStep,
    StorageVerdict,
    prepare_step,
    source_missing,
    waits_for_holder,
    waits_for_pod,
    wrong_source,
)
from gpuruntime.reconcilers.unit.pod_failures import ENDED, current_pod, failure_of
from gpuruntime.strict.structure import Problem

log = structlog.get_logger()

# Kubernetes sets this label on the Pods of a Job.
JOB_NAME: Final = "batch.kubernetes.io/job-name"
# A Job controller creates the Pod at once. After this time, its creation was refused.
OVERDUE: Final = timedelta(seconds=10)


@attrs.frozen(kw_only=True, slots=True)
class PrepareJobs:
    client: Client
    caches: Caches
    options: UnitOptions
    holds: StorageHolders
    policies: ChildKeeper[NetworkPolicy]
    now: Callable[[], datetime]

    async def step(self, storage: GPUStorage, volume: StorageVerdict) -> PrepareStep:
        """Decide the next step. If its run is already recorded, begin it, as often as needed."""
        job = self._job(storage)
        words = await self._pod_message(storage, job)
        waits = self._waits(storage, volume) or await self._waits_for_pod(storage)
        step = prepare_step(storage, job, waits=waits, words=words)
        if job is not None and job.is_running and not self._pods_of(job):
            # No event reports a Pod that was not created, so the reconciler checks again.
            step = attrs.evolve(step, verdict=attrs.evolve(step.verdict, is_refused=True))
        if step.makes_job and step.status == storage.status.prepare:
            return await self.begin(storage, step)
        return step

    async def begin(self, storage: GPUStorage, step: PrepareStep) -> PrepareStep:
        """Begin a recorded run, and return the step with a verdict if the cluster refused it."""
        try:
            await self._isolate(storage)
            await self._make_job(storage)
        except ChildSyncError as error:
            verdict = StorageVerdict(
                reason=StorageReason(error.reason), message=str(error), is_refused=True
            )
            return attrs.evolve(step, verdict=verdict, makes_job=False)
        return attrs.evolve(step, makes_job=False)

    def circle(self, storage: GPUStorage) -> tuple[Problem, ...]:
        """Return a problem if the storage closes a cycle of copies, which would wait for ever."""
        name, namespace = storage.metadata.name, storage.metadata.namespace
        stored = self.caches.storages.store
        chain = copy_cycle(
            name, awaited(storage), lambda source: stored.get(Key(namespace, source))
        )
        if not chain:
            return ()
        message = (
            f"closes a circle of copies: {', '.join(chain[:-1])}; "
            "delete one of them, and make it from something else"
        )
        return (Problem(field="spec.prepare.fromStorageName", message=message),)

    def is_copied(self, source: GPUStorage) -> bool:
        """Return whether an unfinished Job copies from the storage, with or without a Pod."""
        for each in self.caches.storages.store.values():
            job = self._job(each) if source_in_use(each) == source.metadata.name else None
            if job is not None and not (job.has_succeeded or job.has_failed):
                return True
        return False

    async def _isolate(self, storage: GPUStorage) -> None:
        """Keep the NetworkPolicy; it must exist before the user's container runs."""
        if storage.spec.prepare is not None:
            desired = prepare_policy(storage, storage.spec.prepare, self.options)
            key = Key(storage.metadata.namespace, prepare_policy_name(storage.metadata.name))
            await self.policies.keep(storage, key, desired)

    async def _make_job(self, storage: GPUStorage) -> None:
        prepare, job = storage.spec.prepare, self._job(storage)
        if job is not None and job.spec.suspend:
            await self._unsuspend(storage, job)
        elif job is None and prepare is not None:
            await self._create_job(storage, prepare)

    async def _create_job(self, storage: GPUStorage, prepare: Prepare) -> None:
        namespace = storage.metadata.namespace
        node = self._node_of(Key(namespace, prepare.fromStorageName))
        body = prepare_job(storage, prepare, self.options, node)
        try:
            made = await self.client.create(JOBS, body, namespace=namespace)
        except AlreadyExistsError:
            made = await self.client.get(JOBS, Key(namespace, storage.status.prepare.jobName))
            self._demand_ours(made, storage)
        except REFUSALS as error:
            raise ChildSyncError(StorageReason.PREPARE_SYNC_FAILED, str(error)) from error
        self.caches.jobs.write_through(made)

    async def _unsuspend(self, storage: GPUStorage, job: Job) -> None:
        """Unsuspend this very Job, guarded by its version, once its run is recorded."""
        if storage.status.prepare.phase != StepPhase.RUNNING:
            return
        key, version = job.metadata.key, job.metadata.resourceVersion
        patch: JsonObject = {"spec": {"suspend": False}}
        try:
            started = await self.client.patch(JOBS, key, patch, resource_version=version)
        except REFUSALS as error:
            raise ChildSyncError(StorageReason.PREPARE_SYNC_FAILED, str(error)) from error
        self.caches.jobs.write_through(started)
        log.info("prepare started", job=started.metadata.name)

    def _job(self, storage: GPUStorage) -> Job | None:
        """Return the storage's own Job, or None; a Job of an earlier storage does not count."""
        name = storage.status.prepare.jobName
        job = self.caches.jobs.store.get(Key(storage.metadata.namespace, name)) if name else None
        return job if job is not None and is_owned_by(job, storage) else None

    async def _pod_message(self, storage: GPUStorage, job: Job | None) -> str:
        """Return why the Job's Pod does not run; read Pods live before recording a failure."""
        if job is None:
            return ""
        pods = self._pods_of(job)
        if not pods and job.is_running:
            return await self._refusal(job)
        # Once its Pod has ended, the Job ends a moment later, and one status reports both.
        failure = failure_of(
            pod for pod in pods if job.has_failed or pod.status.phase not in ENDED
        )
        is_unexplained = failure is None and job.has_failed
        if is_unexplained and not storage.status.prepare.has_ended:
            failure = failure_of(await self._live_pods(f"{JOB_NAME}={job.metadata.name}"))
        return failure.message if failure else ""

    def _pods_of(self, job: Job) -> list[Pod]:
        helpers = self.caches.pods[job.metadata.namespace].store.by_index(
            STORAGE, job.metadata.labels.get(labels.STORAGE, "")
        )
        return [pod for pod in helpers if _is_of(pod, job)]

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

    async def _live_pods(self, label_selector: str) -> tuple[Pod, ...]:
        namespace = self.options.instance_namespace
        page = await self.client.list_page(
            PODS, namespace=namespace, label_selector=label_selector
        )
        return tuple(page.items)

    async def _waits_for_pod(self, storage: GPUStorage) -> StorageVerdict | None:
        """Return a verdict if a Pod is on the volume: a prepare must be the only one.

        A Job that is gone may have left its Pod. Once a run is recorded, Pods are read live,
        because a cache that lags must not let two Pods write at once.
        """
        record = storage.status.prepare
        if record.phase not in ("", StepPhase.PENDING) and not asks_to_recover(storage):
            return None
        left = _living(self.caches.helper_pods_of(storage.metadata.key))
        if not left and record.phase:
            left = _living(await self._live_pods(f"{labels.STORAGE}={storage.metadata.name}"))
        return waits_for_pod(left[0]) if left else None

    def _waits(self, storage: GPUStorage, volume: StorageVerdict) -> StorageVerdict | None:
        if not volume.is_true:
            return WAITS_FOR_VOLUME
        holder = storage.status.holder
        if holder is not None:
            return waits_for_holder(holder)
        name = storage.spec.prepare.fromStorageName if storage.spec.prepare else ""
        if not name:
            return None
        source = self.caches.storages.store.get(Key(storage.metadata.namespace, name))
        wrong = wrong_source(storage, name, source)
        if wrong is not None or source is None:
            return wrong
        if storage_phase_of(source.status.conditions) is not StoragePhase.READY:
            return source_missing(f"storage {name} to copy from is not ready")
        return None

    def _node_of(self, source: Key) -> str:
        """Return the node on which a Pod mounts the source now; no other node could mount it."""
        storage = self.caches.storages.store.get(source)
        if storage is None:
            return ""
        pods = self.holds.holders_pods(storage) or self.holds.pods_on(storage)
        pod = current_pod(pods)
        return pod.spec.nodeName if pod else ""

    @staticmethod
    def _demand_ours(job: Job, storage: GPUStorage) -> None:
        demand_ours(
            JOBS,
            job,
            storage,
            refused=StorageReason.PREPARE_SYNC_FAILED,
            waits=StorageReason.PREPARE_PROGRESSING,
        )


def _living(pods: Iterable[Pod]) -> list[str]:
    return sorted(pod.metadata.name for pod in pods if pod.status.phase not in ENDED)


def _is_of(pod: KubernetesObject, job: Job) -> bool:
    owner = pod.metadata.controller_owner
    return owner is not None and owner.uid == job.metadata.uid
