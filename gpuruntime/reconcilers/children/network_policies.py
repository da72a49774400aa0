"""NetworkPolicies of our Pods: what may reach them, and what they may reach.

Policies only add up, so each Pod should be selected by one of these and by the one that closes its
whole namespace. An empty list of rules allows nothing, but an empty list of peers in a rule allows
everything. The latter is written only if the configuration allows all.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from ipaddress import ip_network
from typing import Any, Final

from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.activity import GATEWAY_APP
from gpuruntime.models.kinds.storages import Prepare
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.reconcilers.options import NatsPeer, NetworkOptions

# Label of a namespace whose Pods may call units.
ACCESS: Final = f"{labels.GROUP}/access"
NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
DNS_PORT: Final = 53
EVERYWHERE: Final = {4: "0.0.0.0/0", 6: "::/0"}


def unit_rules(
    unit: GPUUnit,
    selector: Mapping[str, str],
    options: NetworkOptions,
    *,
    gateway_namespace: str = "",
) -> JsonObject:
    """Return the rules of a unit. Kubelet probes come from the node and need no rule.

    The gateway's Pods in the namespace reach the unit's ports, too; an empty one admits none.
    """
    pods = _pods(selector)
    ports = [_port(port.port, port.protocol) for port in unit.spec.template.ports]
    callers: JsonObject = {"namespaceSelector": _pods({ACCESS: "true"})}
    own: JsonObject = {"podSelector": pods}
    gateway = [_role(gateway_namespace, GATEWAY_APP)] if gateway_namespace else []
    ingress = [{"from": [callers, own, *gateway], "ports": ports}] if ports else []
    # A unit's Pod may call the unit's own Service. Both ends of that call must be allowed.
    egress = [{"to": [own], "ports": ports}] if ports else []
    return _rules(pods, ingress, [*_outside(options), *egress, *_queue(unit, options)])


def prepare_rules(
    pods: Mapping[str, str], prepare: Prepare, options: NetworkOptions
) -> JsonObject:
    """Return the rules of a prepare: a download reaches what a unit does, a copy nothing."""
    return _rules(_pods(pods), [], [] if prepare.fromStorageName else _outside(options))


def accessor_rules(pods: Mapping[str, str], port: int, system_namespace: str) -> JsonObject:
    """Return the rules of a file server: only the API's Pods reach it."""
    api = _role(system_namespace, labels.API_APP)
    return _rules(_pods(pods), [{"from": [api], "ports": [_port(port)]}], [])


def _rules(pods: JsonObject, ingress: Sequence[Any], egress: Sequence[Any]) -> JsonObject:
    return {
        "podSelector": pods,
        "policyTypes": ["Ingress", "Egress"],
        **_present("ingress", ingress),
        **_present("egress", egress),
    }


def _outside(options: NetworkOptions) -> list[Any]:
    """Allow the name servers, and the Internet unless all of it is blocked."""
    if options.allows_all:
        return [{}]
    blocks, names = _internet(options.blocked_cidrs), _dns(options)
    return [names, {"to": [*blocks]}] if blocks else [names]


@cache
def _internet(blocked_cidrs: tuple[str, ...]) -> tuple[JsonObject, ...]:
    """Return the allowed blocks of each IP version. Every policy needs them; parsing is slow."""
    blocks: list[JsonObject] = []
    for version, everywhere in EVERYWHERE.items():
        blocked = [each for each in blocked_cidrs if ip_network(each).version == version]
        if not any(ip_network(cidr).prefixlen == 0 for cidr in blocked):
            blocks.append({"ipBlock": {"cidr": everywhere, **_present("except", blocked)}})
    return tuple(blocks)


def _dns(options: NetworkOptions) -> JsonObject:
    """Allow the cluster's name servers, whose addresses are blocked for everything else."""
    servers: JsonObject = {
        "namespaceSelector": _pods({NAMESPACE_NAME: "kube-system"}),
        "podSelector": _pods({"k8s-app": "kube-dns"}),
    }
    others = [{"ipBlock": {"cidr": cidr}} for cidr in options.name_servers]
    ports = [_port(DNS_PORT, each) for each in ("UDP", "TCP")]
    return {"to": [servers, *others], "ports": ports}


def _queue(unit: GPUUnit, options: NetworkOptions) -> list[Any]:
    """Allow NATS on its port, for the workers of functions only."""
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


def _role(namespace: str, app: str) -> JsonObject:
    """Return the Pods of a role as a peer."""
    return {
        "namespaceSelector": _pods({NAMESPACE_NAME: namespace}),
        "podSelector": _pods({labels.APP_NAME: app}),
    }


def _port(number: int, protocol: str = "TCP") -> JsonObject:
    return {"port": number, "protocol": protocol}


def _pods(with_labels: Mapping[str, str]) -> JsonObject:
    return {"matchLabels": dict(with_labels)}


def _present(name: str, values: Sequence[Any]) -> JsonObject:
    """Leave out an empty list as the server does, so that it does not count as drift."""
    return {name: values} if values else {}
