"""Values that were observed of a unit: `observation` reads them, and `plan` decides by them."""

from collections.abc import Mapping

import attrs

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.storages import GPUStorage
from gpuruntime.models.kinds.tombstones import Tombstone
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit, selector_of
from gpuruntime.models.kubernetes.network import NETWORK_POLICIES, SERVICES, NetworkPolicy, Service
from gpuruntime.models.kubernetes.pods import Pod
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS, Deployment
from gpuruntime.reconcilers.children.refusals import is_owned_by
from gpuruntime.reconcilers.storage.mount_plan import Mounts
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
    # The unit's own Pods.
    pods: tuple[Pod, ...] = ()
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
    # None if it is not known, or if there is no gateway.
    is_gateway_ready: bool | None = None

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
        return self.runs or bool(self.pods)

    @property
    def selector(self) -> dict[str, str]:
        """Return the labels by which the unit's children select its Pods.

        A Deployment of an older version selects them by name for as long as it exists. Its
        selector cannot be changed, and the Pods that it created have no uid.
        """
        own, selector = self.own_deployment, selector_of(self.unit)
        if own is not None and labels.UNIT_UID not in own.selector:
            del selector[labels.UNIT_UID]
        return selector

    @property
    def left_behind(self) -> tuple[str, ...]:
        """Return the children of an earlier unit of this name; the cluster is collecting them."""
        children = (
            (DEPLOYMENTS.kind, self.deployment),
            (SERVICES.kind, self.service),
            (NETWORK_POLICIES.kind, self.policy),
        )
        return tuple(
            f"{kind} {child.metadata.key}"
            for kind, child in children
            if child is not None and not self.owns(child) and _is_of_a_unit(child)
        )

    def owns(self, child: Deployment | Service | NetworkPolicy | None) -> bool:
        return child is not None and is_owned_by(child, self.unit)


def _is_of_a_unit(child: Deployment | Service | NetworkPolicy) -> bool:
    owner = child.metadata.controller_owner
    return owner is not None and owner.kind == GPU_UNITS.kind
