"""Values that were observed of a unit: `observation` reads them, and `plan` decides by them."""

from collections.abc import Mapping

import attrs

from gpuruntime.models.kinds.storages import GPUStorage
from gpuruntime.models.kinds.tombstones import Tombstone
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.network import NetworkPolicy, Service
from gpuruntime.models.kubernetes.pods import Pod
from gpuruntime.models.kubernetes.workloads import Deployment
from gpuruntime.reconcilers.children.refusals import is_owned_by
from gpuruntime.reconcilers.storage.mount_plan import Mounts
from gpuruntime.reconcilers.unit.earlier_pods import own_pods
from gpuruntime.reconcilers.unit.pod_template import Placement
from gpuruntime.reconcilers.unit.start_plan import Candidate, Gate, Start, gate
from gpuruntime.strict.structure import Problem


@attrs.frozen(kw_only=True, slots=True)
class FirstStart:
    """Live values by which a unit that has never started may start.

    `stock` has the name of the unit's source. `own_stock` is stock that the unit may take again,
    from the cache.
    """

    has_started: bool = False
    rivals: tuple[Candidate, ...] = ()
    tombstone: Tombstone | None = None
    stock: GPUUnit | None = None
    unsettled_seconds: float = 0.0
    own_stock: tuple[GPUUnit, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class Observed:
    """A unit and the objects that its plan depends on; its children may have other owners."""

    unit: GPUUnit
    is_stock: bool = False
    problems: tuple[Problem, ...] = ()
    # None for stock, and for a unit that has started.
    first_start: FirstStart | None = None
    deployment: Deployment | None = None
    service: Service | None = None
    policy: NetworkPolicy | None = None
    # The Pods under the unit's name, and those of them that an earlier unit has left.
    pods: tuple[Pod, ...] = ()
    earlier_pods: tuple[Pod, ...] = ()
    # Whether a live list has Pods that the cache lacks; only read before a policy is deleted.
    has_unseen_pods: bool = False
    # Whether a live read shows that the unit is gone; only read if it lacks a child.
    is_gone: bool = False
    # None if the unit needs no storage now.
    mounts: Mounts | None = None
    # The existing ones of the storages that the spec mounts.
    storages: Mapping[str, GPUStorage] = attrs.field(factory=dict)
    placement: Placement = Placement()
    # The unit under the name of the template of a worker.
    template: GPUUnit | None = None
    # The oldest unit that declares the function of a template.
    function_owner: GPUUnit | None = None

    @property
    def gate(self) -> Gate:
        start = self.first_start
        if start is None:
            return Start()
        return gate(
            Candidate(unit=self.unit, has_started=start.has_started),
            rivals=start.rivals,
            tombstone=start.tombstone,
            stock=start.stock,
            unsettled_seconds=start.unsettled_seconds,
        )

    @property
    def own_deployment(self) -> Deployment | None:
        return self.deployment if self.owns(self.deployment) else None

    @property
    def runs(self) -> bool:
        deployment = self.own_deployment
        return deployment is not None and deployment.status.replicas > 0

    @property
    def has_pods(self) -> bool:
        """Return whether Pods of the unit run, start or terminate."""
        return self.runs or bool(self.own_pods(self.own_deployment))

    @property
    def is_obstructed(self) -> bool:
        """Return whether another owner has the name of a child."""
        children = (self.deployment, self.service, self.policy)
        return any(each is not None and not self.owns(each) for each in children)

    def owns(self, child: Deployment | Service | NetworkPolicy | None) -> bool:
        return child is not None and is_owned_by(child, self.unit)

    def own_pods(self, deployment: Deployment | None) -> tuple[Pod, ...]:
        """Return the unit's own Pods; `deployment` is its own, as it is by now."""
        return own_pods(self.unit, self.pods, has_deployment=deployment is not None)
