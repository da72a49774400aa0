"""The NetworkPolicies of our Pods: who reaches them, and what they may reach.

Policies only ever add up, so each Pod is meant to be chosen by one of these and by the one that
closes its whole namespace. An empty list of rules lets nothing through, an empty list of peers in
a rule lets everything: none of the latter is ever written by accident.
"""

from collections.abc import Mapping, Sequence
from ipaddress import ip_network
from typing import Any, Final

from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.storages import Prepare
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.reconcilers.options import NatsPeer, NetworkOptions

# On a namespace whose Pods may call units.
ACCESS: Final = f"{labels.GROUP}/access"
NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
DNS_PORT: Final = 53
EVERYWHERE: Final = {4: "0.0.0.0/0", 6: "::/0"}


def unit_rules(unit: GPUUnit, options: NetworkOptions) -> JsonObject:
    """A kubelet's probes come from the node, which no policy keeps out."""
    pods = _pods({labels.UNIT: unit.metadata.name})
    ports = [_port(port.port, port.protocol) for port in unit.spec.template.ports]
    callers: JsonObject = {"namespaceSelector": _pods({ACCESS: "true"})}
    own: JsonObject = {"podSelector": pods}
    ingress = [{"from": [callers, own], "ports": ports}] if ports else []
    # The same Pods are at both ends of a call from a unit's own, and both ends have to agree.
    egress = [{"to": [own], "ports": ports}] if ports else []
    return _rules(pods, ingress, [*_outside(options), *egress, *_queue(unit, options)])


def prepare_rules(
    pods: Mapping[str, str], prepare: Prepare, options: NetworkOptions
) -> JsonObject:
    """A download reaches what a unit does; a copy has all that it needs on its volumes."""
    return _rules(_pods(pods), [], [] if prepare.fromStorageName else _outside(options))


def accessor_rules(pods: Mapping[str, str], port: int, system_namespace: str) -> JsonObject:
    """Reached through the API alone."""
    api: JsonObject = {
        "namespaceSelector": _pods({NAMESPACE_NAME: system_namespace}),
        "podSelector": _pods({labels.APP_NAME: labels.API_APP}),
    }
    return _rules(_pods(pods), [{"from": [api], "ports": [_port(port)]}], [])


def _rules(pods: JsonObject, ingress: Sequence[Any], egress: Sequence[Any]) -> JsonObject:
    return {
        "podSelector": pods,
        "policyTypes": ["Ingress", "Egress"],
        **_present("ingress", ingress),
        **_present("egress", egress),
    }


def _outside(options: NetworkOptions) -> list[Any]:
    """The name servers, and the Internet where any of it is left."""
    if options.allows_all:
        return [{}]
    blocks = [
        {"ipBlock": {"cidr": EVERYWHERE[version], **_present("except", blocked)}}
        for version, blocked in _blocked(options).items()
        if not any(ip_network(cidr).prefixlen == 0 for cidr in blocked)
    ]
    names = _dns(options)
    return [names, {"to": blocks}] if blocks else [names]


def _dns(options: NetworkOptions) -> JsonObject:
    """To the cluster's own servers, which live in a range that is blocked for all else."""
    servers: JsonObject = {
        "namespaceSelector": _pods({NAMESPACE_NAME: "kube-system"}),
        "podSelector": _pods({"k8s-app": "kube-dns"}),
    }
    others = [{"ipBlock": {"cidr": cidr}} for cidr in options.name_servers]
    ports = [_port(DNS_PORT, each) for each in ("UDP", "TCP")]
    return {"to": [servers, *others], "ports": ports}


def _queue(unit: GPUUnit, options: NetworkOptions) -> list[Any]:
    """The workers of functions alone speak to NATS, and to nothing else where it is."""
    if not unit.spec.is_function_worker or options.nats is None:
        return []
    return [{"to": [_nats(options.nats)], "ports": [_port(options.nats.port)]}]


def _nats(peer: NatsPeer) -> JsonObject:
    if peer.cidr:
        return {"ipBlock": {"cidr": peer.cidr}}
    return {
        "namespaceSelector": _pods(peer.namespace_labels),
        "podSelector": _pods(peer.pod_labels),
    }


def _blocked(options: NetworkOptions) -> dict[int, list[str]]:
    return {
        version: [cidr for cidr in options.blocked_cidrs if ip_network(cidr).version == version]
        for version in EVERYWHERE
    }


def _port(number: int, protocol: str = "TCP") -> JsonObject:
    return {"port": number, "protocol": protocol}


def _pods(with_labels: Mapping[str, str]) -> JsonObject:
    return {"matchLabels": dict(with_labels)}


def _present(name: str, values: Sequence[Any]) -> JsonObject:
    """The server drops empty lists; an absent one never reads as drift."""
    return {name: values} if values else {}
