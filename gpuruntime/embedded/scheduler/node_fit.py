"""Nodes that fit a Pod, how well they fit, and the messages for those that do not.

Rules and texts are those of kube-scheduler. The first rule that a node fails gives its reasons,
equal reasons are counted, and the counts are sorted as texts.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from gpuruntime.embedded.kinds.cluster_objects import Taint
from gpuruntime.embedded.kinds.pod_objects import Expression, NodeSelectorTerm, Toleration
from gpuruntime.embedded.scheduler.node_resources import PODS, Needs, NodeFacts, Requests
from gpuruntime.models.kubernetes.devices import NodeRequirement, NodeTerm, NodeTerms

UNSCHEDULABLE: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
NO_NODES: Final = "no nodes available to schedule pods"
MOST: Final = 100

_WEIGHT_OF_TAINTS: Final = 3
_WEIGHT_OF_AFFINITY: Final = 2


@attrs.frozen(slots=True)
class Obstacle:
    """The reasons why a Pod does not fit a node; a final one holds even if other Pods leave."""

    reasons: tuple[str, ...]
    is_final: bool = False


_CORDONED: Final = Obstacle(("node(s) were unschedulable",), is_final=True)
_TAINTED: Final = Obstacle(("node(s) had untolerated taint(s)",), is_final=True)
_MISMATCHED: Final = Obstacle(
    ("node(s) didn't match Pod's node affinity/selector",), is_final=True
)


def obstacle(needs: Needs, facts: NodeFacts, used: Mapping[str, int]) -> Obstacle | None:
    """Return the obstacle, or None if the Pod fits."""
    return _unsuitable(needs, facts) or _shortage(needs.requests, facts.allocatable, used)


def refusal(obstacles: Iterable[Obstacle], node_count: int) -> str:
    """Return the message for a Pod that fits no node."""
    counts = Counter(reason for each in obstacles for reason in each.reasons)
    listed = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    return f"0/{node_count} nodes are available: {listed}."


def scores(
    needs: Needs, candidates: Iterable[tuple[NodeFacts, Mapping[str, int]]]
) -> dict[str, int]:
    """Return a score for each node by the Pod's preferences, soft taints and free resources."""
    judged = [
        (facts, _preference(needs, facts), _soft_taints(needs, facts), _free(needs, facts, used))
        for facts, used in candidates
    ]
    top_preference = max((preference for _, preference, _, _ in judged), default=0)
    top_taints = max((taints for _, _, taints, _ in judged), default=0)
    return {
        facts.name: _WEIGHT_OF_AFFINITY
        * (MOST * preference // top_preference if preference else 0)
        + _WEIGHT_OF_TAINTS * (MOST - (MOST * taints // top_taints if taints else 0))
        + free
        for facts, preference, taints, free in judged
    }


def _unsuitable(needs: Needs, facts: NodeFacts) -> Obstacle | None:
    if facts.is_unschedulable and not _is_tolerated(UNSCHEDULABLE, needs.tolerations):
        return _CORDONED
    hard = (taint for taint in facts.taints if taint.effect in ("NoSchedule", "NoExecute"))
    if any(not _is_tolerated(taint, needs.tolerations) for taint in hard):
        return _TAINTED
    if any(facts.labels.get(key) != value for key, value in needs.node_selector):
        return _MISMATCHED
    required = needs.affinity.requiredDuringSchedulingIgnoredDuringExecution
    if required and not any(_matches(term, facts) for term in required.nodeSelectorTerms):
        return _MISMATCHED
    return None


def _shortage(
    requests: Requests, allocatable: Mapping[str, int], used: Mapping[str, int]
) -> Obstacle | None:
    reasons: list[str] = []
    is_final = False
    for name, number in requests:
        room = allocatable.get(name, 0)
        if number > room - used.get(name, 0):
            reasons.append("Too many pods" if name == PODS else f"Insufficient {name}")
            is_final = is_final or (number > room and name != PODS)
    return Obstacle(tuple(reasons), is_final=is_final) if reasons else None


def _is_tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(_tolerates(each, taint) for each in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


def matches_terms(terms: NodeTerms, facts: NodeFacts) -> bool:
    """Return whether the node matches a term of a device's node selector."""
    return any(_matches(term, facts) for term in terms.nodeSelectorTerms)


def _matches(term: NodeSelectorTerm | NodeTerm, facts: NodeFacts) -> bool:
    """Return whether the node matches; an empty term matches nothing."""
    if not term.matchExpressions and not term.matchFields:
        return False
    return all(_holds(each, facts.labels.get(each.key)) for each in term.matchExpressions) and all(
        _holds(each, facts.name if each.key == "metadata.name" else None)
        for each in term.matchFields
    )


def _holds(expression: Expression | NodeRequirement, value: str | None) -> bool:
    match expression.operator:
        case "In":
            return value in expression.values
        case "NotIn":
            return value not in expression.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(expression, value)
        case _:
            return False


def _compares(expression: Expression | NodeRequirement, value: str | None) -> bool:
    try:
        number, bound = int(value or ""), int("".join(expression.values))
    except ValueError:
        return False
    return number > bound if expression.operator == "Gt" else number < bound


def _preference(needs: Needs, facts: NodeFacts) -> int:
    preferred = needs.affinity.preferredDuringSchedulingIgnoredDuringExecution
    return sum(each.weight for each in preferred if _matches(each.preference, facts))


def _soft_taints(needs: Needs, facts: NodeFacts) -> int:
    soft = (taint for taint in facts.taints if taint.effect == "PreferNoSchedule")
    return sum(not _is_tolerated(taint, needs.tolerations) for taint in soft)


def _free(needs: Needs, facts: NodeFacts, used: Mapping[str, int]) -> int:
    """Return the share of cpu and memory that would stay free, in hundredths."""
    requested = dict(needs.requests)
    parts = [
        MOST * max(0, room - used.get(name, 0) - requested.get(name, 0)) // room
        for name in ("cpu", "memory")
        if (room := facts.allocatable.get(name, 0))
    ]
    return sum(parts) // len(parts) if parts else 0
