"""Preemption removes the least important Pods, and reports why if it cannot."""

import random
from typing import Any

from gpuruntime.embedded.kinds.pod_objects import Pod
from gpuruntime.embedded.scheduler.node_fit import obstacle
from gpuruntime.embedded.scheduler.node_resources import (
    Assignment,
    FreeResources,
    Needs,
    NodeFacts,
    with_assigned,
    without_assigned,
)
from gpuruntime.embedded.scheduler.preemption import ALREADY, NEVER, Eviction, preempt
from tests.rooms.embedded.builders import node, pod


def gpus(name: str, number: int, priority: int = 0, **members: Any) -> Pod:
    requests = {"gpu": str(number)}
    spec = {"containers": [{"name": "c", "resources": {"requests": requests}}], **members}
    return pod(name, priority=priority, **spec)


def assignment(of: Pod) -> Assignment:
    return Assignment.of(of, Needs.of(of))


def nodes(**pods: list[Pod]) -> dict[str, FreeResources]:
    made = {name: FreeResources(NodeFacts.of(node(name, gpu="8"))) for name in pods}
    for name, sitting in pods.items():
        for each in sitting:
            made[name].put(assignment(each))
    return made


def outcome(of: Pod, among: dict[str, FreeResources], **options: Any) -> Eviction | str:
    needs = Needs.of(of)
    reserved = options.pop("reserved", {})
    found = {
        name: met
        for name, resources in among.items()
        if (
            met := obstacle(
                needs, resources.facts, with_assigned(resources.used, reserved.get(name, ()))
            )
        )
    }
    return preempt(needs, among, found, reserved=reserved, **options)


def victims(of: Pod, among: dict[str, FreeResources], **options: Any) -> tuple[str, list[str]]:
    found = outcome(of, among, **options)
    assert isinstance(found, Eviction)
    return found.node, sorted(each.key.name for each in found.victims)


def test_no_more_pods_are_evicted_than_necessary() -> None:
    full = nodes(n=[gpus("a", 4, -10), gpus("b", 2, -10), gpus("c", 2, -20)])
    assert victims(gpus("new", 4), full) == ("n", ["b", "c"])
    assert victims(gpus("new", 1), full) == ("n", ["c"])


def test_of_equal_pods_the_youngest_is_evicted() -> None:
    early = gpus("early", 4, status={"startTime": "2025-01-01T00:00:00Z"})
    late = gpus("late", 4, status={"startTime": "2025-01-01T00:00:01Z"})
    waiting = gpus("waiting", 4)
    assert victims(gpus("new", 4, 1), nodes(n=[early, late]))[1] == ["late"]
    assert victims(gpus("new", 4, 1), nodes(n=[early, waiting]))[1] == ["waiting"]


def test_the_node_with_the_least_important_victims_is_chosen() -> None:
    full = nodes(a=[gpus("x", 8, 5)], b=[gpus("y", 8, -10)], c=[gpus("z", 8, 0)])
    assert victims(gpus("new", 8, 10), full) == ("b", ["y"])


def test_of_equal_victims_fewer_are_chosen() -> None:
    full = nodes(a=[gpus("x", 4, -10), gpus("y", 4, -10)], b=[gpus("z", 8, -10)])
    assert victims(gpus("new", 8), full) == ("b", ["z"])


def test_a_pod_that_never_preempts_evicts_no_other() -> None:
    full = nodes(n=[gpus("a", 8, -10)])
    assert outcome(gpus("new", 8, preemptionPolicy="Never"), full) == NEVER


def test_pods_of_equal_or_higher_priority_are_never_victims() -> None:
    assert outcome(gpus("new", 1), nodes(n=[gpus("a", 8)], m=[gpus("b", 8, 3)])) == (
        "0/2 nodes are available: 2 No preemption victims found for incoming pod."
    )


def test_if_preemption_cannot_help_the_reason_of_each_node_is_counted() -> None:
    among = nodes(full=[gpus("a", 8, 5), gpus("b", 0, -1)], small=[])
    among["small"] = FreeResources(NodeFacts.of(node("small", gpu="2")))
    assert outcome(gpus("new", 4), among) == (
        "0/2 nodes are available: 1 Insufficient gpu, 1 Preemption is not helpful for scheduling."
    )


def test_room_for_a_nominated_pod_is_kept_from_others() -> None:
    full = nodes(n=[gpus("a", 4, -10), gpus("b", 4, -10)])
    nominated = {"n": (assignment(gpus("first", 4)),)}
    assert victims(gpus("second", 4), full, reserved=nominated) == ("n", ["a", "b"])
    both = {"n": (assignment(gpus("first", 8)),)}
    assert outcome(gpus("second", 4), full, reserved=both) == (
        "0/1 nodes are available: 1 Insufficient gpu."
    )


def test_a_pod_takes_no_other_victims_while_its_victims_terminate() -> None:
    disrupted = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    leaving = gpus("a", 8, -10, status={"conditions": [disrupted]},
                   metadata={"deletionTimestamp": "2025-01-01T00:00:30Z"})  # fmt: skip
    full = nodes(n=[leaving], m=[gpus("b", 8, -10)])
    assert outcome(gpus("new", 8), full, nominated="n") == ALREADY
    assert isinstance(outcome(gpus("new", 8), full), Eviction)


def test_evictions_make_just_enough_room(rng: random.Random) -> None:
    for _ in range(300):
        sitting = [
            gpus(f"p{number}", rng.randint(1, 3), rng.choice([-10, 0, 5]))
            for number in range(rng.randint(0, 4))
        ]
        among = nodes(n=sitting)
        new = gpus("new", rng.randint(1, 8), rng.choice([0, 5, 10]))
        resources, needs = among["n"], Needs.of(new)
        if obstacle(needs, resources.facts, resources.used) is None:
            continue
        found = outcome(new, among)
        lower = [each for each in resources.assignments.values() if each.priority < needs.priority]
        could_fit = (
            obstacle(needs, resources.facts, without_assigned(resources.used, lower)) is None
        )
        assert isinstance(found, Eviction) is could_fit
        if isinstance(found, Eviction):
            left = without_assigned(resources.used, found.victims)
            assert obstacle(needs, resources.facts, left) is None
            for spared in found.victims:
                assert obstacle(needs, resources.facts, with_assigned(left, [spared])) is not None
