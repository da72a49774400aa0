"""Who comes first in the scheduler's queue, and who is looked at again."""

from gpuruntime.embedded.kinds.pod_objects import Pod
from gpuruntime.embedded.scheduler.node_resources import Needs
from gpuruntime.embedded.scheduler.queue import SchedulingQueue
from tests.rooms.embedded.builders import pod


def queued(lanes: SchedulingQueue, name: str, priority: int = 0, nominated: str = "") -> Pod:
    waiting = pod(name, priority=priority)
    lanes.put(waiting, Needs.of(waiting), nominated)
    return waiting


def served(lanes: SchedulingQueue) -> list[str]:
    """The first Pod of every lane that is ready, in the order of service."""
    names = []
    while (lane := lanes.next()) is not None:
        names.append(next(iter(lane.pods.values())).metadata.name)
    return names


def test_the_most_important_lane_comes_first_and_of_equals_the_oldest() -> None:
    lanes = SchedulingQueue()
    queued(lanes, "old", nominated="a")
    queued(lanes, "urgent", priority=5)
    queued(lanes, "young")
    assert served(lanes) == ["urgent", "old", "young"]


def test_pods_alike_share_a_lane() -> None:
    lanes = SchedulingQueue()
    queued(lanes, "one")
    queued(lanes, "two")
    assert served(lanes) == ["one"]


def test_a_served_lane_rests_until_it_is_roused() -> None:
    lanes = SchedulingQueue()
    queued(lanes, "one")
    assert served(lanes) == ["one"]
    assert served(lanes) == []
    lanes.rouse_all()
    assert served(lanes) == ["one"]


def test_a_pod_that_changes_lanes_keeps_its_place_in_time() -> None:
    lanes = SchedulingQueue()
    first = queued(lanes, "first")
    queued(lanes, "second", nominated="n")
    lanes.put(first, Needs.of(first), "m", is_ready=False)
    lanes.rouse_all()
    assert served(lanes) == ["first", "second"]


def test_a_pod_that_left_is_not_served() -> None:
    lanes = SchedulingQueue()
    gone = queued(lanes, "gone")
    lanes.remove(gone.metadata.uid)
    lanes.remove(gone.metadata.uid)
    assert served(lanes) == []


def test_a_verdict_is_told_to_each_pod_once() -> None:
    lanes = SchedulingQueue()
    queued(lanes, "one")
    lane = lanes.next()
    assert lane is not None
    assert [each.metadata.name for each in lane.hear("no room")] == ["one"]
    queued(lanes, "two")
    assert [each.metadata.name for each in lane.hear("no room")] == ["two"]
    assert lane.hear("no room") == []
    assert len(lane.hear("no nodes")) == 2


def test_a_newer_version_of_a_pod_that_waits_is_no_reason_to_look_again() -> None:
    lanes = SchedulingQueue()
    queued(lanes, "one")
    served(lanes)
    queued(lanes, "one")
    assert served(lanes) == []
