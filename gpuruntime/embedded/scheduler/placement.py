"""The decision about one Pod: a node, a preemption, or a refusal."""

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import TypeAlias

import attrs

from gpuruntime.embedded.devices.allocator import AllocationError
from gpuruntime.embedded.devices.inventory import ClaimView
from gpuruntime.embedded.kinds.cluster_objects import Claim, StorageClass
from gpuruntime.embedded.scheduler.assignments import Assignments
from gpuruntime.embedded.scheduler.node_fit import NO_NODES, Obstacle, obstacle, refusal, scores
from gpuruntime.embedded.scheduler.node_resources import Needs, NodeFacts
from gpuruntime.embedded.scheduler.preemption import (
    ALREADY,
    NO_CLAIMS,
    NO_TAKE_BACK,
    NOT_HELPFUL,
    TAKEN_BACK,
    Eviction,
    preempt,
)
from gpuruntime.models.kubernetes.devices import Allocation, ResourceClaim
from gpuruntime.models.kubernetes.metadata import Key


@attrs.frozen(slots=True)
class Place:
    """The Pod fits a node; the claims are those that wait until the Pod's node is chosen."""

    node: str
    claims: tuple[Claim, ...] = ()
    devices: tuple[tuple[ResourceClaim, Allocation], ...] = ()


@attrs.frozen(slots=True)
class Preemption:
    """Other Pods must leave; `words` is the message until they have left."""

    eviction: Eviction
    words: str
    take_back: ResourceClaim | None = None


@attrs.frozen(slots=True)
class Refused:
    words: str
    # The victims of an earlier decision are still terminating.
    keeps_nomination: bool = False
    # A claim for devices whose allocation is cleared, so that it may get one on another node.
    take_back: ResourceClaim | None = None
    is_error: bool = False


Decision: TypeAlias = Place | Preemption | Refused


def place(
    uid: str,
    needs: Needs,
    assignments: Assignments,
    claims: "tuple[Claim, ...] | str",
    rng: Random,
    devices: ClaimView | None = None,
) -> Decision:
    """Decide about one Pod; `claims` comes from `unbound_claims`, and a text refuses the Pod."""
    count = len(assignments.nodes)
    if not count:
        return Refused(NO_NODES)
    if isinstance(claims, str):
        return Refused(f"0/{count} nodes are available: {claims}. not found")
    if devices is not None and devices.refusal:
        unhelpful = refusal([NOT_HELPFUL] * count, count)
        words = f"0/{count} nodes are available: {devices.refusal}. {NO_CLAIMS} {unhelpful}"
        return Refused(words)
    try:
        return _placed(uid, needs, assignments, claims, rng, devices)
    except AllocationError as error:
        return Refused(f'running "DynamicResources" filter plugin: {error}', is_error=True)


def _placed(
    uid: str,
    needs: Needs,
    assignments: Assignments,
    claims: tuple[Claim, ...],
    rng: Random,
    devices: ClaimView | None,
) -> Decision:
    reserved, nominated = assignments.reserved(uid, needs), assignments.nominated_node(uid)
    obstacles, suitable = {}, []
    for name, resources in assignments.nodes.items():
        used = assignments.used(resources, reserved)
        met = obstacle(needs, resources.facts, used)
        if met is None and devices is not None and (why := devices.reason_against(name)):
            met = Obstacle((why,), is_final=True)
        if met is None:
            suitable.append((resources.facts, used))
        else:
            obstacles[name] = met
    if suitable:
        node = _best(needs, suitable, nominated, rng)
        return Place(node, claims, devices.allocations(node) if devices else ())
    words = refusal(obstacles.values(), len(assignments.nodes))
    found = preempt(
        needs,
        assignments.nodes,
        obstacles,
        reserved=reserved,
        nominated=nominated,
        is_out=lambda name: bool(devices and devices.reason_against(name, is_trial=True)),
    )
    take_back = devices.to_take_back(uid) if devices else None
    if isinstance(found, Eviction):
        return Preemption(found, words, take_back)
    prefix = TAKEN_BACK if take_back else NO_TAKE_BACK if devices else NO_CLAIMS
    keeps = found == ALREADY
    return Refused(f"{words} {prefix} {found}", keeps_nomination=keeps, take_back=take_back)


def _best(
    needs: Needs,
    suitable: list[tuple[NodeFacts, Mapping[str, int]]],
    nominated: str,
    rng: Random,
) -> str:
    names = [facts.name for facts, _ in suitable]
    if nominated in names:
        return nominated
    if len(names) == 1:
        return names[0]
    judged = scores(needs, suitable)
    best = max(judged.values())
    return rng.choice([name for name in names if judged[name] == best])


def unbound_claims(
    keys: Iterable[Key],
    claim_of: Callable[[Key], Claim | None],
    class_of: Callable[[str], StorageClass | None],
) -> tuple[Claim, ...] | str:
    """Return the claims that wait for a node, or why the Pod cannot be placed yet."""
    waiting = []
    for key in keys:
        claim = claim_of(key)
        if claim is None:
            return f'persistentvolumeclaim "{key.name}" not found'
        if claim.metadata.deletionTimestamp is not None:
            return f'persistentvolumeclaim "{key.name}" is being deleted'
        if is_bound(claim):
            continue
        storage_class = class_of(claim.spec.storageClassName or "")
        if storage_class is None or not storage_class.waits_for_consumer:
            return "pod has unbound immediate PersistentVolumeClaims"
        waiting.append(claim)
    return tuple(waiting)


def is_bound(claim: Claim) -> bool:
    return claim.status.phase == "Bound" and bool(claim.spec.volumeName)
