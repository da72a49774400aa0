"""Admission: addresses, priorities and storage classes that other objects give to a new one."""

from collections.abc import Callable, Mapping
from ipaddress import IPv4Address, IPv4Network
from typing import Final

import attrs

from gpuruntime.embedded.apiserver.documents import Document
from gpuruntime.embedded.apiserver.status_errors import forbidden, invalid
from gpuruntime.embedded.kinds.builtin_kinds import (
    CLAIMS,
    PODS,
    PRIORITY_CLASSES,
    SERVICES,
    STORAGE_CLASSES,
)
from gpuruntime.embedded.kinds.service_rules import HEADLESS, OUTSIDE
from gpuruntime.embedded.objects.namespaces import NAMESPACES
from gpuruntime.embedded.objects.registry import Target
from gpuruntime.embedded.objects.store import Store
from gpuruntime.embedded.objects.versions import Stored
from gpuruntime.embedded.schemas.faults import invalid_value
from gpuruntime.models.kubernetes.quantities import Quantity, parse_quantity

SERVICE_ADDRESSES: Final = IPv4Network("10.96.0.0/16")
NODE_PORTS: Final = range(30_000, 32_768)
DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
NOT_EXPANDABLE: Final = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc "
    "must support resize"
)
LOST_SECONDS: Final = 300
LOST_NODES: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


@attrs.frozen(kw_only=True, slots=True)
class CreationPolicy:
    """A ValidatingAdmissionPolicy for new objects whose rule is a function instead of CEL.

    `refusal` takes the object's target and the labels of its namespace. It returns the message, or
    an empty text if the object is admitted.
    """

    name: str
    refusal: Callable[[Target, Mapping[str, str]], str]


class Admission:
    """Admission of a new object runs before its validation, and of a changed object after it.

    The policies come after the validation of a new object.
    """

    def __init__(self, store: Store, policies: tuple[CreationPolicy, ...]) -> None:
        self._store = store
        self._policies = policies
        services = store.collection(SERVICES).present()
        self._addresses = max((_number_of(each) for each in services), default=0)
        self._ports = max((_last_port(each) - NODE_PORTS.start for each in services), default=0)

    def admit(self, target: Target, document: Document) -> None:
        if target.kind is SERVICES:
            self._admit_service(target, document["spec"])
        elif target.kind is PODS:
            self._admit_pod(target, document["spec"])
        elif target.kind is CLAIMS:
            self._admit_claim(document["spec"])

    def admit_by_policy(self, target: Target) -> None:
        """Raise StatusError if a policy refuses the new object."""
        namespace = self._store.collection(NAMESPACES).get(target.namespace)
        labels = {} if namespace is None else namespace.labels
        for policy in self._policies:
            if why := policy.refusal(target, labels):
                bound = f"ValidatingAdmissionPolicy '{policy.name}' with binding '{policy.name}'"
                raise forbidden(target.kind, target.name, f"{bound} denied request: {why}")

    def admit_change(self, target: Target, document: Document, old: Document) -> None:
        if target.kind is CLAIMS and not target.subresource and _size(document) > _size(old):
            self._admit_growth(target, document["spec"])

    def _admit_growth(self, target: Target, spec: Document) -> None:
        name = spec.get("storageClassName")
        stored = self._store.collection(STORAGE_CLASSES).get(name) if name else None
        if stored is None or not stored.document().get("allowVolumeExpansion"):
            raise forbidden(target.kind, target.name, NOT_EXPANDABLE)

    def _admit_service(self, target: Target, spec: Document) -> None:
        if spec["type"] == "ExternalName":
            return
        asked = spec.get("clusterIP", "")
        if asked and asked != HEADLESS and asked in self._taken_addresses():
            why = f"failed to allocate IP {asked}: provided IP is already allocated"
            fault = invalid_value("spec.clusterIPs", [asked], why)
            raise invalid(target.kind, target.name, [fault])
        spec["clusterIP"] = asked or self._free_address()
        spec["clusterIPs"] = [spec["clusterIP"]]
        if spec["type"] in OUTSIDE:
            for port in spec.get("ports") or ():
                port.setdefault("nodePort", self._next_port())

    def _taken_addresses(self) -> set[str]:
        services = self._store.collection(SERVICES).present()
        return {service.fields["spec.clusterIP"] for service in services}

    def _free_address(self) -> str:
        """Return the next address in turn, so that a freed one is reused as late as possible."""
        count = SERVICE_ADDRESSES.num_addresses - 2
        taken = self._taken_addresses() if self._addresses >= count else set()
        while True:
            self._addresses += 1
            address = str(SERVICE_ADDRESSES[self._addresses % count + 1])
            if address not in taken:
                return address

    def _next_port(self) -> int:
        self._ports += 1
        return NODE_PORTS[self._ports % len(NODE_PORTS)]

    def _admit_pod(self, target: Target, spec: Document) -> None:
        """Do what a server's default admission plugins do, except adding the token's volume."""
        name = spec.setdefault("serviceAccountName", "default")
        spec["serviceAccount"] = name
        tolerations = spec.setdefault("tolerations", [])
        for key in LOST_NODES:
            if not any(each.get("key", key) == key for each in tolerations):
                tolerations.append(
                    {
                        "key": key,
                        "operator": "Exists",
                        "effect": "NoExecute",
                        "tolerationSeconds": LOST_SECONDS,
                    }
                )
        self._give_priority(target, spec)

    def _give_priority(self, target: Target, spec: Document) -> None:
        found = self._priority_class(target, spec)
        if found.get("globalDefault"):
            spec.setdefault("priorityClassName", found["metadata"]["name"])
        value = found.get("value", 0)
        if spec.setdefault("priority", value) != value:
            why = (
                f"the integer value of priority ({spec['priority']}) must not be provided in pod "
                f"spec; priority admission controller computed {value} from the given "
                "PriorityClass name"
            )
            raise forbidden(target.kind, target.name, why)
        spec["preemptionPolicy"] = found.get("preemptionPolicy", "PreemptLowerPriority")

    def _priority_class(self, target: Target, spec: Document) -> Document:
        classes = self._store.collection(PRIORITY_CLASSES)
        name = spec.get("priorityClassName")
        if name:
            stored = classes.get(name)
            if stored is None:
                why = f"no PriorityClass with name {name} was found"
                raise forbidden(target.kind, target.name, why)
            return stored.document()
        documents = (stored.document() for stored in classes.present())
        return next((each for each in documents if each.get("globalDefault")), {})

    def _admit_claim(self, spec: Document) -> None:
        """Set the default class if the name is absent; an empty name asks for no class."""
        if "storageClassName" in spec:
            return
        for stored in self._store.collection(STORAGE_CLASSES).present():
            metadata = stored.document()["metadata"]
            if metadata.get("annotations", {}).get(DEFAULT_CLASS) == "true":
                spec["storageClassName"] = metadata["name"]


def _number_of(service: Stored) -> int:
    """Return the turn in which the Service got its address, or 0 if it has none of ours."""
    text = service.fields["spec.clusterIP"]
    if text in ("", HEADLESS) or IPv4Address(text) not in SERVICE_ADDRESSES:
        return 0
    return int(IPv4Address(text)) - int(SERVICE_ADDRESSES.network_address) - 1


def _last_port(service: Stored) -> int:
    ports = service.document()["spec"].get("ports") or ()
    return max((each.get("nodePort", 0) for each in ports), default=0) or NODE_PORTS.start


def _size(claim: Document) -> Quantity:
    return parse_quantity(claim["spec"]["resources"]["requests"]["storage"])
