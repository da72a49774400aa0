"""Pods of deleted nodes: they fail and are deleted once their node has been gone for a while."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

import attrs

from gpuruntime.controller.controller import DONE, Controller, Result
from gpuruntime.embedded.controllers.informers import BY_NODE, Informers, write_status
from gpuruntime.embedded.kinds.cluster_objects import Node
from gpuruntime.embedded.kinds.pod_objects import PODS, Pod, PodStatus
from gpuruntime.embedded.scheduler.node_resources import DISRUPTION_TARGET
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.models.kubernetes.conditions import Condition, with_condition
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.workqueue.queue import WorkQueue

# If a node returns within this time, it keeps its Pods.
QUARANTINE_SECONDS: Final = 40.0


class LostNodes:
    def __init__(
        self, client: Client, informers: Informers, *, now: Callable[[], datetime]
    ) -> None:
        self._client = client
        self._informers = informers
        self._now = now
        # The keys are those of nodes.
        self._queue: WorkQueue[Key] = WorkQueue("lost nodes")
        self._controller = Controller("lost nodes", self._queue, self.reconcile, workers=1)
        informers.nodes.add_handler(self._on_node)
        informers.pods.add_handler(self._on_pod)

    async def run(self) -> None:
        await self._controller.run()

    async def reconcile(self, key: Key) -> Result:
        if key not in self._informers.nodes.store:
            for pod in list(self._informers.pods.store.by_index(BY_NODE, key)):
                await self._remove(pod)
        return DONE

    async def _remove(self, pod: Pod) -> None:
        metadata = pod.metadata
        try:
            if not pod.is_finished:
                status = self._failed(pod)
                await write_status(self._client, self._informers.pods, pod, pod.status, status)
            await self._client.delete(PODS, metadata.key, uid=metadata.uid, grace_seconds=0)
        except NotFoundError:
            return

    def _failed(self, pod: Pod) -> PodStatus:
        lost = Condition(
            type=DISRUPTION_TARGET,
            status="True",
            reason="DeletionByPodGC",
            message="PodGC: node no longer exists",
        )
        conditions = with_condition(pod.status.conditions, lost, now=self._now())
        return attrs.evolve(pod.status, phase="Failed", conditions=conditions)

    def _on_node(self, key: Key, _old: Node | None, new: Node | None) -> None:
        if new is None:
            self._queue.add_after(key, QUARANTINE_SECONDS)

    def _on_pod(self, _key: Key, _old: Pod | None, new: Pod | None) -> None:
        """Queue the Pod's node if it is missing; it may never have existed."""
        if new is not None and new.spec.nodeName:
            node = Key("", new.spec.nodeName)
            if node not in self._informers.nodes.store:
                self._queue.add_after(node, QUARANTINE_SECONDS)
