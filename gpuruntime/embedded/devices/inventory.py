"""The scheduler's view of devices: which are taken, and what a Pod's claims get on a node."""

from collections.abc import Callable, Container
from typing import Final

import attrs

from gpuruntime.embedded.controllers.informers import BY_NODE, Informers
from gpuruntime.embedded.devices.allocator import Allocator, DeviceId, Matcher
from gpuruntime.models.kubernetes.devices import Allocation, NodeTerms, ResourceClaim
from gpuruntime.models.kubernetes.metadata import Key

CANNOT_ALLOCATE: Final = "cannot allocate all claims"
NOT_AVAILABLE: Final = "resourceclaim not available on the node"
SEVERAL_NODES: Final = Key("", "")

NodeMatch = Callable[[NodeTerms, str], bool]


@attrs.frozen(kw_only=True, slots=True)
class Decided:
    """An allocation that was decided for a Pod, and that its claim does not show yet."""

    claim_uid: str
    pod_uid: str
    allocation: Allocation


class DeviceInventory:
    """Devices of allocated claims and of decisions in flight; no method awaits.

    The devices are a set and no count, as in kube-scheduler: if two claims hold one device, the
    first that is freed frees it.
    """

    def __init__(self, informers: Informers) -> None:
        self._informers = informers
        self._matcher = Matcher()
        self._taken: set[DeviceId] = set()
        self._pending: dict[Key, Decided] = {}

    def claim(self, key: Key) -> ResourceClaim | None:
        return self._informers.device_claims.store.get(key)

    def update(self, old: ResourceClaim | None, new: ResourceClaim | None) -> bool:
        """Follow a claim's change; return whether it freed a device."""
        before, after = _devices(old), _devices(new)
        self._taken -= before - after
        self._taken |= after - before
        return bool(before - after)

    def reserve(self, claim: ResourceClaim, allocation: Allocation, pod_uid: str) -> None:
        """Take the devices until the claim shows the allocation, or the Pod's `release`."""
        key, uid = claim.metadata.key, claim.metadata.uid
        self._pending[key] = Decided(claim_uid=uid, pod_uid=pod_uid, allocation=allocation)

    def release(self, key: Key, pod_uid: str) -> None:
        """Forget what was decided for this Pod; do nothing if nothing was."""
        if key in self._pending and self._pending[key].pod_uid == pod_uid:
            del self._pending[key]

    def pending(self, claim: ResourceClaim, pod_uid: str) -> Allocation | None:
        found = self._pending.get(claim.metadata.key)
        is_its = found and (found.claim_uid, found.pod_uid) == (claim.metadata.uid, pod_uid)
        return found.allocation if found and is_its else None

    def view(self, claims: tuple[ResourceClaim, ...], match: NodeMatch) -> "ClaimView":
        in_flight = {
            result.identity
            for each in self._pending.values()
            for result in each.allocation.devices.results
        }
        allocator = Allocator(
            classes=lambda name: self._informers.device_classes.store.get(Key("", name)),
            taken=frozenset(self._taken | in_flight),
            matcher=self._matcher,
        )
        slices = self._informers.device_slices.store
        shared = slices.by_index(BY_NODE, SEVERAL_NODES)

        def allocate(node: str) -> tuple[Allocation, ...] | None:
            selected = (
                each
                for each in shared
                if each.spec.allNodes
                or (each.spec.nodeSelector is not None and match(each.spec.nodeSelector, node))
            )
            local = slices.by_index(BY_NODE, Key("", node))
            return allocator.allocate(view.missing, (*local, *selected))

        view = ClaimView(claims=claims, match=match, allocate=allocate)
        view.refusal = _refusal(view.missing, allocator, self._pending)
        return view


@attrs.define(kw_only=True, eq=False)
class ClaimView:
    """The claims of one Pod during one decision.

    `refusal` holds for all nodes. `unavailable` are the allocated claims that a node has not.
    """

    claims: tuple[ResourceClaim, ...]
    match: NodeMatch
    allocate: Callable[[str], tuple[Allocation, ...] | None]
    refusal: str = ""
    unavailable: dict[str, ResourceClaim] = attrs.field(factory=dict)
    _allocations: dict[str, tuple[Allocation, ...] | None] = attrs.field(factory=dict)

    @property
    def missing(self) -> tuple[ResourceClaim, ...]:
        return tuple(each for each in self.claims if each.status.allocation is None)

    def reason_against(self, node: str, *, is_trial: bool = False) -> str:
        """Return why the claims do not fit the node, or an empty text.

        Raise AllocationError if the scheduler reports an error. A trial is not remembered.
        """
        elsewhere = [each for each in self.claims if not self._is_on(each, node)]
        if self.missing:
            if node not in self._allocations:
                self._allocations[node] = self.allocate(node)
            if self._allocations[node] is None:
                return CANNOT_ALLOCATE
        if elsewhere and not is_trial:
            self.unavailable |= {each.metadata.uid: each for each in elsewhere}
        return NOT_AVAILABLE if elsewhere else ""

    def allocations(self, node: str) -> tuple[tuple[ResourceClaim, Allocation], ...]:
        found = self._allocations.get(node)
        return tuple(zip(self.missing, found, strict=True)) if found else ()

    def to_take_back(self, pod_uid: str) -> ResourceClaim | None:
        """Return a claim whose allocation may be cleared: no other Pod is entered in it."""
        for claim in self.unavailable.values():
            if {each.uid for each in claim.status.reservedFor} <= {pod_uid}:
                return claim
        return None

    def _is_on(self, claim: ResourceClaim, node: str) -> bool:
        allocation = claim.status.allocation
        if allocation is None or allocation.nodeSelector is None:
            return True
        return self.match(allocation.nodeSelector, node)


def _refusal(
    missing: tuple[ResourceClaim, ...], allocator: Allocator, pending: Container[Key]
) -> str:
    for claim in missing:
        if claim.metadata.key in pending:
            return f"resource claim {claim.metadata.key} is in the process of being allocated"
        for request in claim.spec.devices.requests:
            asks = {f"{request.name}/{each.name}": each for each in request.firstAvailable}
            if request.exactly is not None:
                asks = {request.name: request.exactly}
            for name, ask in asks.items():
                if allocator.classes(ask.deviceClassName) is None:
                    return f"request {name}: device class {ask.deviceClassName} does not exist"
    return ""


def _devices(claim: ResourceClaim | None) -> set[DeviceId]:
    allocation = claim.status.allocation if claim else None
    return {each.identity for each in allocation.devices.results} if allocation else set()
