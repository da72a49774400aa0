"""Kinds of `resource.k8s.io/v1`: defaults, dropped fields, refusals, and writes of the status."""

from typing import Any

import pytest

from tests.proofs.conformance.calls import Api, Document
from tests.proofs.conformance.objects import (
    DEVICE_CLAIM_TEMPLATES,
    DEVICE_CLAIMS,
    DEVICE_CLASSES,
    DEVICE_SLICES,
    PODS,
    device,
    device_claim,
    device_class,
    device_slice,
    device_spec,
    named,
    pod,
)

REQUEST = "spec.devices.requests[0]"
SELECTOR = f"{REQUEST}.exactly.selectors[0].cel.expression"
REQUIRED, INVALID = "FieldValueRequired", "FieldValueInvalid"
FORBIDDEN, DUPLICATE = "FieldValueForbidden", "FieldValueDuplicate"
MANY, LONG, UNSUPPORTED = "FieldValueTooMany", "FieldValueTooLong", "FieldValueNotSupported"


@pytest.fixture
def claims(namespace: str) -> str:
    return DEVICE_CLAIMS.path(namespace=namespace)


async def allocated(api: Api, claims: str, name: str = "c") -> Document:
    """Create a claim, and write an allocation for it as only a scheduler should."""
    (await api.post(claims, device_claim(name, "gpu.test"))).ok(201)
    result = {"request": "gpu", "driver": "gpu.test", "pool": "n", "device": "gpu-0"}
    status = {"allocation": {"devices": {"results": [result]}}}
    return (await api.patch(f"{claims}/{name}/status", {"status": status})).ok(200)


def consumer(number: int) -> Document:
    return {"resource": "pods", "name": f"p{number}", "uid": f"uid-{number}"}


async def test_a_request_asks_for_exactly_one_device_by_default(api: Api, claims: str) -> None:
    made = (await api.post(claims, device_claim("c", "gpu.test"))).ok(201)
    asked = {"deviceClassName": "gpu.test", "allocationMode": "ExactCount", "count": 1}
    assert made["spec"]["devices"]["requests"] == [{"name": "gpu", "exactly": asked}]
    assert made["status"] == {}
    assert "generation" not in made["metadata"]


async def test_the_defaults_reach_alternatives_and_templates(api: Api, namespace: str) -> None:
    alternative = {"name": "any", "deviceClassName": "gpu.test"}
    spec = {"devices": {"requests": [{"name": "gpu", "firstAvailable": [alternative]}]}}
    body = named(DEVICE_CLAIM_TEMPLATES, "t", spec={"spec": spec})
    made = (await api.post(DEVICE_CLAIM_TEMPLATES.path(namespace=namespace), body)).ok(201)
    asked = {**alternative, "allocationMode": "ExactCount", "count": 1}
    requests = made["spec"]["spec"]["devices"]["requests"]
    assert requests == [{"name": "gpu", "firstAvailable": [asked]}]


async def test_a_share_of_a_device_is_dropped_without_a_word(api: Api, claims: str) -> None:
    share = {"requests": {"memory": "20Gi"}}
    made = (await api.post(claims, device_claim("c", "gpu.test", capacity=share))).ok(201)
    assert "capacity" not in made["spec"]["devices"]["requests"][0]["exactly"]


async def test_tolerations_are_kept(api: Api, claims: str) -> None:
    body = device_claim("c", "gpu.test", tolerations=[{"key": "a"}, {"operator": "Exists"}])
    made = (await api.post(claims, body)).ok(201)
    kept = made["spec"]["devices"]["requests"][0]["exactly"]["tolerations"]
    assert kept == [{"key": "a", "operator": "Equal"}, {"operator": "Exists"}]


async def test_all_devices_have_no_count(api: Api, claims: str) -> None:
    made = (await api.post(claims, device_claim("c", "gpu.test", allocationMode="All"))).ok(201)
    assert "count" not in made["spec"]["devices"]["requests"][0]["exactly"]


async def test_the_class_need_not_exist_yet_and_33_devices_are_asked_for(
    api: Api, claims: str
) -> None:
    (await api.post(claims, device_claim("c", "no.such.class", count=33))).ok(201)


