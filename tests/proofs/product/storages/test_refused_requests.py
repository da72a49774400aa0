"""Requests about storages and mounts that are refused, on both servers, by the API and past it."""

from typing import Any

import pytest

from gpuruntime.models.kinds.storages import GPU_STORAGES
from gpuruntime.models.kinds.units import GPU_UNITS
from tests.proofs.product.conftest import Open
from tests.proofs.product.storages.storage_world import Document, condition, is_ready

IMAGE = "busybox:1.36"
STORAGES: dict[str, tuple[Document, str]] = {
    "zero as size": ({"size": "0"}, "size"),
    "a negative size": ({"size": "-1Gi"}, "size"),
    "a size too large": ({"size": "1e999"}, "size"),
    "a text that is no size": ({"size": "much"}, "size"),
    "a number as size": ({"size": 1}, "size"),
    "a class with an invalid name": ({"storageClassName": "Fast_1"}, "storageClassName"),
    "both sources": (
        {"prepare": {"fromImage": IMAGE, "command": ["a"], "fromStorageName": "other"}},
        "prepare",
    ),
    "no source": ({"prepare": {}}, "prepare"),
    "an image without command": ({"prepare": {"fromImage": IMAGE}}, "prepare.fromImage"),
    "a copy with a command": (
        {"prepare": {"fromStorageName": "other", "command": ["a"]}},
        "prepare.fromStorageName",
    ),
    "a command with a NUL": (
        {"prepare": {"fromImage": IMAGE, "command": ["a\0b"]}},
        "prepare.command[0]",
    ),
    "an invalid name of a source": (
        {"prepare": {"fromStorageName": "No"}},
        "prepare.fromStorageName",
    ),
    "a text as switch of the accessor": ({"accessor": {"enabled": "yes"}}, "accessor.enabled"),
    "a name with a dot": ({"name": "a.b"}, "name"),
    "a reserved name": ({"name": "op-mine"}, "name"),
    "another namespace": ({"namespace": "elsewhere"}, "namespace"),
    "an unknown field": ({"colour": "blue"}, "colour"),
}
# The controller reports the values that the definitions accept; `test_volumes` has the sizes.
PAST_THE_API = tuple(
    name
    for name in STORAGES
    if name.startswith(("both", "no source", "an image", "a copy", "a command", "a class"))
)
PATHS: dict[str, tuple[tuple[str, ...], str]] = {
    "relative": (("data",), "storageMounts[0].mountPath"),
    "the root": (("/",), "storageMounts[0].mountPath"),
    "a step up": (("/data/../etc",), "storageMounts[0].mountPath"),
    "a NUL": (("/da\0ta",), "storageMounts[0].mountPath"),
    "over shared memory": (("/dev/shm",), "storageMounts[0].mountPath"),
    "below shared memory": (("/dev/shm/data",), "storageMounts[0].mountPath"),
    "over proc": (("/proc",), "storageMounts[0].mountPath"),
    "twice": (("/data", "/data"), "storageMounts"),
    "below another one": (("/data", "/data/deep"), "storageMounts"),
    "above another one": (("/data/deep", "/data"), "storageMounts"),
}


def mounts(paths: tuple[str, ...]) -> list[Any]:
    return [{"name": f"storage-{index}", "mountPath": path} for index, path in enumerate(paths)]


def order(name: str, storage_mounts: list[Any]) -> Document:
    return {
        "operationID": name,
        "name": name,
        "specName": "g1.1",
        "image": "python:3.12",
        "storageMounts": storage_mounts,
    }


@pytest.mark.parametrize("case", STORAGES)
async def test_an_invalid_storage_is_refused_with_the_name_of_its_field(
    open_world: Open, case: str
) -> None:
    members, field = STORAGES[case]
    async with open_world() as world:
        body = {"name": world.name("bad"), "size": "1Gi", **members}
        refused = await world.call("POST", "/gpu-storages", body)
        assert (refused.status, refused.code) == (400, "invalid_request")
        assert refused.fields == {field}
        assert (await world.call("GET", f"/gpu-storages/{body['name']}")).status == 404


@pytest.mark.parametrize("case", PAST_THE_API)
async def test_the_definitions_refuse_an_invalid_storage(open_world: Open, case: str) -> None:
    members, field = STORAGES[case]
    async with open_world() as world:
        body = {
            "apiVersion": GPU_STORAGES.api_version,
            "kind": "GPUStorage",
            "metadata": {"name": world.name("bad")},
            "spec": {"size": "1Gi", **members},
        }
        refused = await world.kube.post(GPU_STORAGES.path(namespace=world.namespace), body)
        assert f"spec.{field}" in {each for each, _ in refused.causes}


