"""Tests of the evaluator, by examples from the API reference of NetworkPolicies."""

from typing import Any

import pytest

from tests.policies import Document, Endpoint, Network, selects

NAMESPACES = {"a": {"team": "x"}, "b": {"team": "y"}}
WEB = Endpoint(
    namespace="a", labels={"app": "web"}, addresses=("10.0.0.1",), ports={"http": (8080, "TCP")}
)
CALLER = Endpoint(namespace="a", labels={"app": "caller"}, addresses=("10.0.0.2",))
STRANGER = Endpoint(namespace="b", labels={"app": "caller"}, addresses=("10.0.0.3",))
OUTSIDE = Endpoint(addresses=("203.0.113.9",))


def network(*specs: Document, namespace: str = "a") -> Network:
    policies = tuple({"metadata": {"namespace": namespace}, "spec": each} for each in specs)
    return Network(namespaces=NAMESPACES, policies=policies)


def to_web(*rules: Document) -> Document:
    return {"podSelector": {"matchLabels": {"app": "web"}}, "ingress": list(rules)}


def from_caller(*rules: Document) -> Document:
    return {
        "podSelector": {"matchLabels": {"app": "caller"}},
        "policyTypes": ["Egress"],
        "egress": list(rules),
    }


def test_a_pod_that_no_policy_selects_is_open() -> None:
    assert network().permits(STRANGER, WEB, 22)
    assert network(to_web(), namespace="b").permits(STRANGER, WEB, 22)
    assert network(to_web()).permits(WEB, OUTSIDE, 443)


def test_a_policy_without_rules_closes_the_pods_that_it_selects() -> None:
    assert not network(to_web()).permits(CALLER, WEB, 8080)
    assert network(to_web()).permits(CALLER, STRANGER, 8080)
    assert not network(from_caller()).permits(CALLER, WEB, 8080)


def test_a_rule_without_peers_and_ports_opens_everything() -> None:
    assert network(to_web({})).permits(OUTSIDE, WEB, 22, "UDP")
    assert network(to_web({"from": [], "ports": []})).permits(OUTSIDE, WEB, 22, "UDP")


def test_policies_and_rules_add_up() -> None:
    first = to_web({"from": [{"podSelector": {}}]})
    assert not network(to_web()).permits(CALLER, WEB, 1)
    assert network(to_web(), first).permits(CALLER, WEB, 1)
    assert network(to_web({"ports": [{"port": 2}]}, {"ports": [{"port": 1}]})).permits(
        CALLER, WEB, 1
    )


def test_source_and_target_both_have_to_allow_a_connection() -> None:
    opened = to_web({})
    assert not network(opened, from_caller()).permits(CALLER, WEB, 1)
    assert not network(to_web(), from_caller({})).permits(CALLER, WEB, 1)
    assert network(opened, from_caller({})).permits(CALLER, WEB, 1)


@pytest.mark.parametrize(
    ("peer", "source", "verdict"),
    [
        ({"podSelector": {}}, CALLER, True),
        ({"podSelector": {}}, STRANGER, False),
        ({"podSelector": {}}, OUTSIDE, False),
        ({"namespaceSelector": {}}, STRANGER, True),
        ({"namespaceSelector": {}}, OUTSIDE, False),
        ({"namespaceSelector": {"matchLabels": {"team": "x"}}}, STRANGER, False),
        ({"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "no"}}}, CALLER, False),
        ({"ipBlock": {"cidr": "203.0.113.0/24"}}, OUTSIDE, True),
        ({"ipBlock": {"cidr": "203.0.113.0/24", "except": ["203.0.113.8/31"]}}, OUTSIDE, False),
        ({"ipBlock": {"cidr": "::/0"}}, OUTSIDE, False),
        ({"ipBlock": {"cidr": "0.0.0.0/0"}}, CALLER, True),
    ],
    ids=[
        "own-namespace",
        "pods-of-another-namespace",
        "pods-not-addresses",
        "every-namespace",
        "namespaces-not-addresses",
        "another-team",
        "other-labels",
        "block",
        "exception-of-a-block",
        "block-of-ipv6",
        "block-with-a-pod",
    ],
)
def test_a_peer_is_selected_by_both_selectors_or_by_addresses(
    peer: Document, source: Endpoint, verdict: bool
) -> None:
    assert network(to_web({"from": [peer]})).permits(source, WEB, 1) is verdict


@pytest.mark.parametrize(
    ("given", "port", "protocol", "verdict"),
    [
        ({"port": 80}, 80, "TCP", True),
        ({"port": 80}, 80, "UDP", False),
        ({"port": 80}, 81, "TCP", False),
        ({"port": 80, "endPort": 90, "protocol": "UDP"}, 90, "UDP", True),
        ({"port": 80, "endPort": 90}, 91, "TCP", False),
        ({"port": "http"}, 8080, "TCP", True),
        ({"port": "http"}, 80, "TCP", False),
        ({"port": "http", "protocol": "UDP"}, 8080, "UDP", False),
        ({"protocol": "UDP"}, 5, "UDP", True),
    ],
    ids=[
        "number",
        "other-protocol",
        "other-number",
        "end-of-a-range",
        "past-a-range",
        "name",
        "number-of-a-name",
        "name-of-another-protocol",
        "whole-protocol",
    ],
)
def test_a_rule_names_a_port_by_number_range_or_name_or_a_whole_protocol(
    given: Document, port: int, protocol: str, verdict: bool
) -> None:
    assert network(to_web({"ports": [given]})).permits(CALLER, WEB, port, protocol) is verdict
    named = network(from_caller({"ports": [given]}))
    assert named.permits(CALLER, WEB, port, protocol) is verdict


def test_directions_that_a_policy_does_not_name_follow_from_its_rules() -> None:
    both: dict[str, Any] = {"podSelector": {}, "egress": [{"ports": [{"port": 1}]}]}
    assert not network(both).permits(STRANGER, WEB, 1)
    assert not network(both).permits(WEB, STRANGER, 2)
    assert network(both).permits(WEB, STRANGER, 1)


@pytest.mark.parametrize(
    ("operator", "values", "verdict"),
    [
        ("In", ["web", "x"], True),
        ("In", ["x"], False),
        ("NotIn", ["web"], False),
        ("NotIn", ["x"], True),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
    ],
    ids=["in", "not-listed", "excluded", "not-excluded", "exists", "does-not-exist"],
)
def test_each_operator_of_a_selector_matches_as_documented(
    operator: str, values: list[str], verdict: bool
) -> None:
    expression = {"key": "app", "operator": operator, "values": values}
    assert selects({"matchExpressions": [expression]}, WEB.labels) is verdict
