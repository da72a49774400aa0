"""Pods, as far as they show whether a unit runs, where, and why not."""

from datetime import datetime
from typing import Final

import attrs

from gpuruntime.models.kubernetes.conditions import Condition, condition_of
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.kubernetes.resources import Resource


@attrs.frozen(kw_only=True, slots=True)
class Waiting:
    reason: str = ""
    message: str = ""


@attrs.frozen(kw_only=True, slots=True)
class Running:
    startedAt: datetime | None = None


@attrs.frozen(kw_only=True, slots=True)
class Terminated:
    exitCode: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    startedAt: datetime | None = None
    finishedAt: datetime | None = None


@attrs.frozen(kw_only=True, slots=True)
class ContainerState:
    """A container is in at most one of the three states; without any, it is waiting."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


@attrs.frozen(kw_only=True, slots=True)
class ContainerStatus:
    name: str = ""
    image: str = ""
    ready: bool = False
    restartCount: int = 0
    state: ContainerState = ContainerState()
    lastState: ContainerState = ContainerState()


@attrs.frozen(kw_only=True, slots=True)
class ClaimSource:
    claimName: str = ""


@attrs.frozen(kw_only=True, slots=True)
class PodVolume:
    """A volume of a Pod; only claims are distinguished."""

    persistentVolumeClaim: ClaimSource | None = None


@attrs.frozen(kw_only=True, slots=True)
class PodSpec:
    nodeName: str = ""
    volumes: tuple[PodVolume, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class PodStatus:
    phase: str = ""
    reason: str = ""
    message: str = ""
    podIP: str = ""
    startTime: datetime | None = None
    conditions: tuple[Condition, ...] = ()
    initContainerStatuses: tuple[ContainerStatus, ...] = ()
    containerStatuses: tuple[ContainerStatus, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class Pod:
    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_ready(self) -> bool:
        """Return whether the Pod is ready and not terminating.

        A terminating Pod keeps its condition Ready for a while.
        """
        ready = self.condition("Ready")
        return ready is not None and ready.is_true and self.metadata.deletionTimestamp is None

    def mounts(self, claim: str) -> bool:
        return any(
            volume.persistentVolumeClaim is not None
            and volume.persistentVolumeClaim.claimName == claim
            for volume in self.spec.volumes
        )

    def condition(self, type_: str) -> Condition | None:
        return condition_of(self.status.conditions, type_)


PODS: Final = Resource(group="", version="v1", kind="Pod", plural="pods", type=Pod)
