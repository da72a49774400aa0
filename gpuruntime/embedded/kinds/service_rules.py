"""Defaults and checks of Services; admission gives them their addresses."""

from collections.abc import Iterator
from typing import Final

from gpuruntime.embedded.apiserver.documents import Document
from gpuruntime.embedded.kinds.pod_rules import PORT_RANGE, PROTOCOLS
from gpuruntime.embedded.schemas.faults import (
    Fault,
    duplicate,
    invalid_value,
    not_supported,
    required,
)
from gpuruntime.embedded.schemas.names import label_faults

TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
OUTSIDE: Final = ("LoadBalancer", "NodePort")
HEADLESS: Final = "None"


def fill_service(document: Document, old: Document | None) -> None:
    spec = document["spec"]
    kind = spec.setdefault("type", "ClusterIP")
    if spec.setdefault("sessionAffinity", "None") == "ClientIP":
        config = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        config.setdefault("timeoutSeconds", 10800)
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if port.get("targetPort", 0) in (0, ""):
            port["targetPort"] = port["port"]
    if kind == "ExternalName":
        return
    spec.setdefault("internalTrafficPolicy", "Cluster")
    # A headless Service without a selector may get addresses of any family.
    is_open = spec.get("clusterIP") == HEADLESS and not spec.get("selector")
    spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if is_open else ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "RequireDualStack" if is_open else "SingleStack")
    if kind in OUTSIDE:
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    if old is not None:
        _keep_addresses(spec, old["spec"])


def _keep_addresses(spec: Document, old: Document) -> None:
    """Keep the old addresses: a caller that replaces a Service need not know them."""
    for name in ("clusterIP", "clusterIPs"):
        if name in old and not spec.get(name):
            spec[name] = old[name]
    ports = {(each["protocol"], each["port"]): each for each in old.get("ports") or ()}
    for port in spec.get("ports") or ():
        before = ports.get((port["protocol"], port["port"]), {})
        if spec["type"] in OUTSIDE and "nodePort" in before:
            port.setdefault("nodePort", before["nodePort"])


def judge_service(document: Document, old: Document | None) -> Iterator[Fault]:
    spec = document["spec"]
    if spec["type"] == "ExternalName":
        if not spec.get("externalName"):
            yield required("spec.externalName")
        return
    ports = spec.get("ports") or []
    if not ports and spec.get("clusterIP") != HEADLESS:
        yield required("spec.ports")
    yield from _port_faults(ports)
    if spec["type"] not in TYPES:
        yield not_supported("spec.type", spec["type"], list(TYPES))
    if spec["sessionAffinity"] not in ("None", "ClientIP"):
        yield not_supported("spec.sessionAffinity", spec["sessionAffinity"], ["ClientIP", "None"])
    if old is not None and spec.get("clusterIP") != old["spec"].get("clusterIP"):
        why = "may not change once set"
        yield invalid_value("spec.clusterIPs[0]", spec.get("clusterIP"), why)


def _port_faults(ports: list[Document]) -> Iterator[Fault]:
    names: list[str] = []
    places: list[tuple[str, int]] = []
    for index, port in enumerate(ports):
        path, name = f"spec.ports[{index}]", port.get("name", "")
        if not name and len(ports) > 1:
            yield required(f"{path}.name")
        for why in label_faults(name) if name else ():
            yield invalid_value(f"{path}.name", name, why)
        if name and name in names:
            yield duplicate(f"{path}.name", name)
        if not 0 < port["port"] <= 65535:
            yield invalid_value(f"{path}.port", port["port"], PORT_RANGE)
        target = port["targetPort"]
        if isinstance(target, int) and port["port"] and not 0 < target <= 65535:
            yield invalid_value(f"{path}.targetPort", target, PORT_RANGE)
        if port["protocol"] not in PROTOCOLS:
            yield not_supported(f"{path}.protocol", port["protocol"], sorted(PROTOCOLS))
        place = port["protocol"], port["port"]
        if place in places:
            yield duplicate(path, {"protocol": place[0], "port": place[1]})
        names.append(name)
        places.append(place)
