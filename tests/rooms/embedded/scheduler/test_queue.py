"""The order of the scheduling queue, and when a group is decided about again."""

from gpuruntime.embedded.kinds.pod_objects import Pod
from gpuruntime.embedded.scheduler.node_resources import Needs
from gpuruntime.embedded.scheduler.queue import SchedulingQueue
from tests.rooms.embedded.builders import pod


def queued(queue: SchedulingQueue, name: str, priority: int = 0, nominated: str = "") -> Pod:
    waiting = pod(name, priority=priority)
    queue.put(waiting, Needs.of(waiting), nominated)
    return waiting


def served(queue: SchedulingQueue) -> list[str]:
    """Return the first Pod of every ready group, in the order of decisions."""
    names = []
    while (group := queue.next()) is not None:
        names.append(next(iter(group.pods.values())).metadata.name)
    return names


def test_the_most_important_group_comes_first_and_of_equals_the_oldest() -> None:
    queue = SchedulingQueue()
    queued(queue, "old", nominated="a")
    queued(queue, "urgent", priority=5)
    queued(queue, "young")
    assert served(queue) == ["urgent", "old", "young"]


def test_equal_pods_share_a_group() -> None:
    queue = SchedulingQueue()
    queued(queue, "one")
    queued(queue, "two")
    assert served(queue) == ["one"]


def test_a_decided_group_waits_until_it_is_activated() -> None:
    queue = SchedulingQueue()
    queued(queue, "one")
    assert served(queue) == ["one"]
    assert served(queue) == []
    queue.activate_all()
    assert served(queue) == ["one"]


def test_a_pod_that_changes_groups_keeps_its_time_in_the_queue() -> None:
    queue = SchedulingQueue()
    first = queued(queue, "first")
    queued(queue, "second", nominated="n")
    queue.put(first, Needs.of(first), "m", is_ready=False)
    queue.activate_all()
    assert served(queue) == ["first", "second"]


def test_a_removed_pod_is_not_returned() -> None:
    queue = SchedulingQueue()
    gone = queued(queue, "gone")
    queue.remove(gone.metadata.uid)
    queue.remove(gone.metadata.uid)
    assert served(queue) == []


def test_a_message_is_reported_to_each_pod_once() -> None:
    queue = SchedulingQueue()
    queued(queue, "one")
    group = queue.next()
    assert group is not None
    assert [each.metadata.name for each in group.report("no room")] == ["one"]
    queued(queue, "two")
    assert [each.metadata.name for each in group.report("no room")] == ["two"]
    assert group.report("no room") == []
    assert len(group.report("no nodes")) == 2


def test_a_newer_version_of_a_waiting_pod_does_not_activate_its_group() -> None:
    queue = SchedulingQueue()
    queued(queue, "one")
    served(queue)
    queued(queue, "one")
    assert served(queue) == []