async def test_a_status_sent_with_a_new_claim_is_ignored(api: Api, claims: str) -> None:
    body = {**device_claim("c", "gpu.test"), "status": {"reservedFor": [consumer(1)]}}
    assert (await api.post(claims, body)).ok(201)["status"] == {}


def asked(**exactly: Any) -> Document:
    return device_spec(**{"class_name": "gpu.test", **exactly})


def requests(*each: Document) -> Document:
    return {"devices": {"requests": list(each)}}


PLAIN = {"deviceClassName": "gpu.test"}
BAD_CLAIMS = {
    "a request without a name": (
        requests({"name": "", "exactly": PLAIN}),
        {(f"{REQUEST}.name", INVALID)},
    ),
    "two requests of one name": (
        requests(*[{"name": "gpu", "exactly": PLAIN}] * 2),
        {("spec.devices.requests[1].name", DUPLICATE)},
    ),
    "neither exactly nor firstAvailable": (requests({"name": "gpu"}), {(REQUEST, REQUIRED)}),
    "both": (
        requests({"name": "gpu", "exactly": PLAIN, "firstAvailable": [{"name": "a", **PLAIN}]}),
        {(REQUEST, INVALID)},
    ),
    "33 requests": (
        requests(*[{"name": f"gpu-{number}", "exactly": PLAIN} for number in range(33)]),
        {("spec.devices.requests", MANY)},
    ),
    "no class": (asked(class_name=""), {(f"{REQUEST}.exactly.deviceClassName", REQUIRED)}),
    "a class that is no name": (
        asked(class_name="No_Class"),
        {(f"{REQUEST}.exactly.deviceClassName", INVALID)},
    ),
    "less than one device": (asked(count=-1), {(f"{REQUEST}.exactly.count", INVALID)}),
    "a count beside All": (
        asked(allocationMode="All", count=2),
        {(f"{REQUEST}.exactly.count", INVALID)},
    ),
    "another mode": (
        asked(allocationMode="Some"),
        {(f"{REQUEST}.exactly.allocationMode", UNSUPPORTED)},
    ),
    "admin access in a plain namespace": (
        asked(adminAccess=True),
        {(f"{REQUEST}.adminAccess", FORBIDDEN)},
    ),
    "a toleration with another operator": (
        asked(tolerations=[{"key": "a", "operator": "Like"}]),
        {(f"{REQUEST}.exactly.tolerations[0].operator", UNSUPPORTED)},
    ),
    "a selector that does not parse": (
        asked(selectors=("device.driver ==",)),
        {(SELECTOR, INVALID)},
    ),
    "a selector of a field that is not there": (
        asked(selectors=("device.nosuch == 1",)),
        {(SELECTOR, INVALID)},
    ),
    "a selector that is no bool": (asked(selectors=("1 + 1",)), {(SELECTOR, INVALID)}),
    "a selector of more than 10 KiB": (
        asked(selectors=(f"device.driver == '{'x' * 10_240}'",)),
        {(SELECTOR, LONG)},
    ),
    "33 selectors": (
        asked(selectors=("true",) * 33),
        {(f"{REQUEST}.exactly.selectors", MANY)},
    ),
    "a constraint about no request": (
        {
            **asked(),
            "devices": {
                **asked()["devices"],
                "constraints": [{"requests": ["nic"], "matchAttribute": "gpu.test/numa"}],
            },
        },
        {("spec.devices.constraints[0].requests[0]", INVALID)},
    ),
    "a constraint on an attribute without a domain": (
        {"devices": {**asked()["devices"], "constraints": [{"matchAttribute": "numa"}]}},
        {("spec.devices.constraints[0].matchAttribute", INVALID)},
    ),
}


@pytest.mark.parametrize(("spec", "causes"), BAD_CLAIMS.values(), ids=list(BAD_CLAIMS))
async def test_a_bad_claim_is_refused(
    api: Api, claims: str, spec: Document, causes: set[tuple[str, str]]
) -> None:
    assert (await api.post(claims, named(DEVICE_CLAIMS, "c", spec=spec))).causes == causes


