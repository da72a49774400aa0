"""The scheduling queue: waiting Pods, in groups that would all get the same decision.

The most important Pod comes first, of equals the one that has waited longest. If the first Pod of
a group is refused, the whole group waits until something changes: a thousand equal Pods cost one
decision.
"""

import heapq
from itertools import count
from typing import TypeAlias

from gpuruntime.embedded.kinds.pod_objects import Pod
from gpuruntime.embedded.scheduler.node_resources import Needs

# The needs of a group's Pods, and the node to which they are nominated.
GroupKey: TypeAlias = tuple[Needs, str]


class PodGroup:
    def __init__(self, needs: Needs, nominated: str) -> None:
        self.needs = needs
        self.nominated = nominated
        # The Pod that has waited longest comes first.
        self.pods: dict[str, Pod] = {}
        # The message that all Pods but the unreported ones have received.
        self.message = ""
        self.unreported: dict[str, None] = {}
        self.is_ready = False

    @property
    def key(self) -> GroupKey:
        return self.needs, self.nominated

    def report(self, message: str) -> list[Pod]:
        """Set the message, and return the Pods that have not received it yet."""
        waiting = self.unreported if message == self.message else self.pods
        receivers = [self.pods[uid] for uid in waiting]
        self.message = message
        self.unreported.clear()
        return receivers


class SchedulingQueue:
    """The groups and their order; no method awaits."""

    def __init__(self) -> None:
        self._groups: dict[GroupKey, PodGroup] = {}
        self._group_of: dict[str, PodGroup] = {}
        self._since: dict[str, int] = {}
        self._numbers = count()
        self._heap: list[tuple[int, int, int, PodGroup]] = []

    def put(self, pod: Pod, needs: Needs, nominated: str, *, is_ready: bool = True) -> bool:
        """Add a Pod and return whether it is new to its group; it keeps its time in the queue."""
        uid = pod.metadata.uid
        group = self._group_of.get(uid)
        if group is not None and group.key == (needs, nominated):
            group.pods[uid] = pod
            return False
        since = self._since.get(uid, None)
        self.remove(uid)
        self._since[uid] = next(self._numbers) if since is None else since
        group = self._groups.setdefault((needs, nominated), PodGroup(needs, nominated))
        group.pods[uid] = pod
        group.unreported[uid] = None
        self._group_of[uid] = group
        if is_ready:
            self.activate(group)
        return True

    def remove(self, uid: str) -> None:
        """Remove a Pod; do nothing if it is absent."""
        group = self._group_of.pop(uid, None)
        if group is None:
            return
        self._since.pop(uid)
        del group.pods[uid]
        group.unreported.pop(uid, None)
        if not group.pods:
            del self._groups[group.key]

    def activate(self, group: PodGroup) -> None:
        """Make the group ready for a decision about its first Pod."""
        if group.is_ready or not group.pods:
            return
        group.is_ready = True
        first = next(iter(group.pods))
        entry = (-group.needs.priority, self._since[first], next(self._numbers), group)
        heapq.heappush(self._heap, entry)

    def activate_pod(self, uid: str) -> None:
        """Make the Pod's group ready; do nothing if the Pod is absent."""
        if uid in self._group_of:
            self.activate(self._group_of[uid])

    def activate_all(self) -> None:
        for group in self._groups.values():
            self.activate(group)

    def next(self) -> PodGroup | None:
        """Return the next group; it then waits until it is activated again."""
        while self._heap:
            group = heapq.heappop(self._heap)[-1]
            group.is_ready = False
            if group.pods:
                return group
        return None
