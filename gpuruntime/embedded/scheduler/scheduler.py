"""The scheduler: it assigns each waiting Pod to a node as soon as one fits, important Pods first.

One task decides about one Pod at a time. Each decision counts at once, before its events arrive.
The task only wakes for changes that may make room.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from datetime import datetime
from random import Random
from typing import Final, assert_never

import structlog

from gpuruntime.embedded.controllers.informers import BY_CLAIM, BY_DEVICE_CLAIM, Informers
from gpuruntime.embedded.devices.inventory import ClaimView, DeviceInventory
from gpuruntime.embedded.devices.pod_claims import claims_of
from gpuruntime.embedded.kinds.cluster_objects import Claim, Node, StorageClass
from gpuruntime.embedded.kinds.pod_objects import Pod
from gpuruntime.embedded.scheduler.assignments import Assignments
from gpuruntime.embedded.scheduler.device_writes import DeviceWrites
from gpuruntime.embedded.scheduler.node_fit import matches_terms
from gpuruntime.embedded.scheduler.node_resources import Assignment, Needs, NodeFacts
from gpuruntime.embedded.scheduler.placement import (
    Decision,
    Place,
    Preemption,
    Refused,
    is_bound,
    place,
    unbound_claims,
)
from gpuruntime.embedded.scheduler.pod_writes import SchedulerWrites
from gpuruntime.embedded.scheduler.queue import PodGroup, SchedulingQueue
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import KubeError
from gpuruntime.kube.events import EventRecorder
from gpuruntime.models.kubernetes.devices import DeviceClass, ResourceClaim, ResourceSlice
from gpuruntime.models.kubernetes.metadata import Key

NAME: Final = "default-scheduler"
RETRY_SECONDS: Final = 1.0

log = structlog.get_logger()


class Scheduler:
    def __init__(
        self,
        client: Client,
        informers: Informers,
        recorder: EventRecorder,
        *,
        now: Callable[[], datetime],
        rng: Random,
    ) -> None:
        self._informers = informers
        self._writes = SchedulerWrites(client, informers, recorder, now=now)
        self._devices = DeviceInventory(informers)
        self._device_writes = DeviceWrites(client, informers, self._devices)
        self._rng = rng
        self._assignments = Assignments()
        self._queue = SchedulingQueue()
        self._needs: dict[str, tuple[object, Needs]] = {}
        # Placed Pods whose claims are not bound yet.
        self._awaiting_claims: dict[str, tuple[Pod, str]] = {}
        self._to_bind: deque[tuple[Pod, str]] = deque()
        self._wake = asyncio.Event()
        informers.nodes.add_handler(self._on_node)
        informers.pods.add_handler(self._on_pod)
        informers.claims.add_handler(self._on_claim)
        informers.storage_classes.add_handler(self._on_storage_class)
        informers.device_claims.add_handler(self._on_device_claim)
        informers.device_classes.add_handler(self._on_devices)
        informers.device_slices.add_handler(self._on_devices)

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            # Handle all pending events before the first decision.
            await asyncio.sleep(0)
            await self._bind_all()
            while (group := self._queue.next()) is not None:
                await self._serve(group)
                await self._bind_all()

    async def _serve(self, group: PodGroup) -> None:
        """Decide about the group's Pod that has waited longest."""
        uid, pod = next(iter(group.pods.items()))
        decision = self._decide(uid, group)
        try:
            await self._carry_out(pod, group, decision)
        except KubeError as error:
            self._retry_later(pod, error)

    def _decide(self, uid: str, group: PodGroup) -> Decision:
        claims = unbound_claims(
            group.needs.claims,
            self._informers.claims.store.get,
            lambda name: self._informers.storage_classes.store.get(Key("", name)),
        )
        devices = self._device_view(group.needs) if group.needs.device_claims else None
        return place(uid, group.needs, self._assignments, claims, self._rng, devices)

    def _device_view(self, needs: Needs) -> ClaimView:
        claims = tuple(filter(None, map(self._devices.claim, needs.device_claims)))
        nodes = self._assignments.nodes
        return self._devices.view(
            claims, lambda terms, node: matches_terms(terms, nodes[node].facts)
        )

    async def _carry_out(self, pod: Pod, group: PodGroup, decision: Decision) -> None:
        match decision:
            case Place():
                await self._place(pod, group, decision)
            case Preemption():
                await self._preempt(pod, group, decision)
            case Refused():
                await self._refuse(group, decision)
            case _:
                assert_never(decision)

    async def _place(self, pod: Pod, group: PodGroup, decision: Place) -> None:
        uid = pod.metadata.uid
        self._queue.remove(uid)
        self._queue.activate(group)
        self._assignments.assign(Assignment.of(pod, group.needs), decision.node)
        for device_claim, allocation in decision.devices:
            self._devices.reserve(device_claim, allocation, uid)
        if not decision.claims:
            self._to_bind.append((pod, decision.node))
            return
        self._awaiting_claims[uid] = pod, decision.node
        for claim in decision.claims:
            await self._writes.choose_node(claim, decision.node)

    async def _preempt(self, pod: Pod, group: PodGroup, decision: Preemption) -> None:
        if decision.take_back is not None:
            await self._device_writes.take_back(decision.take_back)
        node, victims = decision.eviction.node, decision.eviction.victims
        lesser = self._assignments.lesser_nominations(node, group.needs.priority)
        self._assignments.nominate(Assignment.of(pod, group.needs), node)
        self._queue.put(pod, group.needs, node, is_ready=False)
        self._queue.activate(group)
        for assignment in lesser:
            await self._end_nomination(assignment)
        await self._writes.refuse(pod, decision.words, nominated=node)
        for assignment in victims:
            victim = self._informers.pods.store.get(assignment.key)
            if (
                victim is not None
                and victim.metadata.uid == assignment.uid
                and not victim.is_ending
            ):
                await self._writes.evict(victim, by=pod, node=node)

    async def _refuse(self, group: PodGroup, decision: Refused) -> None:
        """Record the refusal for all Pods of the group, which share it."""
        nominated = group.nominated if decision.keeps_nomination else ""
        for pod in group.report(decision.words):
            if not nominated and self._assignments.end_nomination(pod.metadata.uid):
                self._queue.put(pod, group.needs, "", is_ready=False)
            await self._writes.refuse(
                pod, decision.words, nominated=nominated, is_error=decision.is_error
            )
        if decision.take_back is not None:
            await self._device_writes.take_back(decision.take_back)

    async def _end_nomination(self, assignment: Assignment) -> None:
        self._assignments.end_nomination(assignment.uid)
        pod = self._informers.pods.store.get(assignment.key)
        if pod is not None and pod.metadata.uid == assignment.uid:
            await self._writes.end_nomination(pod)

    async def _bind_all(self) -> None:
        while self._to_bind:
            pod, node = self._to_bind.popleft()
            claims = self._needs_of(pod).device_claims
            try:
                for key in claims:
                    await self._device_writes.bind(key, pod)
                await self._writes.bind(pod, node)
            except KubeError as error:
                await self._device_writes.undo(claims, pod)
                self._retry_later(pod, error)

    def _retry_later(self, pod: Pod, error: KubeError) -> None:
        """Undo the decision and retry later, unless the Pod is gone by then."""
        key, uid = pod.metadata.key, pod.metadata.uid
        log.info("pod not scheduled yet", pod=str(key), error=str(error))
        self._awaiting_claims.pop(uid, None)
        self._release(uid)
        asyncio.get_running_loop().call_later(RETRY_SECONDS, self._requeue, key)

    def _requeue(self, key: Key) -> None:
        pod = self._informers.pods.store.get(key)
        if pod is not None:
            self._on_pod(key, None, pod)
            self._activate_all()

    def _on_node(self, key: Key, _old: Node | None, new: Node | None) -> None:
        if new is None:
            self._assignments.remove_node(key.name)
        elif self._assignments.put_node(NodeFacts.of(new)):
            self._activate_all()

    def _on_claim(self, key: Key, old: Claim | None, new: Claim | None) -> None:
        """Bind Pods with a chosen node as soon as their claims are bound."""
        if new is None or (old is not None and is_bound(new) == is_bound(old)):
            return
        for pod in self._informers.pods.store.by_index(BY_CLAIM, key):
            if pod.metadata.uid in self._awaiting_claims and self._has_its_claims(pod):
                self._to_bind.append(self._awaiting_claims.pop(pod.metadata.uid))
        self._activate_all()

    def _on_storage_class(
        self, _key: Key, _old: StorageClass | None, new: StorageClass | None
    ) -> None:
        if new is not None:
            self._activate_all()

    def _on_device_claim(
        self, key: Key, old: ResourceClaim | None, new: ResourceClaim | None
    ) -> None:
        """Look again at the claim's Pods, and at all Pods if a device became free."""
        is_freed = self._devices.update(old, new)
        for pod in self._informers.pods.store.by_index(BY_DEVICE_CLAIM, key):
            self._on_pod(pod.metadata.key, None, pod)
            self._queue.activate_pod(pod.metadata.uid)
        self._wake.set()
        if is_freed:
            self._activate_all()

    def _on_devices(
        self,
        _key: Key,
        _old: DeviceClass | ResourceSlice | None,
        new: DeviceClass | ResourceSlice | None,
    ) -> None:
        if new is not None:
            self._activate_all()

    def _on_pod(self, _key: Key, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._remove(old)
        if new is None:
            return
        if new.spec.nodeName:
            self._count(new)
        elif _is_ours(new):
            self._enqueue(new)
        else:
            self._remove(new)

    def _remove(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self._queue.remove(uid)
        _, needs = self._needs.pop(uid, (None, None))
        for key in needs.device_claims if needs else ():
            self._devices.release(key, uid)
        self._awaiting_claims.pop(uid, None)
        self._release(uid)

    def _count(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self._queue.remove(uid)
        if pod.is_finished:
            self._release(uid)
        else:
            self._assignments.assign(Assignment.of(pod, self._needs_of(pod)), pod.spec.nodeName)

    def _enqueue(self, pod: Pod) -> None:
        """Queue the Pod, unless it was just placed and only its event is pending."""
        uid = pod.metadata.uid
        if self._assignments.is_assigned(uid):
            return
        if not self._has_device_claims(pod):
            # Such a Pod is held back before the queue, without a condition and without an Event.
            self._queue.remove(uid)
            return
        if self._queue.put(pod, self._needs_of(pod), self._assignments.nominated_node(uid)):
            self._wake.set()

    def _release(self, uid: str) -> None:
        """Remove assignment and nomination; if there was one, others may have room."""
        if self._assignments.end_nomination(uid) | self._assignments.unassign(uid):
            self._activate_all()

    def _activate_all(self) -> None:
        self._queue.activate_all()
        self._wake.set()

    def _needs_of(self, pod: Pod) -> Needs:
        """Return the Pod's needs, computed once per generation and set of generated claims."""
        metadata = pod.metadata
        known = self._needs.get(metadata.uid)
        state = metadata.generation, pod.status.resourceClaimStatuses
        if known is None or known[0] != state:
            known = self._needs[metadata.uid] = state, Needs.of(pod)
        return known[1]

    def _has_device_claims(self, pod: Pod) -> bool:
        named = claims_of(pod)
        return named is not None and all(
            each.serves(pod, self._devices.claim(each.key)) for each in named
        )

    def _has_its_claims(self, pod: Pod) -> bool:
        claims = map(self._informers.claims.store.get, self._needs_of(pod).claims)
        return all(claim is not None and is_bound(claim) for claim in claims)


def _is_ours(pod: Pod) -> bool:
    if pod.is_ending or pod.is_finished or pod.spec.schedulingGates:
        return False
    return pod.spec.schedulerName in ("", NAME)
