"""The decision about one Pod: a node, a preemption, or a refusal."""

from collections.abc import Callable, Iterable
from random import Random
from typing import TypeAlias

import attrs

from gpuruntime.embedded.kinds.cluster_objects import Claim, StorageClass
from gpuruntime.embedded.scheduler.assignments import Assignments
from gpuruntime.embedded.scheduler.node_fit import NO_NODES, obstacle, refusal, scores
from gpuruntime.embedded.scheduler.node_resources import Needs
from gpuruntime.embedded.scheduler.preemption import ALREADY, PREEMPTION_PREFIX, Eviction, preempt
from gpuruntime.models.kubernetes.metadata import Key


@attrs.frozen(slots=True)
class Place:
    """The Pod fits a node; the claims are those that wait until the Pod's node is chosen."""

    node: str
    claims: tuple[Claim, ...] = ()


@attrs.frozen(slots=True)
class Preemption:
    """Other Pods must leave; `words` is the message until they have left."""

    eviction: Eviction
    words: str


@attrs.frozen(slots=True)
class Refused:
    words: str
    # The victims of an earlier decision are still terminating.
    keeps_nomination: bool = False


Decision: TypeAlias = Place | Preemption | Refused


def place(
    uid: str,
    needs: Needs,
    assignments: Assignments,
    claims: "tuple[Claim, ...] | str",
    rng: Random,
) -> Decision:
    """Decide about one Pod; `claims` comes from `unbound_claims`, and a text refuses the Pod."""
    if not assignments.nodes:
        return Refused(NO_NODES)
    if isinstance(claims, str):
        return Refused(f"0/{len(assignments.nodes)} nodes are available: {claims}. not found")
    reserved, nominated = assignments.reserved(uid, needs), assignments.nominated_node(uid)
    obstacles, suitable = {}, []
    for name, resources in assignments.nodes.items():
        used = assignments.used(resources, reserved)
        met = obstacle(needs, resources.facts, used)
        if met is None:
            suitable.append((resources.facts, used))
        else:
            obstacles[name] = met
    names = [facts.name for facts, _ in suitable]
    if nominated in names:
        return Place(nominated, claims)
    if len(names) == 1:
        return Place(names[0], claims)
    if names:
        judged = scores(needs, suitable)
        best = max(judged.values())
        return Place(rng.choice([name for name in names if judged[name] == best]), claims)
    words = refusal(obstacles.values(), len(assignments.nodes))
    found = preempt(needs, assignments.nodes, obstacles, reserved=reserved, nominated=nominated)
    if isinstance(found, Eviction):
        return Preemption(found, words)
    return Refused(f"{words} {PREEMPTION_PREFIX} {found}", keeps_nomination=found == ALREADY)


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
