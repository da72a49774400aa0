"""The rules of one Pod's policy in every configuration; tests/rooms/roles tests the whole."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds.functions import Serverless, WorkerOf
from gpuruntime.models.kinds.storages import Prepare
from gpuruntime.models.kinds.templates import Port, Template
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitSpec
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.reconcilers.children.network_policies import prepare_rules, unit_rules
from gpuruntime.reconcilers.options import NatsPeer, NetworkOptions
from gpuruntime.settings.schema import PRIVATE_NETWORKS
from tests.options import configured
from tests.policies import Endpoint, Network

CLOSED = configured(NetworkOptions, blocked_cidrs=PRIVATE_NETWORKS)
OPEN = configured(NetworkOptions, blocked_cidrs=PRIVATE_NETWORKS, allows_all=True)
QUEUE = {"app": "nats"}
NAMESPACES = {
    "units": {},
    "caller": {"runtime.lokiwager.io/access": "true"},
    "other": {"runtime.lokiwager.io/access": "false"},
    "queue": {"team": "queue"},
    "system": {"kubernetes.io/metadata.name": "system"},
    "kube-system": {"kubernetes.io/metadata.name": "kube-system"},
}
SELECTOR = {"runtime.lokiwager.io/unit": "demo", "runtime.lokiwager.io/unit-uid": "u1"}
DEMO = Endpoint(namespace="units", labels=SELECTOR)
NEIGHBOUR = Endpoint(namespace="units", labels={**SELECTOR, "runtime.lokiwager.io/unit": "other"})
EARLIER = Endpoint(namespace="units", labels={**SELECTOR, "runtime.lokiwager.io/unit-uid": "u0"})
NATS = Endpoint(namespace="queue", labels=QUEUE, addresses=("10.9.0.7",))
FILLING = {"runtime.lokiwager.io/prepare": "s"}
FUNCTION = Serverless(requestID="f", workerOf=WorkerOf(name="f", uid="1"))


def unit(*ports: Port, serverless: Serverless | None = None) -> GPUUnit:
    template = Template(ports=ports)
    return GPUUnit(
        metadata=ObjectMeta(name="demo", namespace="units"),
        spec=GPUUnitSpec(specName="g1.1", template=template, serverless=serverless),
    )


def rules_of(of: GPUUnit, options: NetworkOptions) -> JsonObject:
    return unit_rules(of, SELECTOR, options)


def under(rules: JsonObject) -> Network:
    policy: dict[str, Any] = {"metadata": {"namespace": "units"}, "spec": rules}
    return Network(namespaces=NAMESPACES, policies=(policy,))


def outside(address: str) -> Endpoint:
    return Endpoint(addresses=(address,))


@pytest.mark.parametrize(
    ("source", "port", "protocol", "verdict"),
    [
        (Endpoint(namespace="caller"), 8080, "TCP", True),
        (Endpoint(namespace="caller"), 7777, "UDP", True),
        (Endpoint(namespace="caller"), 7777, "TCP", False),
        (Endpoint(namespace="caller"), 22, "TCP", False),
        (Endpoint(namespace="other"), 8080, "TCP", False),
        (DEMO, 8080, "TCP", True),
        (NEIGHBOUR, 8080, "TCP", False),
        (EARLIER, 8080, "TCP", False),
        (Endpoint(namespace="queue", labels=DEMO.labels), 8080, "TCP", False),
        (outside("203.0.113.9"), 8080, "TCP", False),
    ],
    ids=[
        "caller, TCP port",
        "caller, UDP port",
        "caller, wrong protocol",
        "caller, undeclared port",
        "other namespace",
        "own Pod",
        "other unit",
        "earlier unit of the name",
        "same labels in another namespace",
        "Internet",
    ],
)
def test_only_callers_and_the_units_own_pods_reach_only_declared_ports(
    source: Endpoint, port: int, protocol: str, verdict: bool
) -> None:
    ports = (Port(name="http", port=8080), Port(name="game", port=7777, protocol="UDP"))
    network = under(rules_of(unit(*ports), CLOSED))
    assert network.permits(source, DEMO, port, protocol) is verdict


GATEWAY = Endpoint(namespace="system", labels={"app.kubernetes.io/name": "gpuruntime-gateway"})


@pytest.mark.parametrize(
    ("source", "port", "verdict"),
    [
        (GATEWAY, 8080, True),
        (GATEWAY, 22, False),
        (attrs.evolve(GATEWAY, labels={"app.kubernetes.io/name": "gpuruntime-api"}), 8080, False),
        (attrs.evolve(GATEWAY, namespace="other"), 8080, False),
    ],
    ids=["declared port", "undeclared port", "another role", "another namespace"],
)
def test_the_gateways_pods_reach_declared_ports_if_there_is_a_gateway(
    source: Endpoint, port: int, verdict: bool
) -> None:
    of = unit(Port(name="http", port=8080))
    rules = unit_rules(of, SELECTOR, CLOSED, gateway_namespace="system")
    assert under(rules).permits(source, DEMO, port) is verdict
    assert not under(rules_of(of, CLOSED)).permits(source, DEMO, port)


@pytest.mark.parametrize(
    "options", [CLOSED, OPEN], ids=["blocked networks", "all networks allowed"]
)
def test_a_unit_without_ports_cannot_be_reached(options: NetworkOptions) -> None:
    network = under(rules_of(unit(), options))
    assert not network.permits(Endpoint(namespace="caller"), DEMO, 80)
    assert not network.permits(DEMO, DEMO, 80)


ADDRESSES = [
    ("93.184.216.34", True),
    ("2606:2800:220:1::1", True),
    ("9.255.255.255", True),
    ("10.0.0.0", False),
    ("10.255.255.255", False),
    ("11.0.0.0", True),
    ("172.15.255.255", True),
    ("172.16.0.0", False),
    ("172.31.255.255", False),
    ("172.32.0.0", True),
    ("192.168.255.255", False),
    ("192.169.0.0", True),
    ("100.63.255.255", True),
    ("100.64.0.0", False),
    ("100.127.255.255", False),
    ("100.128.0.0", True),
    ("169.254.169.254", False),
    ("fbff::1", True),
    ("fc00::1", False),
    ("fdff:ffff::1", False),
    ("fe7f::1", True),
    ("fe80::1", False),
    ("febf::1", False),
    ("fec0::1", True),
]


@pytest.mark.parametrize(("address", "verdict"), ADDRESSES)
def test_units_and_downloads_reach_the_internet_but_no_private_address(
    address: str, verdict: bool
) -> None:
    assert under(rules_of(unit(), CLOSED)).permits(DEMO, outside(address), 443) is verdict
    rules = prepare_rules(FILLING, Prepare(fromImage="x", command=("y",)), CLOSED)
    job = Endpoint(namespace="units", labels=FILLING)
    assert under(rules).permits(job, outside(address), 443) is verdict


@pytest.mark.parametrize("protocol", ["TCP", "UDP"])
@pytest.mark.parametrize(
    ("target", "port", "verdict"),
    [
        (Endpoint(namespace="kube-system", labels={"k8s-app": "kube-dns"}), 53, True),
        (Endpoint(namespace="kube-system", labels={"k8s-app": "kube-dns"}), 443, False),
        (Endpoint(namespace="kube-system", labels={"k8s-app": "metrics"}), 53, False),
        (Endpoint(namespace="other", labels={"k8s-app": "kube-dns"}), 53, False),
        (NEIGHBOUR, 53, False),
    ],
    ids=[
        "name server",
        "other port of a name server",
        "other Pod of kube-system",
        "same labels in another namespace",
        "other unit",
    ],
)
def test_a_unit_reaches_nothing_in_the_cluster_but_its_name_servers(
    target: Endpoint, port: int, protocol: str, verdict: bool
) -> None:
    found = under(rules_of(unit(), CLOSED)).permits(DEMO, target, port, protocol)
    assert found is verdict


def test_a_name_server_at_a_blocked_address_is_reached_for_names_only() -> None:
    """An example is a cache on each node, which has a link-local address."""
    options = configured(
        NetworkOptions,
        blocked_cidrs=PRIVATE_NETWORKS,
        name_servers=("169.254.20.10/32", "fd00::a/128"),
    )
    filling = prepare_rules(FILLING, Prepare(fromImage="x", command=("y",)), options)
    job = Endpoint(namespace="units", labels=FILLING)
    for network, who in ((under(rules_of(unit(), options)), DEMO), (under(filling), job)):
        for address in ("169.254.20.10", "fd00::a"):
            assert network.permits(who, outside(address), 53, "UDP")
            assert network.permits(who, outside(address), 53, "TCP")
            assert not network.permits(who, outside(address), 80, "TCP")
        assert not network.permits(who, outside("169.254.169.254"), 53, "UDP")


def test_units_reach_everything_if_the_configuration_allows_all() -> None:
    network = under(rules_of(unit(), OPEN))
    for target in (outside("10.96.0.1"), outside("fd00::1"), NEIGHBOUR, NATS):
        assert network.permits(DEMO, target, 1, "UDP")


@pytest.mark.parametrize(
    "options", [CLOSED, OPEN], ids=["blocked networks", "all networks allowed"]
)
def test_a_copy_reaches_nothing_and_no_prepare_can_be_reached(
    options: NetworkOptions,
) -> None:
    job = Endpoint(namespace="units", labels=FILLING)
    copy = under(prepare_rules(FILLING, Prepare(fromStorageName="source"), options))
    assert not copy.permits(job, outside("93.184.216.34"), 443)
    assert not copy.permits(job, NEIGHBOUR, 53, "UDP")
    assert not copy.permits(Endpoint(namespace="caller"), job, 80)
    fill = Prepare(fromImage="x", command=("y",))
    download = under(prepare_rules(FILLING, fill, options))
    assert not download.permits(Endpoint(namespace="caller"), job, 80)


@pytest.mark.parametrize(
    ("blocked", "address", "verdict"),
    [
        (("0.0.0.0/0",), "93.184.216.34", False),
        (("0.0.0.0/0",), "2606:2800:220:1::1", True),
        (("::/0", "10.0.0.0/8"), "93.184.216.34", True),
        (("::/0", "10.0.0.0/8"), "2606:2800:220:1::1", False),
        (("0.0.0.0/0", "::/0"), "93.184.216.34", False),
        (("0.0.0.0/0", "::/0"), "2606:2800:220:1::1", False),
    ],
    ids=[
        "IPv4 blocked, IPv4 address",
        "IPv4 blocked, IPv6 address",
        "IPv6 blocked, IPv4 address",
        "IPv6 blocked, IPv6 address",
        "both blocked, IPv4 address",
        "both blocked, IPv6 address",
    ],
)
def test_an_address_family_that_is_blocked_as_a_whole_stays_closed(
    blocked: tuple[str, ...], address: str, verdict: bool
) -> None:
    rules = rules_of(unit(), configured(NetworkOptions, blocked_cidrs=blocked))
    assert under(rules).permits(DEMO, outside(address), 443) is verdict


def nats(**peer: Any) -> NetworkOptions:
    return configured(
        NetworkOptions, blocked_cidrs=PRIVATE_NETWORKS, nats=configured(NatsPeer, **peer)
    )


BY_LABELS = nats(namespace_labels={"team": "queue"}, pod_labels=QUEUE)


@pytest.mark.parametrize(
    ("options", "target", "port", "verdict"),
    [
        (BY_LABELS, NATS, 4222, True),
        (BY_LABELS, NATS, 8222, False),
        (BY_LABELS, Endpoint(namespace="queue", labels={"app": "other"}), 4222, False),
        (BY_LABELS, Endpoint(namespace="other", labels=QUEUE), 4222, False),
        (BY_LABELS, outside("10.9.0.7"), 4222, False),
        (nats(cidr="10.9.0.7/32", port=5222), outside("10.9.0.7"), 5222, True),
        (nats(cidr="10.9.0.7/32", port=5222), outside("10.9.0.7"), 4222, False),
        (nats(cidr="10.9.0.7/32"), outside("10.9.0.8"), 4222, False),
        (nats(cidr="fd00::7/128"), outside("fd00::7"), 4222, True),
        (nats(cidr="fd00::7/128"), outside("fd00::8"), 4222, False),
        (CLOSED, NATS, 4222, False),
    ],
    ids=[
        "by labels",
        "by labels, other port",
        "by labels, other Pod",
        "by labels, other namespace",
        "by labels, an address",
        "by address",
        "by address, other port",
        "by address, another address",
        "by IPv6 address",
        "by IPv6 address, another address",
        "not configured",
    ],
)
def test_only_workers_reach_nats_if_it_is_configured(
    options: NetworkOptions, target: Endpoint, port: int, verdict: bool
) -> None:
    worker = under(rules_of(unit(serverless=FUNCTION), options))
    assert worker.permits(DEMO, target, port) is verdict
    for other in (unit(), unit(serverless=Serverless(requestID="f"))):
        assert not under(rules_of(other, options)).permits(DEMO, target, port)


def test_only_the_kubelet_reaches_a_workers_health_endpoints() -> None:
    worker = under(rules_of(unit(Port(name="http", port=8080), serverless=FUNCTION), BY_LABELS))
    for port in range(28_080, 28_090):
        assert not worker.permits(Endpoint(namespace="caller"), DEMO, port)
        assert not worker.permits(DEMO, DEMO, port)


@pytest.mark.parametrize(
    "rules",
    [
        lambda: rules_of(unit(), CLOSED),
        lambda: rules_of(unit(serverless=FUNCTION), BY_LABELS),
        lambda: prepare_rules(FILLING, Prepare(fromStorageName="s"), CLOSED),
    ],
)
def test_every_policy_restricts_both_directions(rules: Callable[[], JsonObject]) -> None:
    assert rules()["policyTypes"] == ["Ingress", "Egress"]