@pytest.mark.parametrize(
    ("selector", "words"),
    [
        pytest.param("device.nosuch == 1", "undefined field 'nosuch'", id="no field"),
        pytest.param("device.driver ==", "compilation failed: ", id="syntax"),
        pytest.param("device.driver ==", "Syntax error: mismatched input '<EOF>'", id="where"),
        pytest.param("1 + 1", "must evaluate to bool or the unknown type, not int", id="kind"),
    ],
)
async def test_a_bad_selector_is_explained(
    api: Api, claims: str, selector: str, words: str
) -> None:
    answer = await api.post(claims, device_claim("c", "gpu.test", selectors=(selector,)))
    assert words in answer.body["details"]["causes"][0]["message"]


@pytest.mark.parametrize(
    "selector",
    [
        "device.attributes['gpu.test'].?uuid.orValue('') == 'x'",
        "cel.bind(a, device.attributes['gpu.test'], a.uuid == 'x')",
        "device.capacity['gpu.test'].memory.compareTo(quantity('40Gi')) >= 0",
        "semver('1.2.3').isLessThan(semver('1.10.0'))",
        "device.attributes['gpu.test'].uuid.lowerAscii() == 'x'",
        "device.attributes['gpu.test'].nosuch == 'x'",
        "device.attributes['gpu.test'].healthy",
    ],
)
async def test_a_good_selector_is_accepted(api: Api, claims: str, selector: str) -> None:
    (await api.post(claims, device_claim("c", "gpu.test", selectors=(selector,)))).ok(201)


async def test_the_spec_of_a_claim_is_immutable(api: Api, claims: str) -> None:
    (await api.post(claims, device_claim("c", "gpu.test"))).ok(201)
    answer = await api.patch(f"{claims}/c", {"spec": device_spec("other.test")})
    assert answer.causes == {("spec", INVALID)}


async def test_a_consumer_needs_an_allocation(api: Api, claims: str) -> None:
    (await api.post(claims, device_claim("c", "gpu.test"))).ok(201)
    answer = await api.patch(f"{claims}/c/status", {"status": {"reservedFor": [consumer(1)]}})
    assert answer.causes == {("status.reservedFor", FORBIDDEN)}
    message = answer.body["details"]["causes"][0]["message"]
    assert message == "Forbidden: may not be specified when `allocated` is not set"


@pytest.mark.parametrize(
    ("consumers", "causes"),
    [
        pytest.param(
            [consumer(1), consumer(1)], {("status.reservedFor[1].uid", DUPLICATE)}, id="twice"
        ),
        pytest.param(
            [{"resource": "", "name": "", "uid": ""}],
            {(f"status.reservedFor[0].{name}", REQUIRED) for name in ("resource", "name", "uid")},
            id="empty",
        ),
        pytest.param(
            [consumer(number) for number in range(257)],
            {("status.reservedFor", MANY)},
            id="257",
        ),
    ],
)
async def test_bad_consumers_are_refused(
    api: Api, claims: str, consumers: list[Document], causes: set[tuple[str, str]]
) -> None:
    await allocated(api, claims)
    body = {"status": {"reservedFor": consumers}}
    dry = await api.patch(f"{claims}/c/status", body, dryRun="All")
    assert dry.causes == causes


async def test_an_allocation_is_immutable(api: Api, claims: str) -> None:
    seen = await allocated(api, claims)
    results = [{**seen["status"]["allocation"]["devices"]["results"][0], "device": "gpu-1"}]
    body = {"status": {"allocation": {"devices": {"results": results}}}}
    assert (await api.patch(f"{claims}/c/status", body)).causes == {("status.allocation", INVALID)}


async def test_a_second_claim_takes_a_copy_of_an_allocation(api: Api, claims: str) -> None:
    first = await allocated(api, claims, "one")
    second = await allocated(api, claims, "two")
    assert first["status"]["allocation"] == second["status"]["allocation"]


