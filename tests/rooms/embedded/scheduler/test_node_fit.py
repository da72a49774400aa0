"""Nodes that fit a Pod, the best of them, and the message if none fits."""

from collections.abc import Mapping
from typing import Any

import pytest

from gpuruntime.embedded.kinds.cluster_objects import Node
from gpuruntime.embedded.kinds.pod_objects import Pod
from gpuruntime.embedded.scheduler.node_fit import obstacle, refusal, scores
from gpuruntime.embedded.scheduler.node_resources import Needs, NodeFacts, requests_of
from tests.rooms.embedded.builders import node, pod

NOTHING: Mapping[str, int] = {}


def wants(**amounts: str) -> list[dict[str, Any]]:
    requests = {name.replace("_", "/"): text for name, text in amounts.items()}
    return [{"name": "c", "resources": {"requests": requests}}]


def facts(name: str = "n", **members: Any) -> NodeFacts:
    return NodeFacts.of(node(name, **members))


def reasons(of: Pod, there: NodeFacts, used: Mapping[str, int] = NOTHING) -> tuple[str, ...]:
    met = obstacle(Needs.of(of), there, used)
    return met.reasons if met else ()


def affine(*expressions: dict[str, Any], fields: list[dict[str, Any]] | None = None) -> Pod:
    term = {"matchExpressions": list(expressions), "matchFields": fields or []}
    required = {"nodeSelectorTerms": [term]}
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    return pod(affinity={"nodeAffinity": {key: required}})


def test_requests_are_summed_over_containers_that_run_together() -> None:
    init = {"name": "i", "resources": {"requests": {"cpu": "3", "memory": "1Gi"}}}
    sidecar = {**init, "name": "s", "restartPolicy": "Always"}
    main = {"name": "c", "resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "1k"}}}

    def amounts(**spec: Any) -> dict[str, int]:
        return dict(requests_of(pod(**spec).spec))

    assert amounts(containers=[main, main]) == {"cpu": 1000, "memory": 2000, "pods": 1}
    assert amounts(containers=[main], initContainers=[init])["cpu"] == 3000
    assert amounts(containers=[main], initContainers=[sidecar])["cpu"] == 3500
    assert amounts(containers=[main], initContainers=[sidecar, init])["cpu"] == 6000
    assert amounts(containers=[main], overhead={"cpu": "1m"})["cpu"] == 501


def test_every_insufficient_resource_is_named() -> None:
    big = pod(containers=wants(cpu="6", memory="30Gi", gpu="1"))
    short = reasons(big, facts(), {"cpu": 3000, "memory": 4 << 30})
    assert set(short) == {"Insufficient cpu", "Insufficient memory", "Insufficient gpu"}
    assert reasons(big, facts(gpu="1"), {"cpu": 2000}) == ()


def test_a_node_has_a_limit_of_pods() -> None:
    assert reasons(pod(), facts(pods="2"), {"pods": 2}) == ("Too many pods",)


def test_only_a_request_beyond_the_whole_node_is_final() -> None:
    too_much = obstacle(Needs.of(pod(containers=wants(cpu="9"))), facts(), NOTHING)
    for_now = obstacle(Needs.of(pod(containers=wants(cpu="8"))), facts(), {"cpu": 1})
    assert too_much is not None
    assert too_much.is_final
    assert for_now is not None
    assert not for_now.is_final


def test_a_cordoned_a_tainted_and_an_unready_node_fit_no_pod() -> None:
    cordoned = facts(spec={"unschedulable": True})
    tainted = facts(spec={"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]})
    silent = NodeFacts.of(Node())
    assert reasons(pod(), cordoned) == ("node(s) were unschedulable",)
    assert reasons(pod(), tainted) == ("node(s) had untolerated taint(s)",)
    assert reasons(pod(), silent) == ("node(s) had untolerated taint(s)",)


@pytest.mark.parametrize(
    ("toleration", "is_tolerated"),
    [
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "operator": "Equal", "value": "w"}, False),
        ({"key": "k", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "k", "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "k", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
    ids=[
        "equal by default",
        "other value",
        "key exists",
        "every taint",
        "same effect",
        "other effect",
        "other key",
    ],
)
def test_a_toleration_matches_its_taint(toleration: dict[str, str], is_tolerated: bool) -> None:
    tainted = facts(spec={"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]})
    assert (reasons(pod(tolerations=[toleration]), tainted) == ()) is is_tolerated


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        ({"key": "gpu", "operator": "In", "values": ["a", "b"]}, True),
        ({"key": "gpu", "operator": "NotIn", "values": ["a"]}, False),
        ({"key": "zone", "operator": "NotIn", "values": ["a"]}, True),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"key": "zone", "operator": "DoesNotExist"}, True),
        ({"key": "zone", "operator": "Exists"}, False),
        ({"key": "age", "operator": "Gt", "values": ["4"]}, True),
        ({"key": "age", "operator": "Lt", "values": ["5"]}, False),
        ({"key": "gpu", "operator": "Gt", "values": ["4"]}, False),
    ],
    ids=[
        "in",
        "not in with the value",
        "not in without the label",
        "exists",
        "does not exist",
        "exists without the label",
        "greater than",
        "less than",
        "greater than a text",
    ],
)
def test_a_required_affinity_is_matched_by_labels(
    expression: dict[str, Any], matches: bool
) -> None:
    labelled = facts(labels={"gpu": "a", "age": "5"})
    expected = () if matches else ("node(s) didn't match Pod's node affinity/selector",)
    assert reasons(affine(expression), labelled) == expected


def test_a_required_affinity_may_name_the_node() -> None:
    named = affine(fields=[{"key": "metadata.name", "operator": "In", "values": ["n"]}])
    assert reasons(named, facts("n")) == ()
    assert reasons(named, facts("m")) != ()
    assert reasons(affine(), facts("n")) != ()


def test_a_node_selector_requires_every_label() -> None:
    picky = pod(nodeSelector={"a": "1", "b": "2"})
    assert reasons(picky, facts(labels={"a": "1", "b": "2"})) == ()
    assert reasons(picky, facts(labels={"a": "1"})) != ()


def test_the_refusal_counts_reasons_and_sorts_them() -> None:
    needs = Needs.of(pod(containers=wants(cpu="9"), nodeSelector={"a": "1"}))
    nodes = [facts("x", labels={"a": "1"}), facts("y"), facts("z")]
    met = [found for each in nodes if (found := obstacle(needs, each, NOTHING))]
    assert refusal(met, 3) == (
        "0/3 nodes are available: 1 Insufficient cpu, "
        "2 node(s) didn't match Pod's node affinity/selector."
    )


def test_a_preferred_node_wins_over_an_emptier_one() -> None:
    preference = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In",
                                        "values": ["full"]}]}  # fmt: skip
    key = "preferredDuringSchedulingIgnoredDuringExecution"
    affinity = {"nodeAffinity": {key: [{"weight": 1, "preference": preference}]}}
    candidates = [(facts("full"), {"cpu": 7000, "memory": 30 << 30}), (facts("empty"), NOTHING)]
    preferring = scores(Needs.of(pod(affinity=affinity)), candidates)
    indifferent = scores(Needs.of(pod()), candidates)
    assert preferring["full"] > preferring["empty"]
    assert indifferent["full"] < indifferent["empty"]


def test_a_soft_taint_is_avoided() -> None:
    soft = facts("soft", spec={"taints": [{"key": "k", "effect": "PreferNoSchedule"}]})
    found = scores(Needs.of(pod()), [(soft, NOTHING), (facts("plain"), NOTHING)])
    assert found["plain"] > found["soft"]
