"""Defaults and checks of the small kinds: policies, Leases, PriorityClasses and role bindings."""

import ipaddress
from collections.abc import Iterator
from typing import Final

from gpuruntime.embedded.apiserver.documents import Document
from gpuruntime.embedded.schemas.faults import (
    Fault,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)

PREEMPTIONS: Final = ("PreemptLowerPriority", "Never")
HIGHEST_PRIORITY: Final = 1_000_000_000
SYSTEM_PREFIX: Final = "system-"
SYSTEM_PRIORITIES: Final = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
RBAC: Final = "rbac.authorization.k8s.io"
POLICIES: Final = ("Ingress", "Egress")


def fill_network_policy(document: Document, old: Document | None) -> None:
    spec = document["spec"]
    if "policyTypes" not in spec:
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    for rule in (spec.get("ingress") or []) + (spec.get("egress") or []):
        for port in rule.get("ports") or ():
            port.setdefault("protocol", "TCP")


def judge_network_policy(document: Document, old: Document | None) -> Iterator[Fault]:
    spec = document["spec"]
    for direction, side in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or ()):
            for number, peer in enumerate(rule.get(side) or ()):
                yield from _peer_faults(peer, f"spec.{direction}[{index}].{side}[{number}]")
    for index, kind in enumerate(spec["policyTypes"]):
        if kind not in POLICIES:
            yield not_supported(f"spec.policyTypes[{index}]", kind, list(POLICIES))


def _peer_faults(peer: Document, path: str) -> Iterator[Fault]:
    if not peer:
        yield required(path, "must specify a peer")
        return
    block = peer.get("ipBlock")
    if block is None:
        return
    if len(peer) > 1:
        why = "may not specify both ipBlock and another peer"
        yield forbidden_field(path, why)
    for name, text in [("cidr", block["cidr"])] + [
        (f"except[{index}]", each) for index, each in enumerate(block.get("except") or ())
    ]:
        if not _is_cidr(text):
            why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
            yield invalid_value(f"{path}.ipBlock.{name}", text, why)


def _is_cidr(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


def judge_event(document: Document, old: Document | None) -> Iterator[Fault]:
    """Check that an Event is in the namespace of its object, or in `default` if that has none."""
    own, named = document["metadata"]["namespace"], document["involvedObject"].get("namespace", "")
    if own != (named or "default"):
        why = "does not match event.namespace"
        yield invalid_value("involvedObject.namespace", named, why)


def judge_lease(document: Document, old: Document | None) -> Iterator[Fault]:
    spec = document["spec"]
    if spec.get("leaseDurationSeconds", 1) <= 0:
        seconds = spec["leaseDurationSeconds"]
        yield invalid_value("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    if spec.get("leaseTransitions", 0) < 0:
        why = "must be greater than or equal to 0"
        yield invalid_value("spec.leaseTransitions", spec["leaseTransitions"], why)


def fill_priority_class(document: Document, old: Document | None) -> None:
    document.setdefault("preemptionPolicy", "PreemptLowerPriority")


def judge_priority_class(document: Document, old: Document | None) -> Iterator[Fault]:
    name, value = document["metadata"].get("name", ""), document["value"]
    if name.startswith(SYSTEM_PREFIX):
        if SYSTEM_PRIORITIES.get(name) != value:
            why = "priority class names with 'system-' prefix are reserved for system use only"
            yield forbidden_field("metadata.name", why)
    elif value > HIGHEST_PRIORITY:
        why = f"maximum allowed value of a user defined priority is {HIGHEST_PRIORITY}"
        yield forbidden_field("value", why)
    policy = document["preemptionPolicy"]
    if policy not in PREEMPTIONS:
        yield not_supported("preemptionPolicy", policy, list(PREEMPTIONS))
    for member in ("value", "preemptionPolicy"):
        if old is not None and document[member] != old[member]:
            yield forbidden_field(member, "may not be changed in an update.")


def fill_role_binding(document: Document, old: Document | None) -> None:
    document["roleRef"]["apiGroup"] = document["roleRef"].get("apiGroup") or RBAC
    for subject in document.get("subjects") or ():
        if subject["kind"] in ("User", "Group"):
            subject.setdefault("apiGroup", RBAC)


def judge_role_binding(document: Document, old: Document | None) -> Iterator[Fault]:
    if not document["roleRef"]["name"]:
        yield required("roleRef.name")
    if old is not None and document["roleRef"] != old["roleRef"]:
        yield invalid_value("roleRef", document["roleRef"], "cannot change roleRef")


def fill_endpoints(document: Document, old: Document | None) -> None:
    for subset in document.get("subsets") or ():
        for port in subset.get("ports") or ():
            port.setdefault("protocol", "TCP")
