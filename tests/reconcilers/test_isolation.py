"""Policies judged by an evaluator of our own: which pair may speak, by the objects alone."""

from ipaddress import ip_address, ip_network
from typing import Any

import attrs
import pytest

from gpuruntime.models.metadata import ObjectMeta
from gpuruntime.models.storages import GPUStorage, GPUStorageSpec
from gpuruntime.models.templates import Port, Template
from gpuruntime.models.units import GPUUnit, GPUUnitSpec
from gpuruntime.reconcilers.children import policy_of
from gpuruntime.reconcilers.options import NetworkOptions, UnitOptions
from gpuruntime.reconcilers.storage_children import accessor_policy
from gpuruntime.settings import PRIVATE_NETWORKS

OPTIONS = UnitOptions(network=NetworkOptions(blocked_cidrs=PRIVATE_NETWORKS))
OPEN = UnitOptions(network=NetworkOptions(allows_all=True))
ACCESS = {"runtime.lokiwager.io/access": "true"}
SYSTEM = {"kubernetes.io/metadata.name": "runtime-system"}
DNS = ({"kubernetes.io/metadata.name": "kube-system"}, {"k8s-app": "kube-dns"})
OWN = {"runtime.lokiwager.io/unit": "demo"}
OTHER = {"runtime.lokiwager.io/unit": "other"}


@attrs.frozen
class Peer:
    """A Pod, by the labels of its namespace and its own; or an address outside."""

    namespace: dict[str, str] = attrs.field(factory=dict)
    pod: dict[str, str] = attrs.field(factory=dict)
    is_same_namespace: bool = False
    address: str = ""


def allows(rules: list[Any], side: str, peer: Peer, port: int, protocol: str) -> bool:
    return any(
        _matches_port(rule.get("ports"), port, protocol) and _matches_peer(rule.get(side), peer)
        for rule in rules
    )


def _matches_port(ports: list[Any] | None, port: int, protocol: str) -> bool:
    return ports is None or any(
        each["port"] == port and each["protocol"] == protocol for each in ports
    )


def _matches_peer(peers: list[Any] | None, peer: Peer) -> bool:
    return peers is None or any(_matches(each, peer) for each in peers)


def _matches(rule: dict[str, Any], peer: Peer) -> bool:
    if "ipBlock" in rule:
        block = rule["ipBlock"]
        if not peer.address:
            return False
        address = ip_address(peer.address)
        return address in ip_network(block["cidr"]) and not any(
            address in ip_network(each) for each in block.get("except", [])
        )
    if peer.address:
        return False
    namespaces = rule.get("namespaceSelector")
    is_there = peer.is_same_namespace if namespaces is None else _has(peer.namespace, namespaces)
    return is_there and _has(peer.pod, rule.get("podSelector", {}))


def _has(labels: dict[str, str], selector: dict[str, Any]) -> bool:
    return selector.get("matchLabels", {}).items() <= labels.items()


def unit(*ports: Port) -> GPUUnit:
    return GPUUnit(
        metadata=ObjectMeta(name="demo", namespace="runtime-instance", uid="1"),
        spec=GPUUnitSpec(specName="g1.1", template=Template(ports=ports)),
    )


def spec(of: GPUUnit, options: UnitOptions = OPTIONS) -> Any:
    return policy_of(of, options).body["spec"]


HTTP = Port(name="http", port=8080)
GAME = Port(name="game", port=7777, protocol="UDP")


@pytest.mark.parametrize(
    ("peer", "port", "protocol", "verdict"),
    [
        (Peer(namespace=ACCESS), 8080, "TCP", True),
        (Peer(namespace=ACCESS), 7777, "UDP", True),
        (Peer(namespace=ACCESS), 7777, "TCP", False),
        (Peer(namespace=ACCESS), 22, "TCP", False),
        (Peer(namespace={}), 8080, "TCP", False),
        (Peer(namespace={"runtime.lokiwager.io/access": "false"}), 8080, "TCP", False),
        (Peer(pod=OWN, is_same_namespace=True), 8080, "TCP", True),
        (Peer(pod=OTHER, is_same_namespace=True), 8080, "TCP", False),
        (Peer(pod=OWN), 8080, "TCP", False),
        (Peer(address="203.0.113.9"), 8080, "TCP", False),
    ],
)
def test_only_callers_reach_only_the_ports_that_were_declared(
    peer: Peer, port: int, protocol: str, verdict: bool
) -> None:
    assert allows(spec(unit(HTTP, GAME))["ingress"], "from", peer, port, protocol) is verdict


def test_a_unit_without_ports_is_reached_by_nobody() -> None:
    found = spec(unit())
    assert found["policyTypes"] == ["Ingress", "Egress"]
    assert "ingress" not in found


@pytest.mark.parametrize(
    ("address", "verdict"),
    [
        ("93.184.216.34", True),
        ("8.8.8.8", True),
        ("2606:2800:220:1::1", True),
        ("10.96.0.1", False),
        ("172.16.0.1", False),
        ("172.32.0.1", True),
        ("192.168.1.1", False),
        ("100.64.0.1", False),
        ("100.128.0.1", True),
        ("169.254.169.254", False),
        ("fd00::1", False),
        ("fe80::1", False),
    ],
)
def test_a_unit_reaches_the_internet_and_nothing_private(address: str, verdict: bool) -> None:
    found = allows(spec(unit(HTTP))["egress"], "to", Peer(address=address), 443, "TCP")
    assert found is verdict


@pytest.mark.parametrize(
    ("peer", "port", "verdict"),
    [
        (Peer(namespace=DNS[0], pod=DNS[1]), 53, True),
        (Peer(namespace=DNS[0], pod=DNS[1]), 443, False),
        (Peer(namespace=DNS[0], pod={"k8s-app": "other"}), 53, False),
        (Peer(namespace={}, pod=DNS[1]), 53, False),
        (Peer(pod=OTHER, is_same_namespace=True), 8080, False),
    ],
)
def test_of_the_cluster_a_unit_reaches_its_name_servers_alone(
    peer: Peer, port: int, verdict: bool
) -> None:
    for protocol in ("TCP", "UDP"):
        assert allows(spec(unit(HTTP))["egress"], "to", peer, port, protocol) is verdict


def test_whoever_says_so_lets_units_reach_everything() -> None:
    found = spec(unit(HTTP), OPEN)
    assert allows(found["egress"], "to", Peer(address="10.96.0.1"), 443, "TCP")
    assert allows(found["egress"], "to", Peer(pod=OTHER, is_same_namespace=True), 1, "UDP")


@pytest.mark.parametrize(
    ("peer", "port", "verdict"),
    [
        (Peer(namespace=SYSTEM), 5000, True),
        (Peer(namespace=SYSTEM), 22, False),
        (Peer(namespace=ACCESS), 5000, False),
        (Peer(pod=OTHER, is_same_namespace=True), 5000, False),
    ],
)
def test_an_accessor_is_reached_by_the_api_alone(peer: Peer, port: int, verdict: bool) -> None:
    storage = GPUStorage(
        metadata=ObjectMeta(name="s", namespace="runtime-instance"),
        spec=GPUStorageSpec(size="1Gi"),
    )
    found: Any = accessor_policy(storage, OPTIONS).body["spec"]
    assert allows(found["ingress"], "from", peer, port, "TCP") is verdict
    assert not found.get("egress")
    assert found["policyTypes"] == ["Ingress", "Egress"]