async def test_an_allocation_for_no_request_is_refused(api: Api, claims: str) -> None:
    (await api.post(claims, device_claim("c", "gpu.test"))).ok(201)
    result = {"request": "nic", "driver": "gpu.test", "pool": "n", "device": "gpu-0"}
    body = {"status": {"allocation": {"devices": {"results": [result]}}}}
    answer = await api.patch(f"{claims}/c/status", body)
    assert answer.causes == {("status.allocation.devices.results[0].request", INVALID)}


async def test_a_patch_of_the_status_changes_no_labels_and_no_owner(api: Api, claims: str) -> None:
    (await api.post(claims, device_claim("c", "gpu.test"))).ok(201)
    body = {"metadata": {"labels": {"a": "b"}, "finalizers": ["example.com/f"]}, "status": {}}
    seen = (await api.patch(f"{claims}/c/status", body)).ok(200)
    assert not seen["metadata"].keys() & {"labels", "finalizers"}


async def test_no_consumer_is_added_to_a_claim_that_terminates(api: Api, claims: str) -> None:
    await allocated(api, claims)
    finalizers = {"metadata": {"finalizers": ["example.com/held"]}}
    (await api.patch(f"{claims}/c", finalizers)).ok(200)
    (await api.delete(f"{claims}/c")).ok(200)
    answer = await api.patch(f"{claims}/c/status", {"status": {"reservedFor": [consumer(1)]}})
    assert answer.causes == {("status.reservedFor", FORBIDDEN)}
    message = answer.body["details"]["causes"][0]["message"]
    assert "new entries may not be added while" in message
    (await api.patch(f"{claims}/c", {"metadata": {"finalizers": None}})).ok(200)


async def test_a_guarded_entry_loses_against_a_newer_version(api: Api, claims: str) -> None:
    seen = await allocated(api, claims)
    guard = {"resourceVersion": seen["metadata"]["resourceVersion"]}
    first = {"metadata": guard, "status": {"reservedFor": [consumer(1)]}}
    (await api.patch(f"{claims}/c/status", first)).ok(200)
    second = {"metadata": guard, "status": {"reservedFor": [consumer(2)]}}
    answer = await api.patch(f"{claims}/c/status", second)
    assert answer.refusal == (409, "Conflict")


async def test_a_consumer_that_is_no_pod_is_accepted(api: Api, claims: str) -> None:
    await allocated(api, claims)
    entry = {"apiGroup": "example.com", "resource": "things", "name": "a", "uid": "b"}
    body = {"status": {"reservedFor": [entry]}}
    (await api.patch(f"{claims}/c/status", body, dryRun="All")).ok(200)


def slice_spec(**members: Any) -> Document:
    spec: Document = device_slice("s", "gpu.test", "n", count=1)["spec"]
    return {name: value for name, value in {**spec, **members}.items() if value is not None}


BAD_SLICES = {
    "no place": (slice_spec(nodeName=None), {("spec", REQUIRED)}),
    "two places": (slice_spec(allNodes=True), {("spec", INVALID)}),
    "no driver": (
        slice_spec(driver=""),
        {("spec.driver", REQUIRED), ("spec.driver", INVALID)},
    ),
    "a pool of no slices": (
        slice_spec(pool={"name": "n", "generation": 1, "resourceSliceCount": 0}),
        {("spec.pool.resourceSliceCount", INVALID)},
    ),
    "a negative generation": (
        slice_spec(pool={"name": "n", "generation": -1, "resourceSliceCount": 1}),
        {("spec.pool.generation", INVALID)},
    ),
    "two devices of one name": (
        slice_spec(devices=[device("gpu-0"), device("gpu-0")]),
        {("spec.devices[1].name", DUPLICATE)},
    ),
    "129 devices": (
        slice_spec(devices=[device(f"gpu-{number}") for number in range(129)]),
        {("spec.devices", MANY)},
    ),
    "an attribute without a value": (
        slice_spec(devices=[device("gpu-0", attributes={"uuid": {}})]),
        {("spec.devices[0].attributes[uuid]", REQUIRED)},
    ),
    "an attribute of two values": (
        slice_spec(devices=[device("gpu-0", attributes={"a": {"int": 1, "string": "x"}})]),
        {("spec.devices[0].attributes[a]", INVALID)},
    ),
    "an attribute that is no identifier": (
        slice_spec(devices=[device("gpu-0", attributes={"a-b": {"int": 1}})]),
        {("spec.devices[0].attributes[a-b]", INVALID)},
    ),
    "a version of two numbers": (
        slice_spec(devices=[device("gpu-0", attributes={"v": {"version": "1.2"}})]),
        {("spec.devices[0].attributes[v].version", INVALID)},
    ),
    "33 attributes and capacities": (
        slice_spec(
            devices=[
                device("gpu-0", attributes={f"a{number}": {"int": 1} for number in range(32)})
            ]
        ),
        {("spec.devices[0]", INVALID)},
    ),
}


