"""Deployments, with a raw spec that is only compared, and the status as values."""

from collections.abc import Mapping
from typing import Final

import attrs
import msgspec

from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import EMPTY_OBJECT, keep_bytes
from gpuruntime.models.kubernetes.conditions import Condition, condition_of
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.kubernetes.resources import Resource


@attrs.frozen(kw_only=True, slots=True)
class DeploymentStatus:
    observedGeneration: int = 0
    replicas: int = 0
    updatedReplicas: int = 0
    readyReplicas: int = 0
    availableReplicas: int = 0
    conditions: tuple[Condition, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class _Selector:
    matchLabels: dict[str, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True, slots=True)
class _Spec:
    selector: _Selector = _Selector()


@attrs.frozen(kw_only=True, slots=True)
class Deployment:
    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    spec: msgspec.Raw = EMPTY_OBJECT
    status: DeploymentStatus = DeploymentStatus()

    def __attrs_post_init__(self) -> None:
        keep_bytes(self, "spec")

    @property
    def selector(self) -> Mapping[str, str]:
        """Return the labels by which the Deployment finds its Pods; they never change."""
        return codec.decode(self.spec, _Spec).selector.matchLabels

    @property
    def refusal(self) -> str:
        """Return why the cluster rejects the Pod, such as a quota, or an empty string."""
        failure = condition_of(self.status.conditions, "ReplicaFailure")
        return failure.message if failure is not None and failure.is_true else ""


DEPLOYMENTS: Final = Resource(
    group="apps", version="v1", kind="Deployment", plural="deployments", type=Deployment
)
