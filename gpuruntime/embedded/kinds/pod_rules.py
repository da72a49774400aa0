"""Checks of Pods and of Pod templates."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from gpuruntime.embedded.apiserver.documents import Document, copy
from gpuruntime.embedded.schemas.faults import (
    Fault,
    duplicate,
    forbidden_field,
    invalid_value,
    not_found_value,
    not_supported,
    required,
)
from gpuruntime.embedded.schemas.names import label_faults, qualified_faults, subdomain_faults
from gpuruntime.models.kubernetes.quantities import parse_quantity

CLAIM_SOURCES: Final = ("resourceClaimName", "resourceClaimTemplateName")
RESTARTS: Final = ("Always", "OnFailure", "Never")
DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
PULLS: Final = ("Always", "IfNotPresent", "Never")
PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
LONGEST_PORT_NAME: Final = 15
PORT_RANGE: Final = "must be between 1 and 65535, inclusive"
ENV_NAME: Final = re.compile(r"[ -<>-~]+")

# The members of a Pod's spec that may change, besides the images of its containers.
MUTABLE: Final = ("activeDeadlineSeconds", "tolerations", "schedulingGates")
IMMUTABLE_WORDS: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set "
    "to 1 if it was previously negative)"
)


def judge_pod(document: Document, old: Document | None) -> Iterator[Fault]:
    yield from spec_faults(document["spec"], "spec")
    if old is not None:
        yield from _changed_faults(document["spec"], old["spec"])


def spec_faults(spec: Document, path: str) -> Iterator[Fault]:
    volumes = [volume.get("name", "") for volume in spec.get("volumes") or ()]
    yield from _name_faults(volumes, f"{path}.volumes")
    yield from _device_claim_faults(spec, path)
    containers = spec.get("containers") or []
    if not containers:
        yield required(f"{path}.containers")
    for name in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(name) or ()):
            yield from _container_faults(container, f"{path}.{name}[{index}]", volumes)
    yield from _duplicate_names((spec.get("initContainers") or []) + containers, path)
    if spec["restartPolicy"] not in RESTARTS:
        yield not_supported(f"{path}.restartPolicy", spec["restartPolicy"], list(RESTARTS))
    if spec["dnsPolicy"] not in DNS_POLICIES:
        yield not_supported(f"{path}.dnsPolicy", spec["dnsPolicy"], list(DNS_POLICIES))
    for name in ("nodeName", "serviceAccountName"):
        for why in subdomain_faults(spec[name]) if name in spec else ():
            yield invalid_value(f"{path}.{name}", spec[name], why)
    yield from _toleration_faults(spec.get("tolerations", ()), f"{path}.tolerations")


def _name_faults(names: list[str], path: str) -> Iterator[Fault]:
    for index, name in enumerate(names):
        if not name:
            yield required(f"{path}[{index}].name")
        elif name in names[:index]:
            yield duplicate(f"{path}[{index}].name", name)
        else:
            for why in label_faults(name):
                yield invalid_value(f"{path}[{index}].name", name, why)


def _device_claim_faults(spec: Document, path: str) -> Iterator[Fault]:
    """Check the Pod's claims for devices, and that containers name no others."""
    claims = spec.get("resourceClaims") or []
    names = [each["name"] for each in claims]
    yield from _name_faults(names, f"{path}.resourceClaims")
    for index, claim in enumerate(claims):
        place = f"{path}.resourceClaims[{index}]"
        sources = [each for each in CLAIM_SOURCES if each in claim]
        if len(sources) > 1:
            yield invalid_value(place, claim, f"at most one of {_either(' or ')} may be specified")
        elif not sources:
            yield invalid_value(place, claim, f"must specify one of: {_either(', ')}")
        for source in sources:
            for why in subdomain_faults(claim[source]):
                yield invalid_value(f"{place}.{source}", claim[source], why)
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(kind) or ()):
            place = f"{path}.{kind}[{index}].resources.claims"
            for number, used in enumerate(container["resources"].get("claims") or ()):
                if not used["name"]:
                    yield required(f"{place}[{number}]")
                elif used["name"] not in names:
                    yield not_found_value(f"{place}[{number}]", used["name"])


def _either(joint: str) -> str:
    return joint.join(f"`{each}`" for each in CLAIM_SOURCES)


def _duplicate_names(containers: list[Document], path: str) -> Iterator[Fault]:
    names = [each.get("name", "") for each in containers]
    for index, name in enumerate(names):
        if name and name in names[:index]:
            yield duplicate(f"{path}.containers[{index}].name", name)


def _container_faults(container: Document, path: str, volumes: list[str]) -> Iterator[Fault]:
    if not container["name"]:
        yield required(f"{path}.name")
    else:
        for why in label_faults(container["name"]):
            yield invalid_value(f"{path}.name", container["name"], why)
    if not container.get("image"):
        yield required(f"{path}.image")
    if container["imagePullPolicy"] not in PULLS:
        yield not_supported(f"{path}.imagePullPolicy", container["imagePullPolicy"], list(PULLS))
    yield from _port_faults(container.get("ports", ()), f"{path}.ports")
    yield from _env_faults(container.get("env", ()), f"{path}.env")
    yield from _mount_faults(container.get("volumeMounts", ()), f"{path}.volumeMounts", volumes)
    yield from _resource_faults(container["resources"], f"{path}.resources")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if name in container:
            yield from _probe_faults(container[name], f"{path}.{name}")


