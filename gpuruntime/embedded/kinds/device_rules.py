"""Defaults and checks of `resource.k8s.io/v1`: claims, templates, classes and slices.

Fields that Kubernetes 1.34 serves behind a gate that is off are dropped, except device taints.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from gpuruntime.embedded.apiserver.documents import Document, encode
from gpuruntime.embedded.devices.selectors import (
    LONGEST_SELECTOR,
    SEMVER,
    SelectorError,
    compiled_selector,
)
from gpuruntime.embedded.schemas.faults import (
    Fault,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
    too_long,
    too_many,
)
from gpuruntime.embedded.schemas.names import label_faults, qualified_faults, subdomain_faults

MOST_DEVICES: Final = 128
MOST_REQUESTS: Final = 32
MOST_SELECTORS: Final = 32
MOST_ALTERNATIVES: Final = 8
MOST_CONSUMERS: Final = 256
MOST_ATTRIBUTES: Final = 32
MOST_TAINTS: Final = 4
LONGEST_DRIVER: Final = 63
LONGEST_ID: Final = 32
LONGEST_VALUE: Final = 64
LONGEST_POOL: Final = 253
EXACT, ALL = "ExactCount", "All"
EFFECTS: Final = ("NoExecute", "NoSchedule")
ADMIN_WORDS: Final = (
    "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on "
    "the containing namespace"
)
ONE_REQUEST: Final = "exactly one of `exactly` or `firstAvailable` is required"
ONE_PLACE: Final = (
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
)
IDENTIFIER: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
IDENTIFIER_WORDS: Final = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of "
    "alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for "
    "validation is '[A-Za-z_][A-Za-z0-9_]*')"
)
NOT_A_REQUEST: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest "
    "separated by '/'"
)
ENDING_WORDS: Final = (
    "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
)
IMMUTABLE: Final = "field is immutable"


def fill_claim(document: Document, old: Document | None) -> None:
    _fill_requests(document["spec"])


def fill_claim_template(document: Document, old: Document | None) -> None:
    _fill_requests(document["spec"]["spec"])


def _fill_requests(spec: Document) -> None:
    for request in spec["devices"].get("requests") or ():
        for ask in _asks(request):
            # Shares of a device need a gate that is off in 1.34.
            ask.pop("capacity", None)
            if not ask.get("allocationMode"):
                ask["allocationMode"] = EXACT
            if ask["allocationMode"] == EXACT and not ask.get("count"):
                ask["count"] = 1
            for toleration in ask.get("tolerations") or ():
                if not toleration.get("operator"):
                    toleration["operator"] = "Equal"


def _asks(request: Document) -> Iterator[Document]:
    if "exactly" in request:
        yield request["exactly"]
    yield from request.get("firstAvailable") or ()


def fill_slice(document: Document, old: Document | None) -> None:
    spec = document["spec"]
    for name in ("sharedCounters", "perDeviceNodeSelection"):
        spec.pop(name, None)
    for device in spec.get("devices") or ():
        for name in (
            "consumesCounters",
            "nodeName",
            "nodeSelector",
            "allNodes",
            "bindsToNode",
            "bindingConditions",
            "bindingFailureConditions",
            "allowMultipleAllocations",
        ):
            device.pop(name, None)
        for capacity in device.get("capacity", {}).values():
            capacity.pop("requestPolicy", None)


def judge_claim(document: Document, old: Document | None) -> Iterator[Fault]:
    yield from _claim_faults(document["spec"], "spec")
    if old is not None:
        if document["spec"] != old["spec"]:
            yield invalid_value("spec", document["spec"], IMMUTABLE)
        yield from _status_faults(document, old)


def judge_claim_template(document: Document, old: Document | None) -> Iterator[Fault]:
    yield from _claim_faults(document["spec"]["spec"], "spec.spec")
    if old is not None and document["spec"] != old["spec"]:
        yield invalid_value("spec", document["spec"], IMMUTABLE)


def judge_class(document: Document, old: Document | None) -> Iterator[Fault]:
    spec = document["spec"]
    yield from _selector_faults(spec.get("selectors") or [], "spec.selectors")
    yield from _config_faults(spec.get("config") or [], "spec.config")


def judge_slice(document: Document, old: Document | None) -> Iterator[Fault]:
    spec, pool = document["spec"], document["spec"]["pool"]
    yield from _driver_faults(spec["driver"], "spec.driver")
    yield from _pool_faults(pool["name"], "spec.pool.name")
    if pool["resourceSliceCount"] <= 0:
        count = pool["resourceSliceCount"]
        yield invalid_value("spec.pool.resourceSliceCount", count, "must be greater than zero")
    if pool["generation"] < 0:
        why = "must be greater than or equal to zero"
        yield invalid_value("spec.pool.generation", pool["generation"], why)
    if old is not None:
        yield from _moved_faults(spec, old["spec"])
    yield from _place_faults(spec)
    devices = spec.get("devices") or []
    yield from _each(devices, "spec.devices", _device_faults, most=MOST_DEVICES)
    yield from _duplicates([each["name"] for each in devices], "spec.devices", ".name")


def _moved_faults(spec: Document, old: Document) -> Iterator[Fault]:
    if spec["pool"]["name"] != old["pool"]["name"]:
        yield invalid_value("spec.pool.name", spec["pool"]["name"], IMMUTABLE)
    for name in ("driver", "nodeName"):
        if spec.get(name) != old.get(name):
            yield invalid_value(f"spec.{name}", spec.get(name), IMMUTABLE)


def _place_faults(spec: Document) -> Iterator[Fault]:
    places = [name for name in ("nodeName", "nodeSelector", "allNodes") if spec.get(name)]
    if spec.get("nodeName") == "":
        why = "must be either unset or set to a non-empty string"
        yield invalid_value("spec.nodeName", "", why)
    for why in subdomain_faults(spec["nodeName"]) if spec.get("nodeName") else ():
        yield invalid_value("spec.nodeName", spec["nodeName"], why)
    if spec.get("allNodes") is False:
        yield invalid_value("spec.allNodes", False, "must be either unset or set to true")
    if not places:
        yield required("spec", ONE_PLACE)
    elif len(places) > 1:
        listed = ", ".join(f"`{name}`" for name in places)
        yield invalid_value("spec", f"{{{listed}}}", f"{ONE_PLACE}, but multiple fields are set")


def _device_faults(device: Document, path: str) -> Iterator[Fault]:
    yield from _label_name_faults(device["name"], f"{path}.name")
    attributes, capacity = device.get("attributes", {}), device.get("capacity", {})
    count = len(attributes) + len(capacity)
    if count > MOST_ATTRIBUTES:
        why = f"the total number of attributes and capacities must not exceed {MOST_ATTRIBUTES}"
        yield invalid_value(path, count, why)
    for name, attribute in attributes.items():
        place = f"{path}.attributes[{name}]"
        yield from _member_name_faults(name, place)
        yield from _attribute_faults(attribute, place)
    for name in capacity:
        yield from _member_name_faults(name, f"{path}.capacity[{name}]")
    taints = device.get("taints") or []
    yield from _each(taints, f"{path}.taints", _taint_faults, most=MOST_TAINTS)


def _attribute_faults(attribute: Document, path: str) -> Iterator[Fault]:
    if not attribute:
        yield required(path, "exactly one value must be specified")
    elif len(attribute) > 1:
        yield invalid_value(path, attribute, "exactly one value must be specified")
    for kind in ("string", "version"):
        value = attribute.get(kind)
        if value is not None and kind == "version" and not SEMVER.fullmatch(value):
            why = "must be a string compatible with semver.org spec 2.0.0"
            yield invalid_value(f"{path}.version", value, why)
        if value is not None and len(value) > LONGEST_VALUE:
            yield too_long(f"{path}.{kind}", LONGEST_VALUE)


def _member_name_faults(name: str, path: str) -> Iterator[Fault]:
    """Check the name of an attribute or a capacity, with or without a domain before it."""
    domain, slash, rest = name.rpartition("/")
    if not name:
        yield required(path, "name required")
        return
    if slash and not domain:
        yield required(path, "the domain must not be empty")
    elif slash:
        yield from _driver_faults(domain, path)
    if not rest:
        yield required(path, "the name must not be empty")
        return
    if len(rest) > LONGEST_ID:
        yield too_long(path, LONGEST_ID)
    if not IDENTIFIER.fullmatch(rest):
        yield invalid_value(path, rest, IDENTIFIER_WORDS)


def _taint_faults(taint: Document, path: str) -> Iterator[Fault]:
    for why in qualified_faults(taint["key"]):
        yield invalid_value(f"{path}.key", taint["key"], why)
    if not taint["effect"]:
        yield required(f"{path}.effect")
    elif taint["effect"] not in EFFECTS:
        yield not_supported(f"{path}.effect", taint["effect"], list(EFFECTS))


def _claim_faults(spec: Document, path: str) -> Iterator[Fault]:
    devices, place = spec["devices"], f"{path}.devices"
    requests = devices.get("requests") or []
    yield from _each(requests, f"{place}.requests", _request_faults, most=MOST_REQUESTS)
    yield from _duplicates([each["name"] for each in requests], f"{place}.requests", ".name")
    names = set(_request_names(requests))
    for index, constraint in enumerate(devices.get("constraints") or ()):
        inner = f"{place}.constraints[{index}]"
        yield from _reference_faults(constraint.get("requests") or (), names, inner)
        attribute = constraint.get("matchAttribute")
        if attribute is None:
            yield required(f"{inner}.matchAttribute")
            continue
        yield from _member_name_faults(attribute, f"{inner}.matchAttribute")
        if attribute and "/" not in attribute:
            yield invalid_value(f"{inner}.matchAttribute", attribute, "must include a domain")
    for index, config in enumerate(devices.get("config") or ()):
        inner = f"{place}.config[{index}]"
        yield from _reference_faults(config.get("requests") or (), names, inner)
    yield from _config_faults(devices.get("config") or [], f"{place}.config")


def _request_names(requests: Iterable[Document]) -> Iterator[str]:
    for request in requests:
        yield request["name"]
        for other in request.get("firstAvailable") or ():
            yield f"{request['name']}/{other['name']}"


def _reference_faults(named: Iterable[str], names: set[str], path: str) -> Iterator[Fault]:
    for index, name in enumerate(named):
        if name not in names:
            yield invalid_value(f"{path}.requests[{index}]", name, NOT_A_REQUEST)


def _request_faults(request: Document, path: str) -> Iterator[Fault]:
    yield from _label_name_faults(request["name"], f"{path}.name")
    alternatives = request.get("firstAvailable") or []
    yield from _each(
        alternatives, f"{path}.firstAvailable", _alternative_faults, most=MOST_ALTERNATIVES
    )
    names = [each["name"] for each in alternatives]
    yield from _duplicates(names, f"{path}.firstAvailable", ".name")
    if "exactly" in request:
        yield from _ask_faults(request["exactly"], f"{path}.exactly")
        if request["exactly"].get("adminAccess"):
            yield forbidden_field(f"{path}.adminAccess", ADMIN_WORDS)
    if alternatives and "exactly" in request:
        why = f"{ONE_REQUEST}, but multiple fields are set"
        yield invalid_value(path, None, why)
    elif not alternatives and "exactly" not in request:
        yield required(path, ONE_REQUEST)


def _alternative_faults(ask: Document, path: str) -> Iterator[Fault]:
    yield from _label_name_faults(ask["name"], f"{path}.name")
    yield from _ask_faults(ask, path)


def _ask_faults(ask: Document, path: str) -> Iterator[Fault]:
    name, place = ask["deviceClassName"], f"{path}.deviceClassName"
    if not name:
        yield required(place)
    else:
        for why in subdomain_faults(name):
            yield invalid_value(place, name, why)
    yield from _selector_faults(ask.get("selectors") or [], f"{path}.selectors")
    mode, count = ask["allocationMode"], ask.get("count", 0)
    if mode == ALL and count:
        why = f"must not be specified when allocationMode is '{ALL}'"
        yield invalid_value(f"{path}.count", count, why)
    elif mode == EXACT and count <= 0:
        yield invalid_value(f"{path}.count", count, "must be greater than zero")
    elif mode not in (ALL, EXACT):
        yield not_supported(f"{path}.allocationMode", mode, [ALL, EXACT])
    for index, toleration in enumerate(ask.get("tolerations") or ()):
        yield from _toleration_faults(toleration, f"{path}.tolerations[{index}]")


def _toleration_faults(toleration: Document, path: str) -> Iterator[Fault]:
    operator, effect = toleration.get("operator", ""), toleration.get("effect", "")
    if operator not in ("Equal", "Exists"):
        yield not_supported(f"{path}.operator", operator, ["Equal", "Exists"])
    elif operator == "Exists" and toleration.get("value"):
        why = "must be empty for operator `Exists`"
        yield invalid_value(f"{path}.value", toleration["value"], why)
    if effect and effect not in EFFECTS:
        yield not_supported(f"{path}.effect", effect, list(EFFECTS))


def _selector_faults(selectors: list[Document], path: str) -> Iterator[Fault]:
    yield from _each(selectors, path, _one_selector_faults, most=MOST_SELECTORS)


def _one_selector_faults(selector: Document, path: str) -> Iterator[Fault]:
    cel = selector.get("cel")
    if cel is None:
        yield required(f"{path}.cel")
        return
    expression = cel["expression"]
    if len(expression) > LONGEST_SELECTOR:
        yield too_long(f"{path}.cel.expression", LONGEST_SELECTOR)
        return
    try:
        compiled_selector(expression)
    except SelectorError as error:
        yield invalid_value(f"{path}.cel.expression", expression, str(error))


def _config_faults(configs: list[Document], path: str) -> Iterator[Fault]:
    yield from _each(configs, path, _one_config_faults, most=MOST_REQUESTS)


def _one_config_faults(config: Document, path: str) -> Iterator[Fault]:
    opaque = config.get("opaque")
    if opaque is None:
        yield required(f"{path}.opaque")
        return
    yield from _driver_faults(opaque["driver"], f"{path}.opaque.driver")
    parameters = opaque.get("parameters")
    if parameters is None:
        yield required(f"{path}.opaque.parameters")
    elif not isinstance(parameters, dict):
        why = "must be a valid JSON object"
        yield invalid_value(f"{path}.opaque.parameters", "<value omitted>", why)
    elif len(encode(parameters)) > LONGEST_SELECTOR:
        yield too_long(f"{path}.opaque.parameters", LONGEST_SELECTOR)


def _status_faults(document: Document, old: Document) -> Iterator[Fault]:
    status, before = document.get("status", {}), old.get("status", {})
    path, consumers = "status.reservedFor", status.get("reservedFor") or []
    yield from _each(consumers, path, _consumer_faults, most=MOST_CONSUMERS)
    yield from _duplicates([each["uid"] for each in consumers], path, ".uid")
    allocation = status.get("allocation")
    if consumers and allocation is None:
        why = "may not be specified when `allocated` is not set"
        yield forbidden_field(path, why)
    elif "deletionTimestamp" in document["metadata"] and any(
        each not in (before.get("reservedFor") or ()) for each in consumers
    ):
        yield forbidden_field(path, ENDING_WORDS)
    if allocation is None:
        return
    if before.get("allocation") is None:
        yield from _allocation_faults(allocation, document["spec"])
    elif allocation != before["allocation"]:
        yield invalid_value("status.allocation", allocation, IMMUTABLE)


def _consumer_faults(consumer: Document, path: str) -> Iterator[Fault]:
    for name in ("resource", "name", "uid"):
        if not consumer[name]:
            yield required(f"{path}.{name}")


def _allocation_faults(allocation: Document, spec: Document) -> Iterator[Fault]:
    names, path = set(_request_names(spec["devices"]["requests"])), "status.allocation.devices"
    results = allocation["devices"].get("results") or []

    def faults(result: Document, place: str) -> Iterator[Fault]:
        if result["request"] not in names:
            yield invalid_value(f"{place}.request", result["request"], NOT_A_REQUEST)
        yield from _driver_faults(result["driver"], f"{place}.driver")
        yield from _pool_faults(result["pool"], f"{place}.pool")
        yield from _label_name_faults(result["device"], f"{place}.device")

    yield from _each(results, f"{path}.results", faults, most=MOST_REQUESTS)


def _driver_faults(name: str, path: str) -> Iterator[Fault]:
    if not name:
        yield required(path)
    if len(name) > LONGEST_DRIVER:
        yield too_long(path, LONGEST_DRIVER)
    for why in subdomain_faults(name.lower()):
        yield invalid_value(path, name, why)


def _pool_faults(name: str, path: str) -> Iterator[Fault]:
    if not name:
        yield required(path)
        return
    if len(name) > LONGEST_POOL:
        yield too_long(path, LONGEST_POOL)
    for part in name.split("/"):
        for why in subdomain_faults(part):
            yield invalid_value(path, part, why)


def _label_name_faults(name: str, path: str) -> Iterator[Fault]:
    for why in label_faults(name):
        yield invalid_value(path, name, why)


def _each(
    items: list[Any],
    path: str,
    faults: Callable[[Any, str], Iterable[Fault]],
    *,
    most: int,
) -> Iterator[Fault]:
    for index, item in enumerate(items):
        yield from faults(item, f"{path}[{index}]")
    if len(items) > most:
        yield too_many(path, len(items), most)


def _duplicates(keys: list[str], path: str, member: str) -> Iterator[Fault]:
    for index, key in enumerate(keys):
        if key in keys[:index]:
            yield duplicate(f"{path}[{index}]{member}", key)