@pytest.mark.parametrize(("spec", "causes"), BAD_SLICES.values(), ids=list(BAD_SLICES))
async def test_a_bad_slice_is_refused(
    api: Api, unique: str, spec: Document, causes: set[tuple[str, str]]
) -> None:
    answer = await api.post(DEVICE_SLICES.path(), named(DEVICE_SLICES, unique, spec=spec))
    assert answer.causes == causes


async def test_a_slice_counts_its_changes_and_keeps_its_node(api: Api, unique: str) -> None:
    path = f"{DEVICE_SLICES.path()}/{unique}"
    body = device_slice(unique, f"{unique}.test", unique, count=1)
    assert (await api.post(DEVICE_SLICES.path(), body)).ok(201)["metadata"]["generation"] == 1
    changed = (await api.patch(path, {"spec": {"devices": []}})).ok(200)
    assert changed["metadata"]["generation"] == 2
    moved = await api.patch(path, {"spec": {"nodeName": "other"}})
    assert moved.causes == {("spec.nodeName", INVALID)}
    listed = await api.get(DEVICE_SLICES.path(), fieldSelector=f"spec.nodeName={unique}")
    assert [each["metadata"]["name"] for each in listed.ok(200)["items"]] == [unique]
    (await api.delete(path)).ok(200)


async def test_a_class_has_selectors_that_compile(api: Api, unique: str) -> None:
    body = device_class(unique, "gpu.test")
    assert (await api.post(DEVICE_CLASSES.path(), body)).ok(201)["metadata"]["generation"] == 1
    bad = {"spec": {"selectors": [{"cel": {"expression": "nonsense"}}]}}
    answer = await api.patch(f"{DEVICE_CLASSES.path()}/{unique}", bad)
    assert answer.causes == {("spec.selectors[0].cel.expression", INVALID)}
    (await api.delete(f"{DEVICE_CLASSES.path()}/{unique}")).ok(200)


CONTAINER = {"name": "main", "image": "example.com/main:1"}
USES = {**CONTAINER, "resources": {"claims": [{"name": "other"}]}}
BAD_PODS = {
    "no source": ([{"name": "gpu"}], [CONTAINER], {("spec.resourceClaims[0]", INVALID)}),
    "two sources": (
        [{"name": "gpu", "resourceClaimName": "a", "resourceClaimTemplateName": "b"}],
        [CONTAINER],
        {("spec.resourceClaims[0]", INVALID)},
    ),
    "one name twice": (
        [{"name": "gpu", "resourceClaimName": "a"}] * 2,
        [CONTAINER],
        {("spec.resourceClaims[1].name", DUPLICATE)},
    ),
    "a container that names no claim of the Pod": (
        [{"name": "gpu", "resourceClaimName": "a"}],
        [USES],
        {("spec.containers[0].resources.claims[0]", "FieldValueNotFound")},
    ),
}


@pytest.mark.parametrize(
    ("named_claims", "containers", "causes"), BAD_PODS.values(), ids=list(BAD_PODS)
)
async def test_a_pod_with_bad_claims_is_refused(
    api: Api,
    namespace: str,
    named_claims: list[Document],
    containers: list[Document],
    causes: set[tuple[str, str]],
) -> None:
    body = pod("p", resourceClaims=named_claims, containers=containers)

    async def look() -> Any:
        return await api.post(PODS.path(namespace=namespace), body)

    answer = await api.until(look, lambda seen: seen.status != 403)
    assert answer.causes == causes
