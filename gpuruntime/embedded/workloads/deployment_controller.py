"""The controller of Deployments: it carries out the rollout that the plan decides."""

from collections.abc import Callable
from datetime import datetime

import attrs

from gpuruntime.controller.controller import DONE, Controller, Result
from gpuruntime.embedded.controllers.event_writer import EventWriter
from gpuruntime.embedded.controllers.informers import Informers, amend
from gpuruntime.embedded.controllers.object_patches import patch_between, wire
from gpuruntime.embedded.kinds.pod_objects import Pod
from gpuruntime.embedded.kinds.workload_objects import (
    DEPLOYMENTS,
    REPLICA_SETS,
    Deployment,
    DeploymentStatus,
    ReplicaSet,
)
from gpuruntime.embedded.workloads.children import BY_OWNER
from gpuruntime.embedded.workloads.deployment_plan import (
    REVISION,
    Amendment,
    Observed,
    Plan,
    decide,
)
from gpuruntime.embedded.workloads.deployment_status import deployment_status, seconds_to_deadline
from gpuruntime.kube.client import Client
from gpuruntime.kube.events import EventRecorder, Note
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.workqueue.queue import WorkQueue

WORKERS = 4


class Deployments:
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
        self._events = EventWriter(recorder, DEPLOYMENTS)
        self._now = now
        self._queue: WorkQueue[Key] = WorkQueue("deployments")
        self._controller = Controller("deployments", self._queue, self.reconcile, workers=WORKERS)
        informers.deployments.add_handler(self._on_deployment)
        informers.replica_sets.add_handler(self._on_replica_set)
        informers.pods.add_handler(self._on_pod)

    async def run(self) -> None:
        await self._controller.run()

    async def reconcile(self, key: Key) -> Result:
        deployment = self._informers.deployments.store.get(key)
        if deployment is None:
            return DONE
        observed = self._observe(deployment)
        is_ending = deployment.metadata.deletionTimestamp is not None
        plan = Plan() if is_ending else decide(observed)
        created = await self._act(deployment, plan)
        now = self._now()
        status = deployment_status(observed, now=now, created=created)
        await self._report(observed, status)
        reported = attrs.evolve(observed, deployment=attrs.evolve(deployment, status=status))
        return Result(seconds_to_deadline(reported, now=now))

    def _observe(self, deployment: Deployment) -> Observed:
        """Observe the Deployment; Pods are counted only for Recreate, which awaits their end."""
        sets = self._informers.replica_sets.store.by_index(BY_OWNER, deployment.metadata.uid)
        is_recreate = deployment.spec.strategy.type == "Recreate"
        return Observed(
            deployment=deployment,
            replica_sets=tuple(sorted(sets, key=_age)),
            live_pods={each.metadata.uid: self._live_pods(each) for each in sets}
            if is_recreate
            else {},
        )

    def _live_pods(self, replica_set: ReplicaSet) -> int:
        pods = self._informers.pods.store.by_index(BY_OWNER, replica_set.metadata.uid)
        return sum(not pod.is_finished for pod in pods)

    async def _act(self, deployment: Deployment, plan: Plan) -> str:
        """Carry out the plan; return the name of the created ReplicaSet, or an empty text."""
        for amendment in plan.amendments:
            await self._amend(deployment, amendment)
        for replica_set in plan.removals:
            metadata = replica_set.metadata
            await self._client.delete(REPLICA_SETS, metadata.key, uid=metadata.uid)
        return await self._create(deployment, plan.creation) if plan.creation else ""

    async def _create(self, deployment: Deployment, body: JsonObject) -> str:
        namespace = deployment.metadata.namespace
        created = await self._client.create(REPLICA_SETS, body, namespace=namespace)
        self._informers.replica_sets.write_through(created)
        if created.spec.replicas:
            self._note_scaling(deployment, created.metadata.name, 0, created.spec.replicas)
        return created.metadata.name

    async def _amend(self, deployment: Deployment, amendment: Amendment) -> None:
        replica_set, size = amendment.replica_set, amendment.replicas
        patch: JsonObject = {}
        if amendment.is_scaling:
            patch["spec"] = {"replicas": size}
        if amendment.annotations:
            patch["metadata"] = {"annotations": dict(amendment.annotations)}
        await amend(self._client, self._informers.replica_sets, replica_set, patch)
        if amendment.is_scaling:
            name, before = replica_set.metadata.name, replica_set.spec.replicas
            self._note_scaling(deployment, name, before, size)

    def _note_scaling(self, deployment: Deployment, name: str, before: int, after: int) -> None:
        direction = "up" if after > before else "down"
        message = f"Scaled {direction} replica set {name} from {before} to {after}"
        self._events.note(deployment, Note("ScalingReplicaSet", message))

    async def _report(self, observed: Observed, status: DeploymentStatus) -> None:
        """Write status and revision in one patch: a separate annotation raises the generation."""
        deployment, new = observed.deployment, observed.new
        if status == deployment.status:
            return
        patch: JsonObject = {"status": patch_between(wire(deployment.status), wire(status))}
        revision = new.metadata.annotations.get(REVISION) if new else None
        if revision:
            patch["metadata"] = {"annotations": {REVISION: revision}}
        await amend(
            self._client, self._informers.deployments, deployment, patch, subresource="status"
        )

    def _on_deployment(self, key: Key, old: Deployment | None, new: Deployment | None) -> None:
        """Queue the Deployment if its generation changed: its own status is no news."""
        if old is None or new is None or old.metadata.generation != new.metadata.generation:
            self._queue.add(key)

    def _on_replica_set(self, key: Key, old: ReplicaSet | None, new: ReplicaSet | None) -> None:
        replica_set = new or old
        owner = replica_set.metadata.controller_owner if replica_set else None
        if owner is not None and owner.kind == DEPLOYMENTS.kind:
            self._queue.add(Key(key.namespace, owner.name))

    def _on_pod(self, key: Key, old: Pod | None, new: Pod | None) -> None:
        """Queue the Deployment of an ended Pod, because Recreate waits for the last old Pod."""
        owner = old.metadata.controller_owner if old else None
        if owner is None or not (new is None or new.is_finished):
            return
        found = self._informers.replica_sets.store.get(Key(key.namespace, owner.name))
        if found is not None:
            self._on_replica_set(found.metadata.key, found, found)


def _age(replica_set: ReplicaSet) -> tuple[float, str]:
    created_at = replica_set.metadata.creationTimestamp
    return created_at.timestamp() if created_at else 0.0, replica_set.metadata.name
