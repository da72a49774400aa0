"""The controller of Jobs: it carries out their plans, and deletes Jobs past their time to live."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from gpuruntime.controller.controller import DONE, Controller, Result
from gpuruntime.embedded.controllers.event_writer import EventWriter
from gpuruntime.embedded.controllers.informers import BY_JOB, Informers, amend, write_status
from gpuruntime.embedded.kinds.pod_objects import PODS, Pod
from gpuruntime.embedded.kinds.workload_objects import JOBS, Job, WorkloadCondition
from gpuruntime.embedded.workloads.children import pod_of
from gpuruntime.embedded.workloads.job_plan import (
    COMPLETE,
    FAILED,
    SUSPENDED,
    TRACKING_FINALIZER,
    Plan,
    decide,
    is_held,
    seconds_to_removal,
)
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.kube.events import EventRecorder, Note
from gpuruntime.models.encoding.codec import decode_object
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.workqueue.queue import WorkQueue

WORKERS: Final = 2
NOTED: Final = (COMPLETE, FAILED, SUSPENDED)


class Jobs:
    def __init__(
        self,
        client: Client,
        informers: Informers,
        recorder: EventRecorder,
        *,
        now: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._informers = informers
        self._events = EventWriter(recorder, JOBS)
        self._now = now
        self._queue: WorkQueue[Key] = WorkQueue("jobs")
        self._controller = Controller("jobs", self._queue, self.reconcile, workers=WORKERS)
        informers.jobs.add_handler(self._on_job)
        informers.pods.add_handler(self._on_pod)

    async def run(self) -> None:
        await self._controller.run()

    async def reconcile(self, key: Key) -> Result:
        job = self._informers.jobs.store.get(key)
        pods = list(self._informers.pods.store.by_index(BY_JOB, key))
        uid = job.metadata.uid if job else ""
        # If a Job is gone, its Pods need not be counted.
        for pod in pods:
            if pod.owner_uid != uid:
                await self._release(pod)
        if job is None:
            return DONE
        own = [pod for pod in pods if pod.owner_uid == uid]
        now = self._now()
        plan = decide(job, own, now=now)
        await self._report(job, plan)
        await self._act(job, plan)
        removal = seconds_to_removal(job, now=now)
        if removal == 0:
            await self._remove(job)
            return DONE
        return Result(plan.again_in_seconds if removal is None else removal)

    async def _report(self, job: Job, plan: Plan) -> None:
        was_written = await write_status(
            self._client, self._informers.jobs, job, job.status, plan.status
        )
        if was_written:
            for condition in plan.status.conditions:
                if condition not in job.status.conditions and condition.type in NOTED:
                    self._events.note(job, _note_of(condition))

    async def _act(self, job: Job, plan: Plan) -> None:
        for pod in plan.released:
            await self._release(pod)
        for pod in plan.removed:
            await self._client.delete(PODS, pod.metadata.key, uid=pod.metadata.uid)
            self._events.note(job, Note("SuccessfulDelete", f"Deleted pod: {pod.metadata.name}"))
        for _ in range(plan.missing):
            await self._create(job)

    async def _create(self, job: Job) -> None:
        labels = {
            f"{prefix}{name}": text
            for prefix in ("batch.kubernetes.io/", "")
            for name, text in (
                ("job-name", job.metadata.name),
                ("controller-uid", job.metadata.uid),
            )
        }
        body = pod_of(
            decode_object(bytes(job.spec.template)),
            job,
            JOBS,
            labels=labels,
            finalizers=(TRACKING_FINALIZER,),
        )
        created = await self._client.create(PODS, body, namespace=job.metadata.namespace)
        self._informers.pods.write_through(created)
        self._events.note(job, Note("SuccessfulCreate", f"Created pod: {created.metadata.name}"))

    async def _release(self, pod: Pod) -> None:
        """Remove the finalizer: the Pod was counted, or its Job is gone."""
        if not is_held(pod):
            return
        kept = [each for each in pod.metadata.finalizers if each != TRACKING_FINALIZER]
        patch: JsonObject = {"metadata": {"finalizers": kept}}
        try:
            await amend(self._client, self._informers.pods, pod, patch)
        except NotFoundError:
            return

    async def _remove(self, job: Job) -> None:
        metadata = job.metadata
        if metadata.deletionTimestamp is None:
            await self._client.delete(
                JOBS, metadata.key, uid=metadata.uid, propagation="Foreground"
            )

    def _on_job(self, key: Key, old: Job | None, new: Job | None) -> None:
        """Queue the Job; each step of counting is a status of its own and leads to the next."""
        if old != new:
            self._queue.add(key)

    def _on_pod(self, key: Key, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        owner = pod.metadata.controller_owner if pod else None
        if owner is not None and owner.kind == JOBS.kind:
            self._queue.add(Key(key.namespace, owner.name))


def _note_of(condition: WorkloadCondition) -> Note:
    """Return the note of a condition; success has a text of its own."""
    if condition.type == COMPLETE:
        return Note("Completed", "Job completed")
    if condition.type == FAILED:
        return Note(condition.reason, condition.message, is_warning=True)
    return Note("Suspended" if condition.is_true else "Resumed", condition.message)
