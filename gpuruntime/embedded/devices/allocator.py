"""The allocator: the first devices of a node that fit all requests of some claims.

Rules and texts are those of kube-scheduler 1.34 with its default features.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import combinations
from typing import Final, TypeAlias

import attrs

from gpuruntime.embedded.devices.selectors import SelectorError, compiled_selector
from gpuruntime.models.kubernetes.devices import (
    ALL_DEVICES,
    AllocatedDevice,
    AllocatedDevices,
    Allocation,
    Device,
    DeviceAsk,
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceTaint,
    DeviceToleration,
    NodeRequirement,
    NodeTerm,
    NodeTerms,
    ResourceClaim,
    ResourceSlice,
)

MOST_DEVICES: Final = 32
MOST_RESULTS: Final = 100_000

DeviceId: TypeAlias = tuple[str, str, str]


class AllocationError(Exception):
    """The allocation failed for good; the text is the scheduler's."""


@attrs.frozen(slots=True, eq=False)
class Candidate:
    """A device of a slice that the node can use."""

    slice: ResourceSlice
    device: Device

    @property
    def identity(self) -> DeviceId:
        spec = self.slice.spec
        return spec.driver, spec.pool.name, self.device.name

    def attribute(self, name: str) -> tuple[str, object] | None:
        """Return kind and value of an attribute by its full name, or None if it has none."""
        domain, _, rest = name.partition("/")
        found = self.device.attributes.get(name)
        if found is None and domain == self.slice.spec.driver:
            found = self.device.attributes.get(rest)
        return next(iter(found.items())) if found else None


@attrs.frozen(kw_only=True, slots=True)
class _Option:
    """A way to fulfil a request: `count` of the candidates."""

    name: str
    count: int
    candidates: tuple[Candidate, ...]


@attrs.frozen(slots=True)
class _Demand:
    """A request of a claim, by its number in the claims, with its options in order."""

    claim: int
    name: str
    options: tuple[_Option, ...]


class Matcher:
    """Remembers which device matches which selector, as long as its slice is unchanged."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str, str], bool] = {}

    def matches(self, candidate: Candidate, expression: str) -> bool:
        """Return whether the device matches; raise SelectorError with CEL's words."""
        metadata = candidate.slice.metadata
        key = metadata.uid, metadata.resourceVersion, candidate.device.name, expression
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= MOST_RESULTS:
                self._known.clear()
            driver = candidate.slice.spec.driver
            found = compiled_selector(expression).matches(driver, candidate.device)
            self._known[key] = found
        return found


@attrs.frozen(kw_only=True, slots=True)
class Allocator:
    """Finds devices for claims on one node; `taken` are the devices of other allocations."""

    classes: Callable[[str], DeviceClass | None]
    taken: frozenset[DeviceId]
    matcher: Matcher

    def allocate(
        self, claims: tuple[ResourceClaim, ...], slices: Iterable[ResourceSlice]
    ) -> tuple[Allocation, ...] | None:
        """Return an allocation for each claim, or None if the devices do not suffice.

        Raise AllocationError if the scheduler would report an error instead.
        """
        pools = _pools(slices)
        demands = []
        for number, claim in enumerate(claims):
            own = [self._demand(number, claim, each, pools) for each in _requests(claim)]
            least = sum(min(option.count for option in demand.options) for demand in own)
            if least > MOST_DEVICES:
                raise AllocationError(
                    f"claim {claim.metadata.key}: number of requested devices {least} exceeds the "
                    f"claim limit of {MOST_DEVICES}"
                )
            demands += own
        constraints = tuple(claim.spec.devices.constraints for claim in claims)
        found = next(_solutions(tuple(demands), constraints, ()), None)
        if found is None:
            return None
        return tuple(
            _allocation([(name, each) for index, name, each in found if index == number])
            for number in range(len(claims))
        )

    def _demand(
        self,
        number: int,
        claim: ResourceClaim,
        request: DeviceRequest,
        pools: Mapping[tuple[str, str], list[ResourceSlice]],
    ) -> _Demand:
        asks = {f"{request.name}/{ask.name}": ask for ask in request.firstAvailable}
        if request.exactly is not None:
            asks = {request.name: request.exactly}
        options = [self._option(claim, name, ask, pools) for name, ask in asks.items()]
        return _Demand(number, request.name, tuple(options))

    def _option(
        self,
        claim: ResourceClaim,
        name: str,
        ask: DeviceAsk,
        pools: Mapping[tuple[str, str], list[ResourceSlice]],
    ) -> _Option:
        needs_all = ask.allocationMode == ALL_DEVICES
        if needs_all:
            _check_complete(claim, name, pools)
        fitting = [
            candidate
            for slices in pools.values()
            for each in slices
            for device in each.spec.devices
            if needs_all or (each.spec.driver, each.spec.pool.name, device.name) not in self.taken
            if self._suits(candidate := Candidate(each, device), claim, ask)
        ]
        free = [each for each in fitting if each.identity not in self.taken]
        count = len(fitting) if needs_all else ask.count
        return _Option(name=name, count=count, candidates=tuple(free))

    def _suits(self, candidate: Candidate, claim: ResourceClaim, ask: DeviceAsk) -> bool:
        device_class = self.classes(ask.deviceClassName)
        if device_class is None:
            return False
        by_class = f"class {device_class.metadata.name}"
        return (
            self._selected(candidate, device_class.spec.selectors, by_class)
            and self._selected(candidate, ask.selectors, f"claim {claim.metadata.key}")
            and all(_is_tolerated(each, ask.tolerations) for each in candidate.device.taints)
        )

    def _selected(
        self, candidate: Candidate, selectors: tuple[DeviceSelector, ...], whose: str
    ) -> bool:
        for number, selector in enumerate(selectors):
            try:
                if not self.matcher.matches(candidate, selector.cel.expression):
                    return False
            except SelectorError as error:
                why = f"{whose}: selector #{number}: CEL runtime error: {error}"
                raise AllocationError(why) from error
        return True