def _port_faults(ports: Iterable[Document], path: str) -> Iterator[Fault]:
    names: list[str] = []
    for index, port in enumerate(ports):
        place = f"{path}[{index}]"
        name, number = port.get("name", ""), port["containerPort"]
        for why in port_name_faults(name) if name else ():
            yield invalid_value(f"{place}.name", name, why)
        if not number:
            yield required(f"{place}.containerPort")
        elif not 0 < number <= 65535:
            yield invalid_value(f"{place}.containerPort", number, PORT_RANGE)
        if port["protocol"] not in PROTOCOLS:
            yield not_supported(f"{place}.protocol", port["protocol"], sorted(PROTOCOLS))
        if name and name in names:
            yield duplicate(f"{place}.name", name)
        names.append(name)


def port_name_faults(name: str) -> list[str]:
    faults = []
    if len(name) > LONGEST_PORT_NAME:
        faults.append(f"must be no more than {LONGEST_PORT_NAME} characters")
    if not re.fullmatch("[-a-z0-9]+", name):
        faults.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", name):
        faults.append("must contain at least one letter (a-z)")
    if "--" in name:
        faults.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        faults.append("must not begin or end with a hyphen")
    return faults


def _env_faults(variables: Iterable[Document], path: str) -> Iterator[Fault]:
    for index, variable in enumerate(variables):
        name = variable["name"]
        if not name:
            yield required(f"{path}[{index}].name")
        elif not ENV_NAME.fullmatch(name):
            why = "a valid environment variable name must consist only of printable ASCII "
            why += "characters other than '='"
            yield invalid_value(f"{path}[{index}].name", name, why)
        if variable.get("value") and variable.get("valueFrom"):
            why = "may not be specified when `value` is not empty"
            yield invalid_value(f"{path}[{index}].valueFrom", "", why)


def _mount_faults(mounts: Iterable[Document], path: str, volumes: list[str]) -> Iterator[Fault]:
    paths: list[str] = []
    for index, mount in enumerate(mounts):
        place = f"{path}[{index}]"
        if not mount["name"]:
            yield required(f"{place}.name")
        elif mount["name"] not in volumes:
            yield not_found_value(f"{place}.name", mount["name"])
        if not mount["mountPath"]:
            yield required(f"{place}.mountPath")
        elif mount["mountPath"] in paths:
            yield invalid_value(f"{place}.mountPath", mount["mountPath"], "must be unique")
        paths.append(mount["mountPath"])


def _resource_faults(resources: Document, path: str) -> Iterator[Fault]:
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            yield from _amount_faults(name, amount, f"{path}.{kind}[{name}]")
    for name, request in requests.items():
        limit = limits.get(name)
        if limit is None:
            if "/" in name:
                yield required(
                    f"{path}.limits", "Limit must be set for non overcommitable resources"
                )
        elif "/" in name and parse_quantity(request) != parse_quantity(limit):
            why = f"must be equal to {name} limit of {limit}"
            yield invalid_value(f"{path}.requests", request, why)
        elif parse_quantity(request) > parse_quantity(limit):
            why = f"must be less than or equal to {name} limit of {limit}"
            yield invalid_value(f"{path}.requests", request, why)


def _amount_faults(name: str, amount: str, path: str) -> Iterator[Fault]:
    quantity = parse_quantity(amount)
    for why in qualified_faults(name):
        yield invalid_value(path, name, why)
    if quantity.nanos < 0:
        yield invalid_value(path, amount, "must be greater than or equal to 0")
    if "/" in name and quantity.nanos % 1_000_000_000:
        yield invalid_value(path, amount, "must be an integer")


def _probe_faults(probe: Document, path: str) -> Iterator[Fault]:
    handlers = [name for name in ("exec", "httpGet", "tcpSocket", "grpc") if name in probe]
    if not handlers:
        yield required(path, "must specify a handler type")
    for name in handlers[1:]:
        yield forbidden_field(f"{path}.{name}", "may not specify more than 1 handler type")
    for seconds in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds"):
        if probe.get(seconds, 0) < 0:
            why = "must be greater than or equal to 0"
            yield invalid_value(f"{path}.{seconds}", probe[seconds], why)


def _toleration_faults(tolerations: Iterable[Document], path: str) -> Iterator[Fault]:
    for index, toleration in enumerate(tolerations):
        place = f"{path}[{index}]"
        operator = toleration.get("operator", "Equal")
        if operator not in ("Equal", "Exists"):
            yield not_supported(f"{place}.operator", operator, ["Equal", "Exists"])
        if operator == "Exists" and toleration.get("value"):
            why = "value must be empty when `operator` is 'Exists'"
            yield invalid_value(f"{place}.operator", toleration, why)
        if not toleration.get("key") and operator != "Exists":
            why = "operator must be Exists when `key` is empty, which means "
            why += '"match all values and all keys"'
            yield invalid_value(f"{place}.operator", operator, why)


def _changed_faults(spec: Document, old: Document) -> Iterator[Fault]:
    for name in ("containers", "initContainers"):
        now, then = spec.get(name) or [], old.get(name) or []
        if len(now) != len(then):
            yield forbidden_field(f"spec.{name}", "pod updates may not add or remove containers")
            return
    kept = [each for each in old.get("tolerations", ()) if each in spec.get("tolerations", ())]
    if len(kept) < len(old.get("tolerations", ())):
        why = "existing toleration can not be modified except its tolerationSeconds"
        yield forbidden_field("spec.tolerations", why)
    if _fixed(spec) != _fixed(old):
        yield forbidden_field("spec", IMMUTABLE_WORDS)


def _fixed(spec: Document) -> Any:
    fixed = {name: copy(value) for name, value in spec.items() if name not in MUTABLE}
    for name in ("containers", "initContainers"):
        for container in fixed.get(name) or ():
            container.pop("image", None)
    return fixed