@pytest.mark.parametrize("case", PATHS)
async def test_an_invalid_mount_is_refused_with_the_name_of_its_field(
    open_world: Open, case: str
) -> None:
    paths, field = PATHS[case]
    async with open_world() as world:
        name = world.name("bad")
        refused = await world.call("POST", "/gpu-units", order(name, mounts(paths)))
        assert (refused.status, refused.code) == (400, "invalid_request")
        assert refused.fields == {field}
        body = {
            "apiVersion": GPU_UNITS.api_version,
            "kind": "GPUUnit",
            "metadata": {"name": name},
            "spec": {"specName": "g1.1", "storageMounts": mounts(paths)},
        }
        by_hand = await world.kube.post(GPU_UNITS.path(namespace=world.namespace), body)
        assert f"spec.{field}" in {each for each, _ in by_hand.causes}


async def test_a_unit_mounts_a_storage_only_once(open_world: Open) -> None:
    async with open_world() as world:
        twice = [{"name": "same", "mountPath": path} for path in ("/a", "/b")]
        refused = await world.call("POST", "/gpu-units", order(world.name("bad"), twice))
        assert (refused.status, refused.fields) == (400, {"storageMounts"})


async def test_a_missing_storage_is_named(open_world: Open) -> None:
    async with open_world() as world:
        missing = world.name("missing")
        body = order(world.name("bad"), [{"name": missing, "mountPath": "/data"}])
        refused = await world.call("POST", "/gpu-units", body)
        assert (refused.status, refused.code) == (404, "gpustorage_not_found")
        assert missing in refused.message
        unit = await world.mount("unit", await world.ready("models"))
        change = {"storageMounts": body["storageMounts"]}
        refused = await world.call("PUT", f"/gpu-units/{unit}", change)
        assert (refused.status, refused.code) == (404, "gpustorage_not_found")
        assert missing in refused.message


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "", None),
        ("PUT", "", {"size": "1Gi"}),
        ("DELETE", "", None),
        ("POST", "/recover", None),
    ],
    ids=["read", "changed", "deleted", "recovered"],
)
async def test_every_request_about_a_missing_storage_is_answered_404(
    open_world: Open, method: str, path: str, body: Any
) -> None:
    async with open_world() as world:
        name = world.name("missing")
        refused = await world.call(method, f"/gpu-storages/{name}{path}", body)
        assert (refused.status, refused.code) == (404, "gpustorage_not_found")
        assert name in refused.message


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"storageClassName": "other"}, "storageClassName"),
        ({"prepare": None}, "prepare"),
        ({"size": None}, "size"),
        ({"size": "0"}, "size"),
        ({"name": "other"}, "name"),
    ],
    ids=["class", "prepare", "size removed", "size zero", "name"],
)
async def test_fixed_members_of_a_storage_cannot_change(
    open_world: Open, change: Document, field: str
) -> None:
    async with open_world() as world:
        name = await world.make("models")
        refused = await world.call("PUT", f"/gpu-storages/{name}", change)
        assert (refused.status, refused.fields) == (400, {field})


async def test_a_name_in_use_is_refused_with_the_remedy(open_world: Open) -> None:
    async with open_world() as world:
        name = await world.ready("models")
        again = {"name": name, "size": "1Gi"}
        refused = await world.call("POST", "/gpu-storages", again)
        assert (refused.status, refused.code) == (409, "name_taken")
        assert refused.message == (
            f"storage {name} exists already: update it, or choose another name"
        )
        unit = await world.mount("unit", name)
        await world.unit(unit, is_ready)
        (await world.kube.delete(world.path(GPU_STORAGES, name))).ok()
        refused = await world.call("POST", "/gpu-storages", again)
        assert refused.message == (
            f"storage {name} is being deleted: wait until it is gone, or choose another name"
        )


async def test_a_missing_class_is_named_in_the_status(open_world: Open) -> None:
    async with open_world() as world:
        of = world.name("fast")
        name = await world.make("models", storageClassName=of)
        view = await world.storage(name, lambda view: of in view["message"])
        assert (view["phase"], condition(view, "Ready")["reason"]) == ("Pending", "VolumePending")
        assert view["message"] == (
            f"claim {name} waits for its volume: there is no class {of}, "
            "only a volume made by hand can serve it"
        )
