"""Preemption: the least harmful set of Pods that must leave for a more important one."""

from collections.abc import Iterable, Mapping
from math import inf
from typing import Final

import attrs

from gpuruntime.embedded.scheduler.node_fit import Obstacle, obstacle, refusal
from gpuruntime.embedded.scheduler.node_resources import (
    FreeResources,
    Needs,
    Seat,
    with_seats,
    without_seats,
)

FOREBODE: Final = "no new claims to deallocate, preemption:"
NEVER: Final = "not eligible due to preemptionPolicy=Never."
ALREADY: Final = "not eligible due to a terminating pod on the nominated node."

_NOT_HELPFUL: Final = Obstacle(("Preemption is not helpful for scheduling",))
_NO_VICTIMS: Final = Obstacle(("No preemption victims found for incoming pod",))


@attrs.frozen(slots=True)
class Eviction:
    """A node, and the Pods that must leave it before the preemptor can be assigned."""

    node: str
    victims: tuple[Seat, ...]


def preempt(
    needs: Needs,
    rooms: Mapping[str, FreeResources],
    obstacles: Mapping[str, Obstacle],
    *,
    reserved: Mapping[str, tuple[Seat, ...]],
    nominated: str = "",
) -> Eviction | str:
    """Return the least harmful eviction, or a text that says why there is none.

    `obstacles` holds the obstacle of each node. `reserved` holds by node the nominated Pods that
    are at least as important.
    """
    if not needs.may_preempt:
        return NEVER
    if _waits_for_victims(needs, rooms.get(nominated)):
        return ALREADY
    evictions: list[Eviction] = []
    failures: list[Obstacle] = []
    for name, met in obstacles.items():
        found = (
            _NOT_HELPFUL if met.is_final else _victims(needs, rooms[name], reserved.get(name, ()))
        )
        if isinstance(found, Obstacle):
            failures.append(found)
        else:
            evictions.append(Eviction(name, found))
    if evictions:
        return min(evictions, key=_harm)
    return refusal(failures, len(rooms))


def _waits_for_victims(needs: Needs, room: FreeResources | None) -> bool:
    if room is None:
        return False
    return any(
        seat.is_preempted and seat.priority < needs.priority for seat in room.seats.values()
    )


def _victims(
    needs: Needs, room: FreeResources, reserved: Iterable[Seat]
) -> tuple[Seat, ...] | Obstacle:
    """Return the Pods that must leave; of all less important ones, the most important stay if they
    fit.
    """
    lower = [seat for seat in room.seats.values() if seat.priority < needs.priority]
    if not lower:
        return _NO_VICTIMS
    used = without_seats(with_seats(room.used, reserved), lower)
    met = obstacle(needs, room.facts, used)
    if met is not None:
        return met
    victims = []
    for seat in sorted(lower, key=_importance):
        kept = with_seats(used, (seat,))
        if obstacle(needs, room.facts, kept) is None:
            used = kept
        else:
            victims.append(seat)
    return tuple(victims)


def _importance(seat: Seat) -> tuple[int, float, str]:
    """Sort the most important first, of equals the one that has run longest."""
    return -seat.priority, _began(seat), seat.uid


def _harm(eviction: Eviction) -> tuple[object, ...]:
    """Sort by harm: highest priority, sum of priorities, number, and how long they have run."""
    priorities = [seat.priority for seat in eviction.victims]
    highest = max(priorities, default=0)
    first_began = min(
        (_began(seat) for seat in eviction.victims if seat.priority == highest), default=0.0
    )
    # Kubernetes shifts priorities above zero, so that more victims are always more harm.
    lifted = sum(priority + 2**31 for priority in priorities)
    return highest, lifted, len(priorities), -first_began, eviction.node


def _began(seat: Seat) -> float:
    """Return the start time; a Pod that has not started counts as the youngest."""
    return seat.started_at.timestamp() if seat.started_at else inf
