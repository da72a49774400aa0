"""The results of an audit: which invariant is broken, by which objects, and what to do."""

from collections.abc import Hashable, Mapping
from typing import Any, Final, TypeAlias

import attrs

from gpuruntime.models.kinds.pools import STOCK_POOLS
from gpuruntime.models.kinds.storages import GPU_STORAGES
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.cluster import CONFIG_MAPS
from gpuruntime.models.kubernetes.metadata import KubernetesObject
from gpuruntime.models.kubernetes.network import NETWORK_POLICIES, SERVICES
from gpuruntime.models.kubernetes.pods import PODS
from gpuruntime.models.kubernetes.resources import Resource
from gpuruntime.models.kubernetes.volumes import JOBS, VOLUME_CLAIMS
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS

AUDITED: Final[tuple[Resource[Any], ...]] = (
    GPU_UNITS,
    STOCK_POOLS,
    GPU_STORAGES,
    DEPLOYMENTS,
    SERVICES,
    NETWORK_POLICIES,
    PODS,
    VOLUME_CLAIMS,
    JOBS,
    CONFIG_MAPS,
)
_KINDS: Mapping[type, str] = {each.type: each.kind for each in AUDITED}

# A suspicion that persists under one identity is the same suspicion.
Identity: TypeAlias = Hashable


@attrs.frozen(kw_only=True, slots=True, order=True)
class ObjectRef:
    kind: str
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@attrs.frozen(kw_only=True, slots=True)
class Breach:
    """A broken invariant. `message` says what is wrong, `remedy` what to do about it."""

    rule: str
    objects: tuple[ObjectRef, ...]
    message: str
    remedy: str


@attrs.frozen(kw_only=True, slots=True)
class Finding:
    """The finding of a rule in one snapshot.

    Correct operation may show it for up to `allowed_seconds` without a gap, or never if that is 0.
    The time starts again when `version` changes, such as with the next attempt of a claim.
    """

    objects: tuple[ObjectRef, ...]
    message: str
    remedy: str
    allowed_seconds: float = 0.0
    version: str = ""


@attrs.frozen(kw_only=True, slots=True)
class Suspicion:
    """A finding of a rule, which is a breach once it has lasted for longer than it may."""

    rule: str
    finding: Finding

    @property
    def identity(self) -> Identity:
        return (self.rule, self.finding.objects, self.finding.version)

    @property
    def breach(self) -> Breach:
        return Breach(
            rule=self.rule,
            objects=self.finding.objects,
            message=self.finding.message,
            remedy=self.finding.remedy,
        )

    def is_breach_at(self, age_seconds: float) -> bool:
        return age_seconds >= self.finding.allowed_seconds


def reference_to(value: KubernetesObject) -> ObjectRef:
    metadata = value.metadata
    return ObjectRef(
        kind=_KINDS[type(value)],
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
    )
