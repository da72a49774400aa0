"""The scheduler's view of the cluster: which Pods are assigned and nominated to which nodes."""

from collections.abc import Mapping

from gpuruntime.embedded.scheduler.node_resources import (
    Assignment,
    FreeResources,
    Needs,
    NodeFacts,
    with_assigned,
)

NO_PODS: Mapping[str, Assignment] = {}


class Assignments:
    """Assigned and nominated Pods, kept current by events and decisions; no method awaits."""

    def __init__(self) -> None:
        # The existing nodes.
        self.nodes: dict[str, FreeResources] = {}
        # Includes nodes that are gone or not there yet while Pods are assigned to them.
        self._all_nodes: dict[str, FreeResources] = {}
        self._node_of: dict[str, str] = {}
        self._nominated: dict[str, dict[str, Assignment]] = {}
        self._nominated_node_of: dict[str, str] = {}

    def put_node(self, facts: NodeFacts) -> bool:
        """Add or update a node; return whether that may matter to a waiting Pod."""
        resources = self._all_nodes.setdefault(facts.name, FreeResources(facts))
        is_changed = facts.name not in self.nodes or resources.facts != facts
        resources.facts = facts
        self.nodes[facts.name] = resources
        return is_changed

    def remove_node(self, name: str) -> None:
        self.nodes.pop(name, None)

    def assign(self, assignment: Assignment, node: str) -> None:
        """Assign a Pod, which ends its nomination."""
        self.end_nomination(assignment.uid)
        if self._node_of.get(assignment.uid, node) != node:
            self.unassign(assignment.uid)
        if node not in self._all_nodes:
            self._all_nodes[node] = FreeResources(NodeFacts.absent(node))
        self._node_of[assignment.uid] = node
        self._all_nodes[node].put(assignment)

    def unassign(self, uid: str) -> bool:
        """Remove a Pod's assignment; return whether it had one."""
        node = self._node_of.pop(uid, None)
        if node is None:
            return False
        self._all_nodes[node].remove(uid)
        return True

    def is_assigned(self, uid: str) -> bool:
        return uid in self._node_of

    def nominate(self, assignment: Assignment, node: str) -> None:
        """Keep room on the node for a Pod, except against Pods of higher priority."""
        self.end_nomination(assignment.uid)
        self._nominated.setdefault(node, {})[assignment.uid] = assignment
        self._nominated_node_of[assignment.uid] = node

    def end_nomination(self, uid: str) -> bool:
        """Remove a Pod's nomination; return whether it had one."""
        node = self._nominated_node_of.pop(uid, None)
        if node is None:
            return False
        del self._nominated[node][uid]
        return True

    def nominated_node(self, uid: str) -> str:
        """Return the node to which the Pod is nominated, or an empty text."""
        return self._nominated_node_of.get(uid, "")

    def reserved(self, uid: str, needs: Needs) -> dict[str, tuple[Assignment, ...]]:
        """Return by node the nominated Pods whose room this Pod must leave free."""
        return {
            node: found
            for node, assignments in self._nominated.items()
            if (found := _others(assignments, uid, needs.priority))
        }

    def lesser_nominations(self, node: str, priority: int) -> list[Assignment]:
        """Return the nominations that a preemptor of this priority ends on the node."""
        nominated = self._nominated.get(node, NO_PODS)
        return [assignment for assignment in nominated.values() if assignment.priority < priority]

    def used(
        self, resources: FreeResources, reserved: Mapping[str, tuple[Assignment, ...]]
    ) -> Mapping[str, int]:
        kept = reserved.get(resources.facts.name)
        return with_assigned(resources.used, kept) if kept else resources.used


def _others(
    assignments: Mapping[str, Assignment], uid: str, priority: int
) -> tuple[Assignment, ...]:
    return tuple(
        assignment
        for assignment in assignments.values()
        if assignment.uid != uid and assignment.priority >= priority
    )
