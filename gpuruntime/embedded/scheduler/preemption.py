"""Preemption: the least harmful set of Pods that must leave for a more important one."""

from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Final

import attrs

from gpuruntime.embedded.scheduler.node_fit import Obstacle, obstacle, refusal
from gpuruntime.embedded.scheduler.node_resources import (
    Assignment,
    FreeResources,
    Needs,
    with_assigned,
    without_assigned,
)

NO_CLAIMS: Final = "no new claims to deallocate, preemption:"
NO_TAKE_BACK: Final = "still not schedulable, preemption:"
TAKEN_BACK: Final = "deallocation of ResourceClaim completed, preemption:"
NEVER: Final = "not eligible due to preemptionPolicy=Never."
ALREADY: Final = "not eligible due to a terminating pod on the nominated node."

NOT_HELPFUL: Final = Obstacle(("Preemption is not helpful for scheduling",))
_NO_VICTIMS: Final = Obstacle(("No preemption victims found for incoming pod",))


@attrs.frozen(slots=True)
class Eviction:
    """A node, and the Pods that must leave it before the preemptor can be assigned."""

    node: str
    victims: tuple[Assignment, ...]


def preempt(
    needs: Needs,
    nodes: Mapping[str, FreeResources],
    obstacles: Mapping[str, Obstacle],
    *,
    reserved: Mapping[str, tuple[Assignment, ...]],
    nominated: str = "",
    is_out: Callable[[str], bool] = lambda _: False,
) -> Eviction | str:
    """Return the least harmful eviction, or a text that says why there is none.

    `obstacles` holds the obstacle of each node. `reserved` holds by node the nominated Pods that
    are at least as important. No Pod leaves a node that `is_out` for another reason.
    """
    if not needs.may_preempt:
        return NEVER
    if _waits_for_victims(needs, nodes.get(nominated)):
        return ALREADY
    evictions: list[Eviction] = []
    failures: list[Obstacle] = []
    for name, met in obstacles.items():
        found: tuple[Assignment, ...] | Obstacle = NOT_HELPFUL
        if not met.is_final:
            found = _victims(needs, nodes[name], reserved.get(name, ()))
        if not isinstance(found, Obstacle) and is_out(name):
            found = _NO_VICTIMS
        if isinstance(found, Obstacle):
            failures.append(found)
        else:
            evictions.append(Eviction(name, found))
    if evictions:
        return min(evictions, key=_harm)
    return refusal(failures, len(nodes))


def _waits_for_victims(needs: Needs, resources: FreeResources | None) -> bool:
    if resources is None:
        return False
    return any(
        assignment.is_preempted and assignment.priority < needs.priority
        for assignment in resources.assignments.values()
    )


def _victims(
    needs: Needs, resources: FreeResources, reserved: Iterable[Assignment]
) -> tuple[Assignment, ...] | Obstacle:
    """Return the Pods that must leave; less important ones that fit beside the new Pod stay."""
    lower = [
        assignment
        for assignment in resources.assignments.values()
        if assignment.priority < needs.priority
    ]
    if not lower:
        return _NO_VICTIMS
    used = without_assigned(with_assigned(resources.used, reserved), lower)
    met = obstacle(needs, resources.facts, used)
    if met is not None:
        return met
    victims = []
    for assignment in sorted(lower, key=_importance):
        kept = with_assigned(used, (assignment,))
        if obstacle(needs, resources.facts, kept) is None:
            used = kept
        else:
            victims.append(assignment)
    return tuple(victims)


def _importance(assignment: Assignment) -> tuple[int, float, str]:
    """Return a key that sorts important Pods first, of equals the one that has run longest."""
    return -assignment.priority, _began(assignment), assignment.uid


def _harm(eviction: Eviction) -> tuple[object, ...]:
    """Return the harm: highest priority, sum of priorities, number, and how long they ran."""
    priorities = [assignment.priority for assignment in eviction.victims]
    highest = max(priorities, default=0)
    first_began = min(
        (_began(assignment) for assignment in eviction.victims if assignment.priority == highest),
        default=0.0,
    )
    # Kubernetes shifts priorities above zero, so that more victims are always more harm.
    lifted = sum(priority + 2**31 for priority in priorities)
    return highest, lifted, len(priorities), -first_began, eviction.node


def _began(assignment: Assignment) -> float:
    """Return the start time; a Pod that has not started counts as the youngest."""
    return assignment.started_at.timestamp() if assignment.started_at else inf
