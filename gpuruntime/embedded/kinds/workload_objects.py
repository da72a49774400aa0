"""Deployments, ReplicaSets and Jobs as their controllers read and write them."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

import attrs
import msgspec

from gpuruntime.embedded.controllers.object_patches import always
from gpuruntime.models.encoding.json import EMPTY_OBJECT, keep_bytes
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.kubernetes.resources import Resource


@attrs.frozen(kw_only=True, slots=True)
class WorkloadCondition:
    """A condition of a workload; only a Deployment's has a lastUpdateTime.

    It changes with the reason.
    """

    type: str
    status: str = always("Unknown")
    lastUpdateTime: datetime | None = None
    lastProbeTime: datetime | None = None
    lastTransitionTime: datetime | None = None
    reason: str = ""
    message: str = ""

    @property
    def is_true(self) -> bool:
        return self.status == "True"


Conditions = tuple[WorkloadCondition, ...]


@attrs.frozen(kw_only=True, slots=True)
class RollingUpdate:
    maxSurge: int | str = "25%"
    maxUnavailable: int | str = "25%"


@attrs.frozen(kw_only=True, slots=True)
class Strategy:
    type: str = "RollingUpdate"
    rollingUpdate: RollingUpdate = RollingUpdate()


@attrs.frozen(kw_only=True, slots=True)
class DeploymentSpec:
    replicas: int = 1
    selector: msgspec.Raw = EMPTY_OBJECT
    template: msgspec.Raw = EMPTY_OBJECT
    strategy: Strategy = Strategy()
    minReadySeconds: int = 0
    paused: bool = False
    revisionHistoryLimit: int = 10
    progressDeadlineSeconds: int = 600

    def __attrs_post_init__(self) -> None:
        keep_bytes(self, "selector")
        keep_bytes(self, "template")


@attrs.frozen(kw_only=True, slots=True)
class DeploymentStatus:
    observedGeneration: int = 0
    replicas: int = 0
    updatedReplicas: int = 0
    readyReplicas: int = 0
    availableReplicas: int = 0
    unavailableReplicas: int = 0
    conditions: Conditions = ()


@attrs.frozen(kw_only=True, slots=True)
class Deployment:
    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    spec: DeploymentSpec = attrs.field(factory=DeploymentSpec)
    status: DeploymentStatus = DeploymentStatus()


@attrs.frozen(kw_only=True, slots=True)
class ReplicaSetSpec:
    replicas: int = 1
    template: msgspec.Raw = EMPTY_OBJECT
    minReadySeconds: int = 0

    def __attrs_post_init__(self) -> None:
        keep_bytes(self, "template")


@attrs.frozen(kw_only=True, slots=True)
class ReplicaSetStatus:
    replicas: int = always(0)
    fullyLabeledReplicas: int = 0
    readyReplicas: int = 0
    availableReplicas: int = 0
    observedGeneration: int = 0
    conditions: Conditions = ()


@attrs.frozen(kw_only=True, slots=True)
class ReplicaSet:
    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    spec: ReplicaSetSpec = attrs.field(factory=ReplicaSetSpec)
    status: ReplicaSetStatus = ReplicaSetStatus()


@attrs.frozen(kw_only=True, slots=True)
class JobSpec:
    """The spec of a Job; without completions it succeeds once a Pod succeeded and none runs."""

    parallelism: int = 1
    completions: int | None = None
    backoffLimit: int = 6
    activeDeadlineSeconds: int | None = None
    ttlSecondsAfterFinished: int | None = None
    suspend: bool = False
    template: msgspec.Raw = EMPTY_OBJECT

    def __attrs_post_init__(self) -> None:
        keep_bytes(self, "template")


@attrs.frozen(kw_only=True, slots=True)
class UncountedPods:
    """Finished Pods not counted yet; they lose their finalizer only after this is written."""

    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class JobStatus:
    """The status of a Job; some members are absent before its first sync and zero afterwards."""

    conditions: Conditions = ()
    startTime: datetime | None = None
    completionTime: datetime | None = None
    active: int = 0
    ready: int | None = None
    terminating: int | None = None
    succeeded: int = 0
    failed: int = 0
    uncountedTerminatedPods: UncountedPods | None = None


@attrs.frozen(kw_only=True, slots=True)
class Job:
    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    spec: JobSpec = attrs.field(factory=JobSpec)
    status: JobStatus = JobStatus()


DEPLOYMENTS: Final = Resource(
    group="apps", version="v1", kind="Deployment", plural="deployments", type=Deployment
)
REPLICA_SETS: Final = Resource(
    group="apps", version="v1", kind="ReplicaSet", plural="replicasets", type=ReplicaSet
)
JOBS: Final = Resource(group="batch", version="v1", kind="Job", plural="jobs", type=Job)


def find_condition(
    conditions: Iterable[WorkloadCondition], type_: str
) -> WorkloadCondition | None:
    return next((each for each in conditions if each.type == type_), None)


def updated_conditions(
    conditions: Conditions, condition: WorkloadCondition, *, now: datetime
) -> Conditions:
    """Append the condition, unless its status and reason are unchanged."""
    before = find_condition(conditions, condition.type)
    if before and (before.status, before.reason) == (condition.status, condition.reason):
        return conditions
    keeps = before is not None and before.status == condition.status
    moved_at = before.lastTransitionTime if before and keeps else now
    stamped = attrs.evolve(condition, lastUpdateTime=now, lastTransitionTime=moved_at)
    return (*(each for each in conditions if each is not before), stamped)


def without_condition(conditions: Conditions, type_: str) -> Conditions:
    return tuple(each for each in conditions if each.type != type_)
