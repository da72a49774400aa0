"""PersistentVolumeClaims: bound by the default class, protected in use, deleted with volumes."""

from typing import Any

import pytest

from tests.proofs.conformance.calls import Api, Document
from tests.proofs.conformance.objects import (
    PODS,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
    named,
    pod,
)

pytestmark = pytest.mark.usefixtures("controllers")


@pytest.fixture
def claims(namespace: str) -> str:
    return VOLUME_CLAIMS.path(namespace=namespace)


def claim(name: str, **spec: Any) -> Document:
    wanted = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        **spec,
    }
    return named(VOLUME_CLAIMS, name, spec=wanted)


def is_bound(seen: Document) -> bool:
    return bool(seen.get("status", {}).get("phase") == "Bound")


async def test_a_claim_is_bound_to_a_new_volume(api: Api, claims: str, namespace: str) -> None:
    made = (await api.post(claims, claim("c"))).ok(201)
    assert made["status"]["phase"] == "Pending"
    seen = await api.settled(f"{claims}/c", is_bound)
    assert seen["status"]["capacity"] == {"storage": "1Gi"}
    assert seen["status"]["accessModes"] == ["ReadWriteOnce"]
    volume = await api.settled(VOLUMES.path(name=seen["spec"]["volumeName"]), is_bound)
    reference = volume["spec"]["claimRef"]
    assert (reference["namespace"], reference["name"]) == (namespace, "c")
    assert reference["uid"] == made["metadata"]["uid"]
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete"


async def test_a_claim_without_class_gets_the_default_one(api: Api, claims: str) -> None:
    made = (await api.post(claims, claim("c"))).ok(201)
    assert made["spec"]["storageClassName"]
    assert made["spec"]["volumeMode"] == "Filesystem"


@pytest.mark.parametrize("storage_class", ["", "nobody-provisions-this"])
async def test_a_claim_without_a_provisioner_waits(
    api: Api, claims: str, storage_class: str
) -> None:
    (await api.post(claims, claim("c", storageClassName=storage_class))).ok(201)
    (await api.post(claims, claim("served"))).ok(201)
    await api.settled(f"{claims}/served", is_bound)
    assert (await api.get(f"{claims}/c")).ok()["status"]["phase"] == "Pending"


async def test_a_deleted_claim_deletes_its_volume(api: Api, claims: str) -> None:
    (await api.post(claims, claim("c"))).ok(201)
    volume = (await api.settled(f"{claims}/c", is_bound))["spec"]["volumeName"]
    (await api.delete(f"{claims}/c")).ok(200)
    await api.gone(f"{claims}/c")
    await api.gone(VOLUMES.path(name=volume))


async def test_a_claim_is_bound_to_the_volume_that_names_it(
    api: Api, claims: str, namespace: str
) -> None:
    (await api.post(claims, claim("c", storageClassName="by-hand"))).ok(201)
    name = f"{namespace}-by-hand"
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "2Gi"},
        "claimRef": {"namespace": namespace, "name": "c"},
        "hostPath": {"path": f"/tmp/hostpath_pv/{name}"},
        "storageClassName": "by-hand",
    }
    (await api.post(VOLUMES.path(), named(VOLUMES, name, spec=spec))).ok(201)
    seen = await api.settled(f"{claims}/c", is_bound)
    assert seen["spec"]["volumeName"] == name
    assert seen["status"]["capacity"] == {"storage": "2Gi"}


async def test_a_claim_whose_volume_is_gone_is_lost(api: Api, claims: str) -> None:
    (await api.post(claims, claim("c"))).ok(201)
    volume = (await api.settled(f"{claims}/c", is_bound))["spec"]["volumeName"]
    (await api.delete(VOLUMES.path(name=volume))).ok(200)
    patch = {"metadata": {"finalizers": None}}
    (await api.patch(VOLUMES.path(name=volume), patch)).ok(200)
    seen = await api.settled(f"{claims}/c", lambda one: one["status"]["phase"] == "Lost")
    assert seen["spec"]["volumeName"] == volume


async def test_a_claim_grows_if_its_class_permits_it(api: Api, claims: str, unique: str) -> None:
    elastic = named(
        STORAGE_CLASSES,
        f"{unique}-elastic",
        provisioner="kubernetes.io/host-path",
        allowVolumeExpansion=True,
    )
    (await api.post(STORAGE_CLASSES.path(), elastic)).ok(201)
    (await api.post(claims, claim("c", storageClassName=f"{unique}-elastic"))).ok(201)
    await api.settled(f"{claims}/c", is_bound)
    patch = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    grown = (await api.patch(f"{claims}/c", patch)).ok(200)
    assert grown["spec"]["resources"]["requests"] == {"storage": "2Gi"}


