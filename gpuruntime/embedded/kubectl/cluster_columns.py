"""Columns of `kubectl get` for nodes, Services, claims, Events and the small kinds."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from gpuruntime.embedded.apiserver.documents import Document
from gpuruntime.embedded.kubectl.columns import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    Column,
    Printer,
    age,
    age_of,
    dig,
    has_condition,
    joined,
    labels_text,
    selector_text,
    wide,
)

ROLE_LABEL: Final = "node-role.kubernetes.io/"
DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
UNSET: Final = "<unset>"


def _plain(*named: tuple[str, Callable[[Document], Any]], count: str = "") -> Printer:
    """Return a printer of the name, given members and the age; column `count` holds numbers."""

    def cells(document: Document, now: datetime) -> list[Any]:
        shown = [show(document) for _, show in named]
        return [document["metadata"]["name"], *shown, age_of(document, now)]

    own = (Column(name, "integer" if name == count else "string") for name, _ in named)
    return Printer((NAME, *own, AGE), cells)


def _created(document: Document, now: datetime) -> list[Any]:
    return [document["metadata"]["name"], document["metadata"]["creationTimestamp"]]


def _node_cells(document: Document, now: datetime) -> list[Any]:
    status, info = document.get("status", {}), dig(document, "status", "nodeInfo") or {}
    addresses = {each["type"]: each["address"] for each in status.get("addresses") or ()}
    labels = document["metadata"].get("labels", {})
    roles = [name.removeprefix(ROLE_LABEL) for name in labels if name.startswith(ROLE_LABEL)]
    return [
        document["metadata"]["name"],
        _node_state(document),
        joined(sorted(roles)) or NONE,
        age_of(document, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP", NONE),
        addresses.get("ExternalIP", NONE),
        info.get("osImage") or UNKNOWN,
        info.get("kernelVersion") or UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _node_state(document: Document) -> str:
    status = document.get("status", {})
    kinds = {each["type"] for each in status.get("conditions") or ()}
    state = "Unknown"
    if "Ready" in kinds:
        state = "Ready" if has_condition(status, "Ready") else "NotReady"
    is_closed = dig(document, "spec", "unschedulable")
    return f"{state},SchedulingDisabled" if is_closed else state


def _service_cells(document: Document, now: datetime) -> list[Any]:
    spec = document["spec"]
    ports = (
        f"{each['port']}:{each['nodePort']}/{each['protocol']}"
        if each.get("nodePort")
        else f"{each['port']}/{each['protocol']}"
        for each in spec.get("ports") or ()
    )
    return [
        document["metadata"]["name"],
        spec["type"],
        (spec.get("clusterIPs") or [NONE])[0],
        _outside_address(document),
        joined(ports) or NONE,
        age_of(document, now),
        labels_text(spec.get("selector")),
    ]


def _outside_address(document: Document) -> str:
    spec = document["spec"]
    if spec["type"] == "ExternalName":
        return str(spec["externalName"])
    balanced = dig(document, "status", "loadBalancer", "ingress") or ()
    addresses = [each.get("ip") or each.get("hostname", "") for each in balanced]
    addresses += spec.get("externalIPs") or []
    empty = "<pending>" if spec["type"] == "LoadBalancer" else NONE
    return joined(addresses) or empty


def _claim_cells(document: Document, now: datetime) -> list[Any]:
    spec, status = document["spec"], document.get("status", {})
    is_bound = bool(spec.get("volumeName"))
    return [
        document["metadata"]["name"],
        _phase(document),
        spec.get("volumeName", ""),
        dig(status, "capacity", "storage") or "0" if is_bound else "",
        _modes(status.get("accessModes")) if is_bound else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName", UNSET),
        age_of(document, now),
        spec.get("volumeMode", UNSET),
    ]


def _device_claim_state(document: Document) -> str:
    is_ending = "deletionTimestamp" in document["metadata"]
    status, states = document.get("status", {}), ["deleted"] if is_ending else []
    if "allocation" in status:
        states.append("allocated")
        states += ["reserved"] if status.get("reservedFor") else []
    elif not is_ending:
        states.append("pending")
    return ",".join(states)


def _volume_cells(document: Document, now: datetime) -> list[Any]:
    spec, claim = document["spec"], document["spec"].get("claimRef")
    return [
        document["metadata"]["name"],
        dig(spec, "capacity", "storage") or "0",
        _modes(spec.get("accessModes")),
        spec["persistentVolumeReclaimPolicy"],
        _phase(document),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName", UNSET),
        dig(document, "status", "reason") or "",
        age_of(document, now),
        spec.get("volumeMode", UNSET),
    ]


def _phase(document: Document) -> str:
    if "deletionTimestamp" in document["metadata"]:
        return "Terminating"
    return str(dig(document, "status", "phase") or "")


def _modes(modes: list[str] | None) -> str:
    return joined(short for mode, short in MODES.items() if mode in (modes or ()))


def _event_cells(document: Document, now: datetime) -> list[Any]:
    about, series = document["involvedObject"], document.get("series")
    first = age(document.get("firstTimestamp") or document.get("eventTime"), now)
    last = age(document["lastTimestamp"], now) if document.get("lastTimestamp") else first
    if series:
        last = age(series.get("lastObservedTime"), now)
    name, kind = about.get("name", ""), about.get("kind", "").lower()
    source = dig(document, "source", "component") or document.get("reportingComponent", "")
    host = dig(document, "source", "host") or document.get("reportingInstance", "")
    return [
        last,
        document.get("type", ""),
        document.get("reason", ""),
        f"{kind}/{name}" if name else kind,
        about.get("fieldPath", ""),
        f"{source}, {host}" if host else source,
        document.get("message", "").strip(),
        first,
        series["count"] if series else document.get("count") or 1,
        document["metadata"]["name"],
    ]


def _quota_cells(document: Document, now: datetime) -> list[Any]:
    status = document.get("status", {})
    used = status.get("used", {})
    texts = [
        (name, f"{name}: {used.get(name, '0')}/{hard}")
        for name, hard in sorted(status.get("hard", {}).items())
    ]
    return [
        document["metadata"]["name"],
        ", ".join(text for name, text in texts if not name.startswith("limits.")),
        ", ".join(text for name, text in texts if name.startswith("limits.")),
        age_of(document, now),
    ]


def _priority_cells(document: Document, now: datetime) -> list[Any]:
    return [
        document["metadata"]["name"],
        document["value"],
        document.get("globalDefault", False),
        age_of(document, now),
        document["preemptionPolicy"],
    ]


def _class_name(document: Document) -> str:
    name, notes = document["metadata"]["name"], document["metadata"].get("annotations", {})
    return f"{name} (default)" if notes.get(DEFAULT_CLASS) == "true" else str(name)


def _class_cells(document: Document, now: datetime) -> list[Any]:
    return [
        _class_name(document),
        document["provisioner"],
        document["reclaimPolicy"],
        document["volumeBindingMode"],
        document.get("allowVolumeExpansion", False),
        age_of(document, now),
    ]


def _endpoints(document: Document) -> str:
    pairs = [
        f"{address['ip']}:{port['port']}"
        for subset in document.get("subsets") or ()
        for port in subset.get("ports") or ()
        for address in subset.get("addresses") or ()
    ]
    return joined(pairs[:3]) + (f" + {len(pairs) - 3} more..." if pairs[3:] else "") or NONE


def _binding_cells(document: Document, now: datetime) -> list[Any]:
    role, subjects = document["roleRef"], document.get("subjects") or []

    def named(kind: str) -> str:
        names = (
            f"{each['namespace']}/{each['name']}" if each.get("namespace") else each["name"]
            for each in subjects
            if each["kind"] == kind
        )
        return ", ".join(names)

    return [
        document["metadata"]["name"],
        f"{role['kind']}/{role['name']}",
        age_of(document, now),
        *map(named, ("User", "Group", "ServiceAccount")),
    ]


NODES: Final = Printer(
    (
        NAME,
        Column("Status"),
        Column("Roles"),
        AGE,
        Column("Version"),
        *map(wide, ("Internal-IP", "External-IP", "OS-Image", "Kernel-Version")),
        wide("Container-Runtime"),
    ),
    _node_cells,
)
SERVICES: Final = Printer(
    (
        NAME,
        *map(Column, ("Type", "Cluster-IP", "External-IP", "Port(s)")),
        AGE,
        wide("Selector"),
    ),
    _service_cells,
)
CLAIMS: Final = Printer(
    (
        NAME,
        *map(Column, ("Status", "Volume", "Capacity", "Access Modes", "StorageClass")),
        Column("VolumeAttributesClass"),
        AGE,
        wide("VolumeMode"),
    ),
    _claim_cells,
)
VOLUMES: Final = Printer(
    (
        NAME,
        *map(Column, ("Capacity", "Access Modes", "Reclaim Policy", "Status", "Claim")),
        *map(Column, ("StorageClass", "VolumeAttributesClass", "Reason")),
        AGE,
        wide("VolumeMode"),
    ),
    _volume_cells,
)
EVENTS: Final = Printer(
    (
        *map(Column, ("Last Seen", "Type", "Reason", "Object")),
        wide("Subobject"),
        wide("Source"),
        Column("Message"),
        wide("First Seen"),
        wide("Count"),
        Column("Name", format="name", priority=1),
    ),
    _event_cells,
)
QUOTAS: Final = Printer((NAME, Column("Request"), Column("Limit"), AGE), _quota_cells)
PRIORITY_CLASSES: Final = Printer(
    (
        NAME,
        Column("Value", "integer"),
        Column("Global-Default", "boolean"),
        AGE,
        Column("PreemptionPolicy"),
    ),
    _priority_cells,
)
STORAGE_CLASSES: Final = Printer(
    (
        NAME,
        *map(Column, ("Provisioner", "ReclaimPolicy", "VolumeBindingMode")),
        Column("AllowVolumeExpansion"),
        AGE,
    ),
    _class_cells,
)
CREATED: Final = Printer((NAME, Column("Created At", "date")), _created)
NAMESPACES: Final = _plain(("Status", lambda document: dig(document, "status", "phase") or ""))
CONFIG_MAPS: Final = _plain(
    (
        "Data",
        lambda document: len(document.get("data", ())) + len(document.get("binaryData", ())),
    )
)
SECRETS: Final = _plain(
    ("Type", lambda document: document["type"]),
    ("Data", lambda document: len(document.get("data", ()))),
)
SERVICE_ACCOUNTS: Final = _plain(("Secrets", lambda document: len(document.get("secrets", ()))))
ENDPOINTS: Final = _plain(("Endpoints", _endpoints))
DEVICE_CLAIMS: Final = _plain(("State", _device_claim_state))
DEVICE_SLICES: Final = _plain(
    ("Node", lambda document: document["spec"].get("nodeName", "")),
    ("Driver", lambda document: document["spec"]["driver"]),
    ("Pool", lambda document: document["spec"]["pool"]["name"]),
)
NETWORK_POLICIES: Final = _plain(
    ("Pod-Selector", lambda document: selector_text(document["spec"].get("podSelector")))
)
LEASES: Final = _plain(("Holder", lambda document: dig(document, "spec", "holderIdentity") or ""))
DISRUPTION_BUDGETS: Final = _plain(
    ("Min Available", lambda document: str(dig(document, "spec", "minAvailable") or "N/A")),
    ("Max Unavailable", lambda document: str(dig(document, "spec", "maxUnavailable") or "N/A")),
    ("Allowed Disruptions", lambda document: dig(document, "status", "disruptionsAllowed") or 0),
    count="Allowed Disruptions",
)
ROLE_BINDINGS: Final = Printer(
    (NAME, Column("Role"), AGE, *map(wide, ("Users", "Groups", "ServiceAccounts"))),
    _binding_cells,
)
