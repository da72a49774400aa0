"""The scheduler's writes to Pods and claims: bindings, refusals, nominations and evictions."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

import attrs

from gpuruntime.embedded.controllers.event_writer import EventWriter
from gpuruntime.embedded.controllers.informers import Informers, amend, write_status
from gpuruntime.embedded.controllers.volume_claim_plan import SELECTED_NODE
from gpuruntime.embedded.kinds.cluster_objects import Claim
from gpuruntime.embedded.kinds.pod_objects import PODS, Pod
from gpuruntime.embedded.objects.bindings import binding, bindings_of
from gpuruntime.embedded.scheduler.node_resources import DISRUPTION_TARGET, PREEMPTED
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import ConflictError, NotFoundError
from gpuruntime.kube.events import EventRecorder, Note
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kubernetes.conditions import Condition, with_condition

SCHEDULED: Final = "PodScheduled"
MAKES_ROOM: Final = "default-scheduler: preempting to accommodate a higher priority pod"
ATTEMPTS: Final = 5


class SchedulerWrites:
    """The scheduler's writes; each goes to the current Pod, as the caller's may be older."""

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
        self._events = EventWriter(recorder, PODS)
        self._now = now

    async def bind(self, pod: Pod, node: str) -> None:
        metadata = pod.metadata
        body = binding(metadata.key, metadata.uid, node)
        bindings = bindings_of(metadata.name)
        await self._client.create(bindings, body, namespace=metadata.namespace)
        words = f"Successfully assigned {metadata.key} to {node}"
        self._events.note(pod, Note("Scheduled", words))

    async def choose_node(self, claim: Claim, node: str) -> None:
        patch: JsonObject = {"metadata": {"annotations": {SELECTED_NODE: node}}}
        await amend(self._client, self._informers.claims, claim, patch)

    async def refuse(
        self, pod: Pod, words: str, *, nominated: str, is_error: bool = False
    ) -> None:
        """Record why the Pod was not placed; `nominated` is the node it waits for, or empty."""
        refused = Condition(
            type=SCHEDULED,
            status="False",
            reason="SchedulerError" if is_error else "Unschedulable",
            message=words,
            observedGeneration=pod.metadata.generation,
        )
        await self._condition(pod, refused, nominated=nominated)
        self._events.note(pod, Note("FailedScheduling", words, is_warning=True))

    async def end_nomination(self, pod: Pod) -> None:
        status = attrs.evolve(pod.status, nominatedNodeName="")
        await write_status(self._client, self._informers.pods, pod, pod.status, status)

    async def evict(self, victim: Pod, *, by: Pod, node: str) -> None:
        disrupted = Condition(
            type=DISRUPTION_TARGET,
            status="True",
            reason=PREEMPTED,
            message=MAKES_ROOM,
            observedGeneration=victim.metadata.generation,
        )
        try:
            await self._condition(victim, disrupted, nominated=victim.status.nominatedNodeName)
            await self._client.delete(PODS, victim.metadata.key, uid=victim.metadata.uid)
        except NotFoundError:
            return
        words = f"Preempted by pod {by.metadata.uid} on node {node}"
        self._events.note(victim, Note("Preempted", words))

    async def _condition(self, pod: Pod, condition: Condition, *, nominated: str) -> None:
        """Set a condition; after a conflict, retry on the live Pod."""
        for attempt in range(ATTEMPTS):
            present = self._present(pod) if not attempt else await self._live(pod)
            conditions = with_condition(present.status.conditions, condition, now=self._now())
            status = attrs.evolve(
                present.status, conditions=conditions, nominatedNodeName=nominated
            )
            try:
                await write_status(
                    self._client, self._informers.pods, present, present.status, status
                )
            except ConflictError:
                if attempt == ATTEMPTS - 1:
                    raise
            else:
                return

    def _present(self, pod: Pod) -> Pod:
        held = self._informers.pods.store.get(pod.metadata.key)
        return held if held is not None and held.metadata.uid == pod.metadata.uid else pod

    async def _live(self, pod: Pod) -> Pod:
        found = await self._client.get(PODS, pod.metadata.key)
        if found.metadata.uid != pod.metadata.uid:
            raise NotFoundError(f"pod {pod.metadata.key} was replaced by another of its name", 404)
        return found
