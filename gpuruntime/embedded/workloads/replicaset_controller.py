"""The controller of ReplicaSets: it keeps the number of Pods and reports the status."""

from collections.abc import Callable
from datetime import datetime

from gpuruntime.controller.controller import DONE, Controller, Result
from gpuruntime.embedded.controllers.event_writer import EventWriter
from gpuruntime.embedded.controllers.informers import Informers, write_status
from gpuruntime.embedded.kinds.pod_objects import PODS, Pod
from gpuruntime.embedded.kinds.workload_objects import REPLICA_SETS, ReplicaSet
from gpuruntime.embedded.workloads.children import BY_OWNER, pod_of
from gpuruntime.embedded.workloads.replicaset_plan import decide, replica_set_status
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import ApiError, NotFoundError
from gpuruntime.kube.events import EventRecorder, Note
from gpuruntime.models.encoding.codec import decode_object
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.workqueue.queue import WorkQueue

WORKERS = 4


class ReplicaSets:
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
        self._events = EventWriter(recorder, REPLICA_SETS)
        self._now = now
        # Pods whose deletion was requested but that the informer does not show as terminating yet.
        self._deleted: set[str] = set()
        self._queue: WorkQueue[Key] = WorkQueue("replicasets")
        self._controller = Controller("replicasets", self._queue, self.reconcile, workers=WORKERS)
        informers.replica_sets.add_handler(self._on_replica_set)
        informers.pods.add_handler(self._on_pod)

    async def run(self) -> None:
        await self._controller.run()

    async def reconcile(self, key: Key) -> Result:
        replica_set = self._informers.replica_sets.store.get(key)
        if replica_set is None:
            return DONE
        failure = None
        if replica_set.metadata.deletionTimestamp is None:
            failure = await self._adjust(replica_set)
        await self._report(replica_set, str(failure) if failure else "")
        if failure is not None:
            raise failure
        least = replica_set.spec.minReadySeconds
        return Result(float(least)) if least and self._is_waiting(key) else DONE

    async def _adjust(self, replica_set: ReplicaSet) -> ApiError | None:
        """Create and delete Pods; return the error that prevented it, which the status reports."""
        plan = decide(replica_set, self._pods(replica_set))
        for pod in plan.surplus:
            await self._remove(replica_set, pod)
        try:
            for _ in range(plan.missing):
                await self._create(replica_set)
        except ApiError as error:
            note = Note("FailedCreate", f"Error creating: {error}", is_warning=True)
            self._events.note(replica_set, note)
            return error
        return None

    async def _create(self, replica_set: ReplicaSet) -> None:
        template = decode_object(bytes(replica_set.spec.template))
        body = pod_of(template, replica_set, REPLICA_SETS)
        created = await self._client.create(PODS, body, namespace=replica_set.metadata.namespace)
        self._informers.pods.write_through(created)
        note = Note("SuccessfulCreate", f"Created pod: {created.metadata.name}")
        self._events.note(replica_set, note)

    async def _remove(self, replica_set: ReplicaSet, pod: Pod) -> None:
        self._deleted.add(pod.metadata.uid)
        try:
            await self._client.delete(PODS, pod.metadata.key, uid=pod.metadata.uid)
        except NotFoundError:
            return
        except ApiError:
            self._deleted.discard(pod.metadata.uid)
            raise
        note = Note("SuccessfulDelete", f"Deleted pod: {pod.metadata.name}")
        self._events.note(replica_set, note)

    async def _report(self, replica_set: ReplicaSet, failure: str) -> None:
        """Write the status of the current version; a newer version brings its own event."""
        current = self._informers.replica_sets.store.get(replica_set.metadata.key)
        if current is None or current.metadata.uid != replica_set.metadata.uid:
            return
        status = replica_set_status(current, self._pods(current), failure=failure, now=self._now())
        await write_status(
            self._client, self._informers.replica_sets, current, current.status, status
        )

    def _is_waiting(self, key: Key) -> bool:
        current = self._informers.replica_sets.store.get(key)
        return (
            current is not None and current.status.availableReplicas < current.status.readyReplicas
        )

    def _pods(self, replica_set: ReplicaSet) -> list[Pod]:
        pods = self._informers.pods.store.by_index(BY_OWNER, replica_set.metadata.uid)
        return [pod for pod in pods if pod.metadata.uid not in self._deleted]

    def _on_replica_set(self, key: Key, old: ReplicaSet | None, new: ReplicaSet | None) -> None:
        """Queue the ReplicaSet if its generation changed: its own status is no news."""
        if old is None or new is None or old.metadata.generation != new.metadata.generation:
            self._queue.add(key)

    def _on_pod(self, key: Key, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is None:
            return
        if new is None or new.is_ending:
            self._deleted.discard(pod.metadata.uid)
        owner = pod.metadata.controller_owner
        if owner is not None and owner.kind == REPLICA_SETS.kind:
            self._queue.add(Key(key.namespace, owner.name))
