"""Assignments and nominations: which resources count as taken, and for which Pods."""

from gpuruntime.embedded.scheduler.assignments import Assignments
from gpuruntime.embedded.scheduler.node_resources import Assignment, Needs, NodeFacts
from tests.rooms.embedded.builders import node, pod


def needs(priority: int = 0) -> Needs:
    return Needs.of(pod(priority=priority))


def assignment(name: str, priority: int = 0) -> Assignment:
    return Assignment.of(pod(name, priority=priority), needs(priority))


def assignments(*nodes: str) -> Assignments:
    made = Assignments()
    for name in nodes:
        made.put_node(NodeFacts.of(node(name)))
    return made


def test_a_pod_is_counted_once_however_often_it_is_seen() -> None:
    made = assignments("n")
    made.assign(assignment("a"), "n")
    made.assign(assignment("a"), "n")
    assert made.nodes["n"].used["pods"] == 1
    assert made.unassign("uid-a")
    assert not made.unassign("uid-a")
    assert made.nodes["n"].used["pods"] == 0


def test_a_pod_assigned_elsewhere_than_decided_counts_where_it_is() -> None:
    made = assignments("n", "m")
    made.assign(assignment("a"), "n")
    made.assign(assignment("a"), "m")
    assert (made.nodes["n"].used["pods"], made.nodes["m"].used["pods"]) == (0, 1)


def test_pods_stay_assigned_while_their_node_is_absent() -> None:
    made = assignments()
    made.assign(assignment("a"), "n")
    assert made.nodes == {}
    made.put_node(NodeFacts.of(node("n")))
    assert made.nodes["n"].used["pods"] == 1
    made.remove_node("n")
    made.put_node(NodeFacts.of(node("n")))
    assert made.nodes["n"].used["pods"] == 1


def test_only_a_changed_node_is_reported_as_changed() -> None:
    made = assignments("n")
    assert not made.put_node(NodeFacts.of(node("n")))
    assert made.put_node(NodeFacts.of(node("n", labels={"a": "b"})))
    made.remove_node("n")
    assert made.put_node(NodeFacts.of(node("n", labels={"a": "b"})))


def test_a_nomination_holds_against_equal_and_lower_priorities_but_not_its_own_pod() -> None:
    made = assignments("n")
    made.nominate(assignment("first", priority=5), "n")
    assert made.reserved("uid-other", needs(5)).keys() == {"n"}
    assert made.reserved("uid-other", needs(0)).keys() == {"n"}
    assert made.reserved("uid-other", needs(6)) == {}
    assert made.reserved("uid-first", needs(5)) == {}


def test_a_nomination_moves_and_ends_with_the_assignment() -> None:
    made = assignments("n", "m")
    made.nominate(assignment("a"), "n")
    made.nominate(assignment("a"), "m")
    assert made.nominated_node("uid-a") == "m"
    assert made.reserved("uid-other", needs()).keys() == {"m"}
    made.assign(assignment("a"), "m")
    assert made.nominated_node("uid-a") == ""
    assert not made.end_nomination("uid-a")


def test_lesser_nominations_of_a_node_are_those_below_a_priority() -> None:
    made = assignments("n", "m")
    made.nominate(assignment("low", priority=1), "n")
    made.nominate(assignment("high", priority=9), "n")
    made.nominate(assignment("elsewhere", priority=1), "m")
    assert [each.uid for each in made.lesser_nominations("n", 9)] == ["uid-low"]