@pytest.mark.parametrize("grows", [False, None])
async def test_a_claim_does_not_grow_if_its_class_does_not_permit_it(
    api: Api, claims: str, unique: str, grows: bool | None
) -> None:
    stiff = named(
        STORAGE_CLASSES,
        f"{unique}-stiff",
        provisioner="kubernetes.io/host-path",
        allowVolumeExpansion=grows,
    )
    (await api.post(STORAGE_CLASSES.path(), stiff)).ok(201)
    (await api.post(claims, claim("c", storageClassName=f"{unique}-stiff"))).ok(201)
    await api.settled(f"{claims}/c", is_bound)
    patch = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    refused = await api.patch(f"{claims}/c", patch)
    assert (refused.status, refused.body["reason"]) == (403, "Forbidden")
    assert refused.body["message"].endswith("that provisions the pvc must support resize")
    same = {"metadata": {"labels": {"a": "b"}}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    assert (await api.patch(f"{claims}/c", same)).status == 200


async def test_a_claim_in_use_stays_until_its_pod_is_gone(
    api: Api, claims: str, namespace: str
) -> None:
    (await api.post(claims, claim("c"))).ok(201)
    await api.settled(f"{claims}/c", is_bound)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]
    pods = PODS.path(namespace=namespace)
    body = pod("p", volumes=volumes)
    await api.admit(pods, body)
    await api.settled(f"{pods}/p", lambda one: one["status"]["phase"] == "Running")
    (await api.delete(f"{claims}/c")).ok(200)
    held = (await api.get(f"{claims}/c")).ok(200)["metadata"]
    assert held["deletionTimestamp"]
    assert held["finalizers"] == ["kubernetes.io/pvc-protection"]
    (await api.delete(f"{pods}/p", {"gracePeriodSeconds": 0})).ok(200)
    await api.gone(f"{claims}/c")


async def test_a_pod_waits_for_its_claim(api: Api, claims: str, namespace: str) -> None:
    pods = PODS.path(namespace=namespace)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]
    body = pod("p", volumes=volumes)
    await api.admit(pods, body)

    def is_refused(seen: Document) -> bool:
        return any(one["type"] == "PodScheduled" for one in seen["status"].get("conditions", []))

    seen = await api.settled(f"{pods}/p", is_refused)
    message = seen["status"]["conditions"][0]["message"]
    assert 'persistentvolumeclaim "c" not found' in message
    (await api.post(claims, claim("c"))).ok(201)
    await api.settled(f"{pods}/p", lambda one: one["status"]["phase"] == "Running")


async def test_a_claims_size_cannot_shrink(api: Api, claims: str) -> None:
    (await api.post(claims, claim("c"))).ok(201)
    await api.settled(f"{claims}/c", is_bound)
    patch = {"spec": {"resources": {"requests": {"storage": "512Mi"}}}}
    answer = await api.patch(f"{claims}/c", patch)
    assert answer.status in {403, 422}


async def test_a_claims_class_cannot_change(api: Api, claims: str) -> None:
    (await api.post(claims, claim("c"))).ok(201)
    answer = await api.patch(f"{claims}/c", {"spec": {"storageClassName": "other"}})
    assert answer.causes == {("spec", "FieldValueForbidden")}


def without_modes(body: Document) -> None:
    body["spec"]["accessModes"] = []


def without_size(body: Document) -> None:
    body["spec"]["resources"] = {}


def with_no_size(body: Document) -> None:
    body["spec"]["resources"]["requests"]["storage"] = "0"


@pytest.mark.parametrize(
    ("spoil", "cause"),
    [
        (without_modes, ("spec.accessModes", "FieldValueRequired")),
        (without_size, ("spec.resources[storage]", "FieldValueRequired")),
        (with_no_size, ("spec.resources[storage]", "FieldValueInvalid")),
    ],
    ids=["no access modes", "no size", "size zero"],
)
async def test_an_invalid_claim_is_refused(
    api: Api, claims: str, spoil: Any, cause: tuple[str, str]
) -> None:
    body = claim("c")
    spoil(body)
    assert (await api.post(claims, body)).causes == {cause}
