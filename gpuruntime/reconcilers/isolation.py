"""The NetworkPolicy of a unit: who reaches its ports, and what it may reach."""

from collections.abc import Iterable
from ipaddress import ip_network
from typing import Any, Final

from gpuruntime.models import labels
from gpuruntime.models.json import JsonObject
from gpuruntime.models.units import GPUUnit
from gpuruntime.reconcilers.options import NetworkOptions

# On a namespace whose Pods may call units.
ACCESS: Final = f"{labels.GROUP}/access"
DNS_PORT: Final = 53
EVERYWHERE: Final = {4: "0.0.0.0/0", 6: "::/0"}


def policy_spec(unit: GPUUnit, options: NetworkOptions) -> JsonObject:
    """A kubelet's probes come from the node, which no policy keeps out."""
    unit_pods: JsonObject = {"matchLabels": {labels.UNIT: unit.metadata.name}}
    return {
        "podSelector": unit_pods,
        "policyTypes": ["Ingress", "Egress"],
        **_present("ingress", _ingress(unit, unit_pods)),
        "egress": _egress(options),
    }


def _ingress(unit: GPUUnit, unit_pods: JsonObject) -> list[Any]:
    ports = unit.spec.template.ports
    if not ports:
        return []
    callers: JsonObject = {"namespaceSelector": {"matchLabels": {ACCESS: "true"}}}
    return [
        {
            "from": [callers, {"podSelector": unit_pods}],
            "ports": [{"port": port.port, "protocol": port.protocol} for port in ports],
        }
    ]


def _egress(options: NetworkOptions) -> list[Any]:
    if options.allows_all:
        return [{}]
    blocks = [
        {"ipBlock": {"cidr": everywhere, **_present("except", _of(version, options))}}
        for version, everywhere in EVERYWHERE.items()
    ]
    return [_dns(), {"to": blocks}]


def _dns() -> JsonObject:
    """To the cluster's own servers, which live in a range that is blocked for all else."""
    servers: JsonObject = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
        "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
    }
    return {
        "to": [servers],
        "ports": [{"port": DNS_PORT, "protocol": each} for each in ("UDP", "TCP")],
    }


def _of(version: int, options: NetworkOptions) -> list[str]:
    return [cidr for cidr in options.blocked_cidrs if ip_network(cidr).version == version]


def _present(name: str, values: Iterable[Any]) -> JsonObject:
    """The server drops empty lists; an absent one never reads as drift."""
    listed = list(values)
    return {name: listed} if listed else {}
