"""The kubelet of all simulated nodes: Pods assigned to them start, run and end by the clock."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

import attrs

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.controller.controller import DONE, Controller, Result
from gpuruntime.embedded.controllers.event_writer import EventWriter
from gpuruntime.embedded.controllers.informers import BY_NODE, Informers, write_status
from gpuruntime.embedded.kinds.cluster_objects import Node
from gpuruntime.embedded.kinds.pod_objects import PODS, Container, Pod
from gpuruntime.embedded.nodes.addresses import Addresses
from gpuruntime.embedded.nodes.container_timeline import NEVER
from gpuruntime.embedded.nodes.failures import Fault, Pace, failing_with
from gpuruntime.embedded.nodes.pod_secrets import (
    RETRY_SECONDS,
    MissingSecretError,
    demand_files,
    failed_mount,
    variables_of,
)
from gpuruntime.embedded.nodes.pod_status_plan import (
    TOLERANCE_SECONDS,
    Sandbox,
    SimulatedStatus,
    ended,
    simulated_status,
)
from gpuruntime.embedded.processes.programs import ProcessRules
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.kube.events import EventRecorder, Note
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.workqueue.queue import WorkQueue

WORKERS: Final = 4


@attrs.define(slots=True)
class _TrackedPod:
    """A Pod that the kubelet runs; moments are the loop's.

    `waits_for` has the words about a missing Secret; the Pod's clock starts when it exists.
    """

    uid: str
    sandbox: Sandbox
    began_at: float
    noted_until: float = -1.0
    stops_at: float | None = None
    waits_for: str = ""


class Kubelet:
    def __init__(
        self,
        client: Client,
        informers: Informers,
        recorder: EventRecorder,
        *,
        now: Callable[[], datetime],
        pace: Pace,
        rules: ProcessRules,
    ) -> None:
        self._client = client
        self._pods = informers.pods
        self._nodes = informers.nodes
        self._events = EventWriter(recorder, PODS)
        self._now = now
        self._pace = pace
        self._rules = rules
        self._addresses = Addresses()
        self._tracked_pods: dict[Key, _TrackedPod] = {}
        self._queue: WorkQueue[Key] = WorkQueue("kubelet")
        self._controller = Controller("kubelet", self._queue, self.reconcile, workers=WORKERS)
        informers.pods.add_handler(self._on_pod)
        informers.nodes.add_handler(self._on_node)

    async def run(self) -> None:
        await self._controller.run()

    async def reconcile(self, key: Key) -> Result:
        pod = self._pods.store.get(key)
        if pod is None:
            self._forget(key)
            return DONE
        if Key("", pod.spec.nodeName) not in self._nodes.store:
            return DONE
        is_simulated = not self._rules.run(pod)
        missing = None if is_simulated else self._rules.missing_in(pod)
        if not is_simulated and missing is None:
            return DONE
        tracked = self._track(pod)
        if pod.is_ending:
            return await self._end(pod, tracked)
        if pod.is_finished:
            return DONE
        if missing:
            return await self._show(self._rules.failing_without(*missing, pod), tracked)
        return await self._wait_for_secrets(pod, tracked) or await self._show(pod, tracked)

    async def _wait_for_secrets(self, pod: Pod, tracked: _TrackedPod) -> Result | None:
        """Show what is missing of a Pod's Secrets; return None if it may start, or has started."""
        if any(each.state.waiting is None for each in pod.status.containerStatuses):
            return None
        try:
            await demand_files(self._client, pod)
        except MissingSecretError as error:
            return await self._hold(pod, tracked, failed_mount(error))
        for container in pod.spec.containers:
            try:
                await variables_of(self._client, pod, container)
            except MissingSecretError as error:
                if tracked.waits_for != str(error):
                    tracked.waits_for, tracked.noted_until = str(error), -1.0
                failing = failing_with(Fault.CONFIG_ERROR, str(error), container, pod)
                await self._show(failing, tracked)
                return Result(RETRY_SECONDS)
        if tracked.waits_for:
            tracked.waits_for = ""
            tracked.began_at, tracked.noted_until = loop_time(), -1.0
        return None

    async def _hold(self, pod: Pod, tracked: _TrackedPod, note: Note) -> Result:
        """Keep the Pod at its beginning, as its volumes cannot be set up."""
        if tracked.waits_for != note.message:
            self._events.note(pod, note)
        tracked.waits_for = note.message
        current = self._status(pod, tracked, 0.0)
        await write_status(self._client, self._pods, pod, pod.status, current.status)
        return Result(RETRY_SECONDS)

    async def _show(self, pod: Pod, tracked: _TrackedPod) -> Result:
        offset = loop_time() - tracked.began_at
        current = self._status(pod, tracked, offset)
        await write_status(self._client, self._pods, pod, pod.status, current.status)
        for at, container, note in current.notes:
            if at > tracked.noted_until:
                self._note(pod, container, note)
        tracked.noted_until = offset
        return DONE if current.next_at == NEVER else Result(current.next_at - offset)

    def _status(self, pod: Pod, tracked: _TrackedPod, offset: float) -> SimulatedStatus:
        why = self._rules.why_simulated(pod)
        return simulated_status(pod, tracked.sandbox, offset, now=self._now(), why=why)

    async def _end(self, pod: Pod, tracked: _TrackedPod) -> Result:
        """Stop the Pod within its grace period; finalizers may keep the object longer."""
        now = loop_time()
        grace = pod.metadata.deletionGracePeriodSeconds or 0
        if tracked.stops_at is None:
            tracked.stops_at = now + min(float(grace), self._pace.stop_seconds)
            for container in pod.spec.containers:
                note = Note("Killing", f"Stopping container {container.name}")
                self._note(pod, container, note)
        tracked.stops_at = min(tracked.stops_at, now + grace)
        if now + TOLERANCE_SECONDS < tracked.stops_at:
            return Result(tracked.stops_at - now)
        if not pod.is_finished:
            status = ended(pod, now=self._now())
            await write_status(self._client, self._pods, pod, pod.status, status)
        if grace:
            await self._delete(pod)
        return DONE

    async def _delete(self, pod: Pod) -> None:
        metadata = pod.metadata
        try:
            await self._client.delete(PODS, metadata.key, uid=metadata.uid, grace_seconds=0)
        except NotFoundError:
            return

    def _track(self, pod: Pod) -> _TrackedPod:
        key, uid = pod.metadata.key, pod.metadata.uid
        tracked = self._tracked_pods.get(key)
        if tracked is None or tracked.uid != uid:
            self._forget(key)
            sandbox = Sandbox(
                began_at=pod.status.startTime or self._now(),
                host_ip=self._addresses.of_node(pod.spec.nodeName),
                pod_ip=pod.status.podIP or self._addresses.take(uid),
                pace=self._pace,
            )
            # An earlier kubelet has run the Pod so far and noted that: its clock runs on.
            started = pod.status.startTime
            passed = (self._now() - started).total_seconds() if started else 0.0
            tracked = self._tracked_pods[key] = _TrackedPod(
                uid=uid,
                sandbox=sandbox,
                began_at=loop_time() - passed,
                noted_until=passed if started else -1.0,
            )
        return tracked

    def _forget(self, key: Key) -> None:
        tracked = self._tracked_pods.pop(key, None)
        if tracked is not None:
            self._addresses.give_back(tracked.uid)

    def _note(self, pod: Pod, container: Container, note: Note) -> None:
        is_main = container in pod.spec.containers
        field = "containers" if is_main else "initContainers"
        self._events.note(pod, note, field_path=f"spec.{field}{{{container.name}}}")

    def _on_node(self, key: Key, old: Node | None, new: Node | None) -> None:
        """Queue the node's Pods: a node that appeared or disappeared changes who runs them."""
        if old is None or new is None:
            for pod in self._pods.store.by_index(BY_NODE, key):
                self._queue.add(pod.metadata.key)

    def _on_pod(self, key: Key, old: Pod | None, new: Pod | None) -> None:
        """Queue the Pod, unless the kubelet's own write changed it."""
        if old is None and new is not None:
            self._addresses.keep(new.metadata.uid, new.status.podIP)
        if old is None or new is None or _is_news(old, new):
            self._queue.add(key)


def _is_news(old: Pod, new: Pod) -> bool:
    return (
        old.spec.nodeName != new.spec.nodeName
        or old.metadata.uid != new.metadata.uid
        or old.metadata.deletionTimestamp != new.metadata.deletionTimestamp
    )
