"""Defaults of Pods and of Pod templates."""

from typing import Final

from gpuruntime.embedded.apiserver.documents import Document

FILE_MODE: Final = 0o644
TOKEN_SECONDS: Final = 3600

_PROBE: Final = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}
_CONTAINER_LISTS: Final = ("initContainers", "containers", "ephemeralContainers")


def fill_template(spec: Document) -> None:
    """Fill in the defaults that every Pod's spec gets, also in a template."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    if "serviceAccountName" in spec:
        spec["serviceAccount"] = spec["serviceAccountName"]
    elif "serviceAccount" in spec:
        spec["serviceAccountName"] = spec["serviceAccount"]
    for container in containers_of(spec):
        _fill_container(container, spec.get("hostNetwork", False))
    for volume in spec.get("volumes", ()):
        _fill_volume(volume)


def fill_pod(document: Document, old: Document | None) -> None:
    """Fill in what only a Pod gets, and not a template."""
    spec = document["spec"]
    fill_template(spec)
    spec.setdefault("enableServiceLinks", True)
    for container in containers_of(spec):
        resources = container["resources"]
        for name, limit in resources.get("limits", {}).items():
            resources.setdefault("requests", {}).setdefault(name, limit)
    if old is None:
        document["status"] = {"phase": "Pending", "qosClass": qos_class(spec)}


def containers_of(spec: Document) -> list[Document]:
    return [each for name in _CONTAINER_LISTS for each in spec.get(name) or ()]


def qos_class(spec: Document) -> str:
    """Return the QoS class by cpu and memory of all containers.

    It is Guaranteed if all have limits equal to their requests, Burstable if any has a request or
    limit, and BestEffort otherwise.
    """
    pairs = [
        (resources.get("requests", {}).get(name), resources.get("limits", {}).get(name))
        for each in containers_of(spec)
        for resources in [each.get("resources", {})]
        for name in ("cpu", "memory")
    ]
    if not any(request or limit for request, limit in pairs):
        return "BestEffort"
    is_guaranteed = all(limit is not None and request == limit for request, limit in pairs)
    return "Guaranteed" if is_guaranteed else "Burstable"


def _fill_container(container: Document, uses_host_network: bool) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", _pull_policy(container.get("image", "")))
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
        if uses_host_network:
            port.setdefault("hostPort", port.get("containerPort", 0))
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if name in container:
            _fill_probe(container[name])
    for hook in container.get("lifecycle", {}).values():
        if isinstance(hook, dict):
            _fill_http(hook)
    for variable in container.get("env", ()):
        field = variable.get("valueFrom", {}).get("fieldRef")
        if field is not None:
            field.setdefault("apiVersion", "v1")


def _pull_policy(image: str) -> str:
    if "@" in image:
        return "IfNotPresent"
    _, colon, tag = image.rpartition("/")[2].partition(":")
    return "IfNotPresent" if colon and tag != "latest" else "Always"


def _fill_probe(probe: Document) -> None:
    for name, value in _PROBE.items():
        probe.setdefault(name, value)
    _fill_http(probe)
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _fill_http(handler: Document) -> None:
    if "httpGet" in handler:
        handler["httpGet"].setdefault("path", "/")
        handler["httpGet"].setdefault("scheme", "HTTP")


def _fill_volume(volume: Document) -> None:
    if volume.keys() <= {"name"}:
        volume["emptyDir"] = {}
    for name in ("secret", "configMap", "downwardAPI", "projected"):
        if name in volume:
            volume[name].setdefault("defaultMode", FILE_MODE)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    for source in volume.get("projected", {}).get("sources") or ():
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", TOKEN_SECONDS)
        _fill_downward(source.get("downwardAPI", {}))
    _fill_downward(volume.get("downwardAPI", {}))


def _fill_downward(source: Document) -> None:
    for item in source.get("items") or ():
        if "fieldRef" in item:
            item["fieldRef"].setdefault("apiVersion", "v1")
