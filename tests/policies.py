"""An evaluator of NetworkPolicies, which follows the wording of their API reference.

If the reference leaves a case to the network plugin, the more permissive reading counts: a block
of addresses includes Pods that have one of them.
"""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address, ip_network
from typing import Any, TypeAlias

import attrs

Document: TypeAlias = dict[str, Any]


@attrs.frozen(kw_only=True)
class Endpoint:
    """A Pod, or an address outside of the cluster if it has no namespace."""

    namespace: str = ""
    labels: Mapping[str, str] = attrs.field(factory=dict)
    addresses: tuple[str, ...] = ()
    # The number and the protocol under the name of each container port.
    ports: Mapping[str, tuple[int, str]] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Network:
    """A cluster's network: the labels of each namespace, and every policy."""

    namespaces: Mapping[str, Mapping[str, str]]
    policies: tuple[Document, ...]

    def permits(
        self, source: Endpoint, target: Endpoint, port: int, protocol: str = "TCP"
    ) -> bool:
        """Return whether egress rules of the source and ingress rules of the target allow it."""
        wanted = (target, port, protocol)
        leaves = self._lets(source, "Egress", target, wanted)
        return leaves and self._lets(target, "Ingress", source, wanted)

    def _lets(
        self, pod: Endpoint, direction: str, peer: Endpoint, wanted: tuple[Endpoint, int, str]
    ) -> bool:
        """Return whether the Pod's policies of this direction allow the peer.

        A Pod that no policy selects allows every peer. Several policies allow what any of them
        allows.
        """
        choosing = [each for each in self.policies if self._chooses(each, pod, direction)]
        return not choosing or any(
            self._takes_peer(policy, rule, direction, peer) and _takes_port(rule, wanted)
            for policy in choosing
            for rule in policy["spec"].get(direction.lower()) or []
        )

    def _chooses(self, policy: Document, pod: Endpoint, direction: str) -> bool:
        spec = policy["spec"]
        implied = ["Ingress", *(["Egress"] if spec.get("egress") else [])]
        return (
            policy["metadata"]["namespace"] == pod.namespace
            and direction in spec.get("policyTypes", implied)
            and selects(spec["podSelector"], pod.labels)
        )

    def _takes_peer(
        self, policy: Document, rule: Document, direction: str, peer: Endpoint
    ) -> bool:
        peers = rule.get("from" if direction == "Ingress" else "to")
        own = policy["metadata"]["namespace"]
        return not peers or any(self._is_peer(each, own, peer) for each in peers)

    def _is_peer(self, chosen: Document, own: str, peer: Endpoint) -> bool:
        if "ipBlock" in chosen:
            return _is_in_block(chosen["ipBlock"], peer.addresses)
        if not peer.namespace:
            return False
        namespaces = chosen.get("namespaceSelector")
        if namespaces is None and peer.namespace != own:
            return False
        if namespaces is not None and not selects(namespaces, self.namespaces[peer.namespace]):
            return False
        return selects(chosen.get("podSelector", {}), peer.labels)


def selects(selector: Document, labels: Mapping[str, str]) -> bool:
    expressions = selector.get("matchExpressions", [])
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        _holds(each, labels) for each in expressions
    )


def _holds(expression: Document, labels: Mapping[str, str]) -> bool:
    key, values = expression["key"], expression.get("values", [])
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case operator:
            raise ValueError(f"no operator of selectors: {operator}")


def _is_in_block(block: Document, addresses: Iterable[str]) -> bool:
    return any(
        ip_address(each) in ip_network(block["cidr"])
        and not any(ip_address(each) in ip_network(cidr) for cidr in block.get("except", []))
        for each in addresses
    )


def _takes_port(rule: Document, wanted: tuple[Endpoint, int, str]) -> bool:
    ports = rule.get("ports")
    return not ports or any(_is_port(each, *wanted) for each in ports)


def _is_port(given: Document, target: Endpoint, port: int, protocol: str) -> bool:
    """Return whether the port matches; a name is one of the target's, in both directions."""
    if given.get("protocol", "TCP") != protocol:
        return False
    first: int | str | None = given.get("port")
    if isinstance(first, str):
        return target.ports.get(first) == (port, protocol)
    return first is None or first <= port <= int(given.get("endPort", first))
