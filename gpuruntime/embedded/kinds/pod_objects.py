"""Pods as scheduler, kubelet and controllers read them, and the status that they write."""

from datetime import datetime
from typing import Final

import attrs

from gpuruntime.embedded.controllers.object_patches import always
from gpuruntime.embedded.kinds.container_objects import (
    ContainerPort,
    Lifecycle,
    Probe,
    Variable,
    Volume,
    VolumeMount,
)
from gpuruntime.models.kubernetes.conditions import Condition, condition_of
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.kubernetes.pods import Running, Waiting
from gpuruntime.models.kubernetes.resources import Resource

Amounts = dict[str, str | int | float]


@attrs.frozen(kw_only=True, slots=True)
class Requirements:
    requests: Amounts = attrs.field(factory=dict)
    limits: Amounts = attrs.field(factory=dict)


@attrs.frozen(kw_only=True, slots=True)
class Container:
    name: str = ""
    image: str = ""
    env: tuple[Variable, ...] = ()
    resources: Requirements = Requirements()
    restartPolicy: str = ""
    startupProbe: Probe | None = None
    readinessProbe: Probe | None = None
    livenessProbe: Probe | None = None
    lifecycle: Lifecycle = Lifecycle()
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    workingDir: str = ""
    ports: tuple[ContainerPort, ...] = ()
    volumeMounts: tuple[VolumeMount, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class Expression:
    """A node requirement; Gt and Lt have one number as value, Exists and DoesNotExist none."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class NodeSelectorTerm:
    matchExpressions: tuple[Expression, ...] = ()
    matchFields: tuple[Expression, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class NodeSelector:
    nodeSelectorTerms: tuple[NodeSelectorTerm, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class PreferredTerm:
    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


@attrs.frozen(kw_only=True, slots=True)
class NodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution: NodeSelector | None = None
    preferredDuringSchedulingIgnoredDuringExecution: tuple[PreferredTerm, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class Affinity:
    nodeAffinity: NodeAffinity = NodeAffinity()


@attrs.frozen(kw_only=True, slots=True)
class Toleration:
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


@attrs.frozen(kw_only=True, slots=True)
class SchedulingGate:
    name: str = ""


@attrs.frozen(kw_only=True, slots=True)
class PodDeviceClaim:
    """A claim for devices that the Pod uses; one of the two sources is set."""

    name: str = ""
    resourceClaimName: str | None = None
    resourceClaimTemplateName: str | None = None


@attrs.frozen(kw_only=True, slots=True)
class PodDeviceClaimStatus:
    """The claim that was made from a template; without a name the Pod needs none."""

    name: str = ""
    resourceClaimName: str | None = None


@attrs.frozen(kw_only=True, slots=True)
class PodSpec:
    nodeName: str = ""
    schedulerName: str = ""
    priority: int = 0
    preemptionPolicy: str = ""
    restartPolicy: str = "Always"
    terminationGracePeriodSeconds: int = 30
    nodeSelector: dict[str, str] = attrs.field(factory=dict)
    affinity: Affinity = Affinity()
    tolerations: tuple[Toleration, ...] = ()
    schedulingGates: tuple[SchedulingGate, ...] = ()
    overhead: Amounts = attrs.field(factory=dict)
    initContainers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    resourceClaims: tuple[PodDeviceClaim, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class Terminated:
    exitCode: int = always(0)
    reason: str = ""
    message: str = ""
    startedAt: datetime | None = None
    finishedAt: datetime | None = None
    containerID: str = ""


@attrs.frozen(kw_only=True, slots=True)
class ContainerState:
    """The state of a container; at most one member is set."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


@attrs.frozen(kw_only=True, slots=True)
class ContainerStatus:
    name: str = ""
    state: ContainerState = always(ContainerState())
    lastState: ContainerState = always(ContainerState())
    ready: bool = always(False)
    restartCount: int = always(0)
    image: str = always("")
    imageID: str = always("")
    containerID: str = ""
    started: bool | None = None


@attrs.frozen(kw_only=True, slots=True)
class Address:
    ip: str = ""


@attrs.frozen(kw_only=True, slots=True)
class PodStatus:
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    nominatedNodeName: str = ""
    hostIP: str = ""
    hostIPs: tuple[Address, ...] = ()
    podIP: str = ""
    podIPs: tuple[Address, ...] = ()
    startTime: datetime | None = None
    initContainerStatuses: tuple[ContainerStatus, ...] = ()
    containerStatuses: tuple[ContainerStatus, ...] = ()
    resourceClaimStatuses: tuple[PodDeviceClaimStatus, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class Pod:
    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_finished(self) -> bool:
        """Return whether the Pod has ended for good and holds no resources of its node."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def is_ending(self) -> bool:
        return self.metadata.deletionTimestamp is not None

    @property
    def is_ready(self) -> bool:
        ready = self.condition("Ready")
        return ready is not None and ready.is_true

    @property
    def owner_uid(self) -> str:
        owner = self.metadata.controller_owner
        return owner.uid if owner else ""

    @property
    def restarts(self) -> int:
        return sum(each.restartCount for each in self.status.containerStatuses)

    def condition(self, type_: str) -> Condition | None:
        return condition_of(self.status.conditions, type_)


PODS: Final = Resource(group="", version="v1", kind="Pod", plural="pods", type=Pod)
