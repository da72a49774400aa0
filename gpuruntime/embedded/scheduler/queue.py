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
LaneKey: TypeAlias = tuple[Needs, str]


class Lane:
    def __init__(self, needs: Needs, nominated: str) -> None:
        self.needs = needs
        self.nominated = nominated
        # The Pod that has waited longest comes first.
        self.pods: dict[str, Pod] = {}
        # The message that all Pods but the unreported ones have received.
        self.verdict = ""
        self.untold: dict[str, None] = {}
        self.is_ready = False

    @property
    def key(self) -> LaneKey:
        return self.needs, self.nominated

    def hear(self, verdict: str) -> list[Pod]:
        """Set the message, and return the Pods that have not received it yet."""
        news = self.untold if verdict == self.verdict else self.pods
        told = [self.pods[uid] for uid in news]
        self.verdict = verdict
        self.untold.clear()
        return told


class SchedulingQueue:
    """The groups and their order; no method awaits."""

    def __init__(self) -> None:
        self._lanes: dict[LaneKey, Lane] = {}
        self._lane_of: dict[str, Lane] = {}
        self._since: dict[str, int] = {}
        self._numbers = count()
        self._heap: list[tuple[int, int, int, Lane]] = []

    def put(self, pod: Pod, needs: Needs, nominated: str, *, is_ready: bool = True) -> bool:
        """Add a Pod and return whether it is new to its group; it keeps its time in the queue."""
        uid = pod.metadata.uid
        lane = self._lane_of.get(uid)
        if lane is not None and lane.key == (needs, nominated):
            lane.pods[uid] = pod
            return False
        since = self._since.get(uid, None)
        self.remove(uid)
        self._since[uid] = next(self._numbers) if since is None else since
        lane = self._lanes.setdefault((needs, nominated), Lane(needs, nominated))
        lane.pods[uid] = pod
        lane.untold[uid] = None
        self._lane_of[uid] = lane
        if is_ready:
            self.rouse(lane)
        return True

    def remove(self, uid: str) -> None:
        """Remove a Pod; do nothing if it is absent."""
        lane = self._lane_of.pop(uid, None)
        if lane is None:
            return
        self._since.pop(uid)
        del lane.pods[uid]
        lane.untold.pop(uid, None)
        if not lane.pods:
            del self._lanes[lane.key]

    def rouse(self, lane: Lane) -> None:
        """Make the group ready for a decision about its first Pod."""
        if lane.is_ready or not lane.pods:
            return
        lane.is_ready = True
        first = next(iter(lane.pods))
        entry = (-lane.needs.priority, self._since[first], next(self._numbers), lane)
        heapq.heappush(self._heap, entry)

    def rouse_all(self) -> None:
        for lane in self._lanes.values():
            self.rouse(lane)

    def next(self) -> Lane | None:
        """Return the next group; it then waits until it is activated again."""
        while self._heap:
            lane = heapq.heappop(self._heap)[-1]
            lane.is_ready = False
            if lane.pods:
                return lane
        return None
