"""Who may speak to whom under NetworkPolicies, by the words of their reference.

Where the reference leaves it to the network, the wider reading counts: a block of addresses takes
in Pods that have one of them.
"""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address, ip_network
from typing import Any, TypeAlias

import attrs

Document: TypeAlias = dict[str, Any]


@attrs.frozen(kw_only=True)
class Endpoint:
    """A Pod; without a namespace, an address outside of the cluster."""

    namespace: str = ""
    labels: Mapping[str, str] = attrs.field(factory=dict)
    addresses: tuple[str, ...] = ()
    # Number and protocol by the name of a container's port.
    ports: Mapping[str, tuple[int, str]] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Network:
    """The labels of each namespace, and every policy there is."""

    namespaces: Mapping[str, Mapping[str, str]]
    policies: tuple[Document, ...]

    def permits(
        self, source: Endpoint, target: Endpoint, port: int, protocol: str = "TCP"
    ) -> bool:
        """Both ends have to agree."""
        wanted = (target, port, protocol)
        leaves = self._lets(source, "Egress", target, wanted)
        return leaves and self._lets(target, "Ingress", source, wanted)

    def _lets(
        self, pod: Endpoint, direction: str, peer: Endpoint, wanted: tuple[Endpoint, int, str]
    ) -> bool:
        """What no policy of this direction chooses is open; what several choose, adds up."""
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
    """A name is that of a port of the target, whichever end the policy is for."""
    if given.get("protocol", "TCP") != protocol:
        return False
    first: int | str | None = given.get("port")
    if isinstance(first, str):
        return target.ports.get(first) == (port, protocol)
    return first is None or first <= port <= int(given.get("endPort", first))
