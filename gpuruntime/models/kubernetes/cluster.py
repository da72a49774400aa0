"""Objects of the cluster itself, such as nodes, quotas, priorities, leases and Events."""

from datetime import datetime
from typing import Final

import attrs

from gpuruntime.models.kubernetes.conditions import Condition, condition_of
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.kubernetes.resources import Resource
from gpuruntime.models.kubernetes.timestamps import MicroTime


@attrs.frozen(kw_only=True, slots=True)
class NodeSpec:
    unschedulable: bool = False


@attrs.frozen(kw_only=True, slots=True)
class NodeStatus:
    """Quantities by resource name, as the node's kubelet writes them."""

    capacity: dict[str, str] = attrs.field(factory=dict)
    allocatable: dict[str, str] = attrs.field(factory=dict)
    conditions: tuple[Condition, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class Node:
    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def is_ready(self) -> bool:
        ready = condition_of(self.status.conditions, "Ready")
        return ready is not None and ready.is_true


@attrs.frozen(kw_only=True, slots=True)
class ResourceQuotaStatus:
    """Quantities by resource name; `hard` bounds the totals in `used`."""

    hard: dict[str, str] = attrs.field(factory=dict)
    used: dict[str, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True, slots=True)
class ResourceQuota:
    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    status: ResourceQuotaStatus = attrs.field(factory=ResourceQuotaStatus)


@attrs.frozen(kw_only=True, slots=True)
class PriorityClass:
    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    value: int = 0
    preemptionPolicy: str = "PreemptLowerPriority"


@attrs.frozen(kw_only=True, slots=True)
class ConfigMap:
    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    data: dict[str, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True, slots=True)
class LeaseSpec:
    holderIdentity: str = ""
    leaseDurationSeconds: int = 0
    leaseTransitions: int = 0
    acquireTime: MicroTime | None = None
    renewTime: MicroTime | None = None


@attrs.frozen(kw_only=True, slots=True)
class Lease:
    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    spec: LeaseSpec = LeaseSpec()


@attrs.frozen(kw_only=True, slots=True)
class ObjectReference:
    apiVersion: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    fieldPath: str = ""


@attrs.frozen(kw_only=True, slots=True)
class EventSource:
    component: str = ""


@attrs.frozen(kw_only=True, slots=True)
class EventSeries:
    count: int = 0
    lastObservedTime: MicroTime | None = None


@attrs.frozen(kw_only=True, slots=True)
class Event:
    """An Event. Older writers count repetitions in `count`, newer ones in `series`."""

    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    involvedObject: ObjectReference = ObjectReference()
    type: str = ""
    reason: str = ""
    message: str = ""
    source: EventSource = EventSource()
    reportingComponent: str = ""
    count: int = 0
    firstTimestamp: datetime | None = None
    lastTimestamp: datetime | None = None
    eventTime: MicroTime | None = None
    series: EventSeries | None = None

    @property
    def last_seen_at(self) -> datetime | None:
        in_series = self.series.lastObservedTime if self.series else None
        return in_series or self.lastTimestamp or self.eventTime or self.firstTimestamp


NODES: Final = Resource(
    group="", version="v1", kind="Node", plural="nodes", type=Node, is_namespaced=False
)
RESOURCE_QUOTAS: Final = Resource(
    group="", version="v1", kind="ResourceQuota", plural="resourcequotas", type=ResourceQuota
)
PRIORITY_CLASSES: Final = Resource(
    group="scheduling.k8s.io",
    version="v1",
    kind="PriorityClass",
    plural="priorityclasses",
    type=PriorityClass,
    is_namespaced=False,
)
CONFIG_MAPS: Final = Resource(
    group="", version="v1", kind="ConfigMap", plural="configmaps", type=ConfigMap
)
LEASES: Final = Resource(
    group="coordination.k8s.io", version="v1", kind="Lease", plural="leases", type=Lease
)
EVENTS: Final = Resource(group="", version="v1", kind="Event", plural="events", type=Event)
