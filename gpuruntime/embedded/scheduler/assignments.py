"""The scheduler's view of the cluster: which Pods are assigned and nominated to which nodes."""

from collections.abc import Mapping

from gpuruntime.embedded.scheduler.node_resources import (
    FreeResources,
    Needs,
    NodeFacts,
    Seat,
    with_seats,
)

NOBODY: Mapping[str, Seat] = {}


class Assignments:
    """Assigned and nominated Pods, kept current by events and decisions; no method awaits."""

    def __init__(self) -> None:
        # The existing nodes.
        self.rooms: dict[str, FreeResources] = {}
        # Includes nodes that are gone or not there yet while Pods are assigned to them.
        self._all_rooms: dict[str, FreeResources] = {}
        self._node_of: dict[str, str] = {}
        self._promised: dict[str, dict[str, Seat]] = {}
        self._promise_of: dict[str, str] = {}

    def put_node(self, facts: NodeFacts) -> bool:
        """Add or update a node; return whether that may matter to a waiting Pod."""
        room = self._all_rooms.setdefault(facts.name, FreeResources(facts))
        is_news = facts.name not in self.rooms or room.facts != facts
        room.facts = facts
        self.rooms[facts.name] = room
        return is_news

    def remove_node(self, name: str) -> None:
        self.rooms.pop(name, None)

    def seat(self, seat: Seat, node: str) -> None:
        """Assign a Pod, which ends its nomination."""
        self.break_promise(seat.uid)
        if self._node_of.get(seat.uid, node) != node:
            self.unseat(seat.uid)
        if node not in self._all_rooms:
            self._all_rooms[node] = FreeResources(NodeFacts.absent(node))
        self._node_of[seat.uid] = node
        self._all_rooms[node].put(seat)

    def unseat(self, uid: str) -> bool:
        """Remove a Pod's assignment; return whether it had one."""
        node = self._node_of.pop(uid, None)
        if node is None:
            return False
        self._all_rooms[node].remove(uid)
        return True

    def is_seated(self, uid: str) -> bool:
        return uid in self._node_of

    def promise(self, seat: Seat, node: str) -> None:
        """Keep room on the node for a Pod, except against Pods of higher priority."""
        self.break_promise(seat.uid)
        self._promised.setdefault(node, {})[seat.uid] = seat
        self._promise_of[seat.uid] = node

    def break_promise(self, uid: str) -> bool:
        """Remove a Pod's nomination; return whether it had one."""
        node = self._promise_of.pop(uid, None)
        if node is None:
            return False
        del self._promised[node][uid]
        return True

    def promised_to(self, uid: str) -> str:
        """Return the node to which the Pod is nominated, or an empty text."""
        return self._promise_of.get(uid, "")

    def reserved(self, uid: str, needs: Needs) -> dict[str, tuple[Seat, ...]]:
        """Return by node the nominated Pods whose room this Pod must leave free."""
        return {
            node: found
            for node, seats in self._promised.items()
            if (found := _others(seats, uid, needs.priority))
        }

    def lesser_promises(self, node: str, priority: int) -> list[Seat]:
        """Return the nominations that a preemptor of this priority ends on the node."""
        promised = self._promised.get(node, NOBODY)
        return [seat for seat in promised.values() if seat.priority < priority]

    def used(
        self, room: FreeResources, reserved: Mapping[str, tuple[Seat, ...]]
    ) -> Mapping[str, int]:
        kept = reserved.get(room.facts.name)
        return with_seats(room.used, kept) if kept else room.used


def _others(seats: Mapping[str, Seat], uid: str, priority: int) -> tuple[Seat, ...]:
    return tuple(seat for seat in seats.values() if seat.uid != uid and seat.priority >= priority)
