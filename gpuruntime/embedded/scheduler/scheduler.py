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

from gpuruntime.embedded.controllers.informers import BY_CLAIM, Informers
from gpuruntime.embedded.kinds.cluster_objects import Claim, Node, StorageClass
from gpuruntime.embedded.kinds.pod_objects import Pod
from gpuruntime.embedded.scheduler.assignments import Assignments
from gpuruntime.embedded.scheduler.node_resources import Needs, NodeFacts, Seat
from gpuruntime.embedded.scheduler.placement import (
    Decision,
    Forced,
    Place,
    Refused,
    is_bound,
    place,
    unbound_claims,
)
from gpuruntime.embedded.scheduler.pod_writes import SchedulerWrites
from gpuruntime.embedded.scheduler.queue import Lane, SchedulingQueue
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import KubeError
from gpuruntime.kube.events import EventRecorder
from gpuruntime.models.kubernetes.metadata import Key

NAME: Final = "default-scheduler"
RETRY_SECONDS: Final = 1.0

log = structlog.get_logger()


class Scheduler:
    def __init__(
        self,
        client: Client,
        mirrors: Informers,
        recorder: EventRecorder,
        *,
        now: Callable[[], datetime],
        rng: Random,
    ) -> None:
        self._mirrors = mirrors
        self._writes = SchedulerWrites(client, mirrors, recorder, now=now)
        self._rng = rng
        self._seating = Assignments()
        self._lanes = SchedulingQueue()
        self._needs: dict[str, tuple[int, Needs]] = {}
        # Placed Pods whose claims are not bound yet.
        self._for_claims: dict[str, tuple[Pod, str]] = {}
        self._for_binding: deque[tuple[Pod, str]] = deque()
        self._wake = asyncio.Event()
        mirrors.nodes.add_handler(self._on_node)
        mirrors.pods.add_handler(self._on_pod)
        mirrors.claims.add_handler(self._on_claim)
        mirrors.storage_classes.add_handler(self._on_storage_class)

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            # Handle all pending events before the first decision.
            await asyncio.sleep(0)
            await self._bind_all()
            while (lane := self._lanes.next()) is not None:
                await self._serve(lane)
                await self._bind_all()

    async def _serve(self, lane: Lane) -> None:
        """Decide about the group's Pod that has waited longest."""
        uid, pod = next(iter(lane.pods.items()))
        decision = self._decide(uid, lane)
        try:
            await self._carry_out(pod, lane, decision)
        except KubeError as error:
            self._try_again(pod, error)

    def _decide(self, uid: str, lane: Lane) -> Decision:
        claims = unbound_claims(
            lane.needs.claims,
            self._mirrors.claims.store.get,
            lambda name: self._mirrors.storage_classes.store.get(Key("", name)),
        )
        return place(uid, lane.needs, self._seating, claims, self._rng)

    async def _carry_out(self, pod: Pod, lane: Lane, decision: Decision) -> None:
        match decision:
            case Place():
                await self._place(pod, lane, decision)
            case Forced():
                await self._force(pod, lane, decision)
            case Refused():
                await self._refuse(lane, decision)
            case _:
                assert_never(decision)

    async def _place(self, pod: Pod, lane: Lane, decision: Place) -> None:
        uid = pod.metadata.uid
        self._lanes.remove(uid)
        self._lanes.rouse(lane)
        self._seating.seat(Seat.of(pod, lane.needs), decision.node)
        if not decision.claims:
            self._for_binding.append((pod, decision.node))
            return
        self._for_claims[uid] = pod, decision.node
        for claim in decision.claims:
            await self._writes.choose_node(claim, decision.node)

    async def _force(self, pod: Pod, lane: Lane, decision: Forced) -> None:
        node, victims = decision.eviction.node, decision.eviction.victims
        lesser = self._seating.lesser_promises(node, lane.needs.priority)
        self._seating.promise(Seat.of(pod, lane.needs), node)
        self._lanes.put(pod, lane.needs, node, is_ready=False)
        self._lanes.rouse(lane)
        for seat in lesser:
            await self._break_promise(seat)
        await self._writes.refuse(pod, decision.words, nominated=node)
        for seat in victims:
            victim = self._mirrors.pods.store.get(seat.key)
            if victim is not None and victim.metadata.uid == seat.uid and not victim.is_ending:
                await self._writes.evict(victim, by=pod, node=node)

    async def _refuse(self, lane: Lane, decision: Refused) -> None:
        """Record the refusal for all Pods of the group, which share it."""
        nominated = lane.nominated if decision.keeps_promise else ""
        for pod in lane.hear(decision.words):
            if not nominated and self._seating.break_promise(pod.metadata.uid):
                self._lanes.put(pod, lane.needs, "", is_ready=False)
            await self._writes.refuse(pod, decision.words, nominated=nominated)

    async def _break_promise(self, seat: Seat) -> None:
        self._seating.break_promise(seat.uid)
        pod = self._mirrors.pods.store.get(seat.key)
        if pod is not None and pod.metadata.uid == seat.uid:
            await self._writes.break_promise(pod)

    async def _bind_all(self) -> None:
        while self._for_binding:
            pod, node = self._for_binding.popleft()
            try:
                await self._writes.bind(pod, node)
            except KubeError as error:
                self._try_again(pod, error)

    def _try_again(self, pod: Pod, error: KubeError) -> None:
        """Undo the decision and retry later, unless the Pod is gone by then."""
        key, uid = pod.metadata.key, pod.metadata.uid
        log.info("pod not scheduled yet", pod=str(key), error=str(error))
        self._for_claims.pop(uid, None)
        self._vacate(uid)
        asyncio.get_running_loop().call_later(RETRY_SECONDS, self._look_again, key)

    def _look_again(self, key: Key) -> None:
        pod = self._mirrors.pods.store.get(key)
        if pod is not None:
            self._on_pod(key, None, pod)
            self._rouse_all()

    def _on_node(self, key: Key, _old: Node | None, new: Node | None) -> None:
        if new is None:
            self._seating.remove_node(key.name)
        elif self._seating.put_node(NodeFacts.of(new)):
            self._rouse_all()

    def _on_claim(self, key: Key, old: Claim | None, new: Claim | None) -> None:
        """Bind Pods with a chosen node as soon as their claims are bound."""
        if new is None or (old is not None and is_bound(new) == is_bound(old)):
            return
        for pod in self._mirrors.pods.store.by_index(BY_CLAIM, key):
            if pod.metadata.uid in self._for_claims and self._has_its_claims(pod):
                self._for_binding.append(self._for_claims.pop(pod.metadata.uid))
        self._rouse_all()

    def _on_storage_class(
        self, _key: Key, _old: StorageClass | None, new: StorageClass | None
    ) -> None:
        if new is not None:
            self._rouse_all()

    def _on_pod(self, _key: Key, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._leave(old)
        if new is None:
            return
        if new.spec.nodeName:
            self._sit(new)
        elif _is_ours(new):
            self._wait(new)
        else:
            self._leave(new)

    def _leave(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self._lanes.remove(uid)
        self._needs.pop(uid, None)
        self._for_claims.pop(uid, None)
        self._vacate(uid)

    def _sit(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self._lanes.remove(uid)
        if pod.is_finished:
            self._vacate(uid)
        else:
            self._seating.seat(Seat.of(pod, self._needs_of(pod)), pod.spec.nodeName)

    def _wait(self, pod: Pod) -> None:
        """Queue the Pod, unless it was just placed and only its event is pending."""
        uid = pod.metadata.uid
        if self._seating.is_seated(uid):
            return
        if self._lanes.put(pod, self._needs_of(pod), self._seating.promised_to(uid)):
            self._wake.set()

    def _vacate(self, uid: str) -> None:
        """Remove assignment and nomination; if there was one, others may have room."""
        if self._seating.break_promise(uid) | self._seating.unseat(uid):
            self._rouse_all()

    def _rouse_all(self) -> None:
        self._lanes.rouse_all()
        self._wake.set()

    def _needs_of(self, pod: Pod) -> Needs:
        """Return the Pod's needs, computed once per generation."""
        metadata = pod.metadata
        known = self._needs.get(metadata.uid)
        if known is None or known[0] != metadata.generation:
            known = self._needs[metadata.uid] = metadata.generation, Needs.of(pod)
        return known[1]

    def _has_its_claims(self, pod: Pod) -> bool:
        claims = map(self._mirrors.claims.store.get, self._needs_of(pod).claims)
        return all(claim is not None and is_bound(claim) for claim in claims)


def _is_ours(pod: Pod) -> bool:
    if pod.is_ending or pod.is_finished or pod.spec.schedulingGates:
        return False
    return pod.spec.schedulerName in ("", NAME)