def _requests(claim: ResourceClaim) -> tuple[DeviceRequest, ...]:
    return claim.spec.devices.requests


def _pools(slices: Iterable[ResourceSlice]) -> dict[tuple[str, str], list[ResourceSlice]]:
    """Return the slices of each pool in its highest generation, in the order of their names."""
    pools: dict[tuple[str, str], list[ResourceSlice]] = {}
    for each in sorted(slices, key=lambda one: one.metadata.name):
        key = each.spec.driver, each.spec.pool.name
        known = pools.setdefault(key, [each])
        newer = each.spec.pool.generation - known[0].spec.pool.generation
        if newer > 0:
            pools[key] = [each]
        elif newer == 0 and each is not known[0]:
            known.append(each)
    for (_, pool), known in pools.items():
        names = [device.name for each in known for device in each.spec.devices]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise AllocationError(f"pool {pool} is invalid: duplicate device name {name}")
    return pools


def _check_complete(
    claim: ResourceClaim, name: str, pools: Mapping[tuple[str, str], list[ResourceSlice]]
) -> None:
    for (driver, pool), slices in pools.items():
        if len(slices) != slices[0].spec.pool.resourceSliceCount:
            raise AllocationError(
                f"claim {claim.metadata.key}, request {name}: asks for all devices, but resource "
                f"pool {driver}/{pool} is currently being updated"
            )


def _is_tolerated(taint: DeviceTaint, tolerations: Iterable[DeviceToleration]) -> bool:
    return any(
        each.effect in ("", taint.effect)
        and each.key in ("", taint.key)
        and (each.operator == "Exists" or (bool(each.key) and each.value == taint.value))
        for each in tolerations
    )


_Chosen: TypeAlias = tuple[tuple[int, str, Candidate], ...]


def _solutions(
    demands: tuple[_Demand, ...],
    constraints: tuple[tuple[DeviceConstraint, ...], ...],
    chosen: _Chosen,
) -> Iterator[_Chosen]:
    """Yield the choices of devices for all demands, the first fit first."""
    if not demands:
        yield chosen
        return
    demand, used = demands[0], {each.identity for _, _, each in chosen}
    own = sum(index == demand.claim for index, _, _ in chosen)
    for option in demand.options:
        free = [each for each in option.candidates if each.identity not in used]
        if not option.count or option.count > len(free) or own + option.count > MOST_DEVICES:
            continue
        for devices in combinations(free, option.count):
            more = (*chosen, *((demand.claim, option.name, each) for each in devices))
            if all(_holds(each, demand.claim, more) for each in constraints[demand.claim]):
                yield from _solutions(demands[1:], constraints, more)


def _holds(constraint: DeviceConstraint, claim: int, chosen: _Chosen) -> bool:
    """Return whether the claim's chosen devices agree in the attribute, and all have it."""
    values = {
        candidate.attribute(constraint.matchAttribute)
        for index, name, candidate in chosen
        if index == claim
        if not constraint.requests
        or name in constraint.requests
        or name.partition("/")[0] in constraint.requests
    }
    return None not in values and len(values) <= 1


def _allocation(devices: list[tuple[str, Candidate]]) -> Allocation:
    results = tuple(
        AllocatedDevice(request=name, driver=driver, pool=pool, device=device)
        for name, each in devices
        for driver, pool, device in [each.identity]
    )
    return Allocation(
        devices=AllocatedDevices(results=results),
        nodeSelector=_node_selector([each.slice for _, each in devices]),
    )


def _node_selector(slices: list[ResourceSlice]) -> NodeTerms | None:
    """Return the nodes that can use all devices, or None if all nodes can."""
    for each in slices:
        if each.spec.nodeName:
            name = NodeRequirement(
                key="metadata.name", operator="In", values=(each.spec.nodeName,)
            )
            return NodeTerms(nodeSelectorTerms=(NodeTerm(matchFields=(name,)),))
    terms = [
        each.spec.nodeSelector.nodeSelectorTerms[0] for each in slices if each.spec.nodeSelector
    ]
    expressions = dict.fromkeys(one for term in terms for one in term.matchExpressions)
    fields = dict.fromkeys(one for term in terms for one in term.matchFields)
    if not expressions and not fields:
        return None
    term = NodeTerm(matchExpressions=tuple(expressions), matchFields=tuple(fields))
    return NodeTerms(nodeSelectorTerms=(term,))
