"""Requests of Pods and free resources of nodes, in whole numbers."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Final

import attrs

from gpuruntime.embedded.devices.pod_claims import claims_of
from gpuruntime.embedded.kinds.cluster_objects import Node, Taint
from gpuruntime.embedded.kinds.pod_objects import (
    Amounts,
    Container,
    NodeAffinity,
    Pod,
    PodSpec,
    Toleration,
)
from gpuruntime.models.kubernetes.conditions import condition_of
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.quantities import parse_quantity

Requests = tuple[tuple[str, int], ...]

PODS: Final = "pods"
NOT_READY: Final = Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule")
DISRUPTION_TARGET: Final = "DisruptionTarget"
PREEMPTED: Final = "PreemptionByScheduler"


@lru_cache(maxsize=16_384)
def whole(resource: str, text: str | int | float) -> int:
    """Return the amount, rounded up: thousandths of a cpu, whole units of other resources."""
    quantity = parse_quantity(str(text))
    return quantity.millis_rounded_up if resource == "cpu" else quantity.rounded_up


def requests_of(spec: PodSpec) -> Requests:
    """Return the Pod's requests.

    Main containers and sidecars run together; other init containers run before them, one by one.
    """
    total: dict[str, int] = {}
    for container in spec.containers:
        _add(total, _asked_by(container))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.initContainers:
        asked = _asked_by(container)
        if container.restartPolicy == "Always":
            _add(sidecars, asked)
        together = {**sidecars} if container.restartPolicy == "Always" else _sum(sidecars, asked)
        peak = {name: max(peak.get(name, 0), together.get(name, 0)) for name in peak | together}
    _add(total, sidecars)
    total = {name: max(total.get(name, 0), peak.get(name, 0)) for name in total | peak}
    _add(total, {name: whole(name, text) for name, text in spec.overhead.items()})
    total[PODS] = 1
    return tuple(sorted((name, number) for name, number in total.items() if number))


def _asked_by(container: Container) -> dict[str, int]:
    """Return the container's requests; a limit without a request counts as one."""
    amounts: Amounts = {**container.resources.limits, **container.resources.requests}
    return {name: whole(name, text) for name, text in amounts.items()}


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, number in more.items():
        total[name] = total.get(name, 0) + number


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


@attrs.frozen(kw_only=True, slots=True, cache_hash=True)
class Needs:
    """Everything that decides where a Pod fits: Pods with equal needs get equal decisions."""

    requests: Requests
    node_selector: tuple[tuple[str, str], ...] = ()
    affinity: NodeAffinity = NodeAffinity()
    tolerations: tuple[Toleration, ...] = ()
    priority: int = 0
    may_preempt: bool = True
    # The claims of its volumes, in its own namespace.
    claims: tuple[Key, ...] = ()
    # Its claims for devices.
    device_claims: tuple[Key, ...] = ()

    @classmethod
    def of(cls, pod: Pod) -> "Needs":
        spec, namespace = pod.spec, pod.metadata.namespace
        sources = (volume.persistentVolumeClaim for volume in spec.volumes)
        return cls(
            requests=requests_of(spec),
            node_selector=tuple(sorted(spec.nodeSelector.items())),
            affinity=spec.affinity.nodeAffinity,
            tolerations=spec.tolerations,
            priority=spec.priority,
            may_preempt=spec.preemptionPolicy != "Never",
            claims=tuple(Key(namespace, source.claimName) for source in sources if source),
            device_claims=tuple(each.key for each in claims_of(pod) or ()),
        )


@attrs.frozen(kw_only=True, slots=True)
class Assignment:
    """A Pod on a node, or about to be there."""

    uid: str
    key: Key
    priority: int
    requests: Requests
    started_at: datetime | None = None
    is_ending: bool = False
    # It terminates because a more important Pod preempted it.
    is_preempted: bool = False

    @classmethod
    def of(cls, pod: Pod, needs: Needs) -> "Assignment":
        disrupted = condition_of(pod.status.conditions, DISRUPTION_TARGET)
        return cls(
            uid=pod.metadata.uid,
            key=pod.metadata.key,
            priority=needs.priority,
            requests=needs.requests,
            started_at=pod.status.startTime,
            is_ending=pod.is_ending,
            is_preempted=pod.is_ending and disrupted is not None and disrupted.reason == PREEMPTED,
        )


@attrs.frozen(kw_only=True, slots=True)
class NodeFacts:
    """A node without its Pods."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    is_unschedulable: bool
    allocatable: Mapping[str, int]

    @classmethod
    def absent(cls, name: str) -> "NodeFacts":
        return cls(name=name, labels={}, taints=(), is_unschedulable=True, allocatable={})

    @classmethod
    def of(cls, node: Node) -> "NodeFacts":
        ready = condition_of(node.status.conditions, "Ready")
        is_ready = ready is not None and ready.is_true
        return cls(
            name=node.metadata.name,
            labels=node.metadata.labels,
            taints=node.spec.taints if is_ready else (*node.spec.taints, NOT_READY),
            is_unschedulable=node.spec.unschedulable,
            allocatable={
                name: whole(name, text) for name, text in node.status.allocatable.items()
            },
        )


class FreeResources:
    """A node with its assigned Pods and the running sum of their requests."""

    def __init__(self, facts: NodeFacts) -> None:
        self.facts = facts
        self.assignments: dict[str, Assignment] = {}
        self.used: dict[str, int] = {}

    def put(self, assignment: Assignment) -> None:
        """Add a Pod, or replace its former entry."""
        if self.assignments.get(assignment.uid) != assignment:
            self.remove(assignment.uid)
            self.assignments[assignment.uid] = assignment
            self._count(assignment.requests, 1)

    def remove(self, uid: str) -> None:
        """Remove a Pod; do nothing if it is absent."""
        assignment = self.assignments.pop(uid, None)
        if assignment is not None:
            self._count(assignment.requests, -1)

    def _count(self, requests: Requests, sign: int) -> None:
        for name, number in requests:
            self.used[name] = self.used.get(name, 0) + sign * number


def with_assigned(used: Mapping[str, int], assignments: Iterable[Assignment]) -> dict[str, int]:
    """Return a copy of the used amounts plus those of the given Pods."""
    return _with(used, assignments, 1)


def without_assigned(used: Mapping[str, int], assignments: Iterable[Assignment]) -> dict[str, int]:
    return _with(used, assignments, -1)


def _with(used: Mapping[str, int], assignments: Iterable[Assignment], sign: int) -> dict[str, int]:
    total = dict(used)
    for assignment in assignments:
        for name, number in assignment.requests:
            total[name] = total.get(name, 0) + sign * number
    return total
