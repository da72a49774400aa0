"""Volumes of storages, on both servers: creation, expansion and loss."""

import asyncio

import pytest

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.storages import GPU_STORAGES
from gpuruntime.models.kubernetes.network import NETWORK_POLICIES, SERVICES
from gpuruntime.models.kubernetes.volumes import STORAGE_CLASSES
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from gpuruntime.reconcilers.storage.plan import LOOK_AGAIN_SECONDS
from tests.proofs.conformance.objects import VOLUMES
from tests.proofs.product.conftest import Open
from tests.proofs.product.storages.storage_world import (
    Document,
    StorageWorld,
    condition,
    embedded,
    is_ready,
)

DEFINITION = (
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gpustorages.runtime.lokiwager.io"
)


def volume(name: str, **spec: object) -> Document:
    """Return a PersistentVolume as an operator would create it."""
    wanted = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "2Gi"},
        "hostPath": {"path": f"/tmp/hostpath_pv/{name}"},
        "persistentVolumeReclaimPolicy": "Retain",
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {**wanted, **spec},
    }


async def test_a_storage_of_the_default_class_gets_its_own_volume(open_world: Open) -> None:
    async with open_world() as world:
        name = await world.make("models", size="3Gi")
        view = await world.storage(name, is_ready)
        assert (view["claimName"], view["capacity"]) == (name, "3Gi")
        claim = (await world.kube.get(world.claim_path(name))).ok()
        assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
        storage = (await world.kube.get(world.path(GPU_STORAGES, name))).ok()
        assert claim["metadata"]["annotations"][labels.OWNER_UID] == storage["metadata"]["uid"]
        assert "ownerReferences" not in claim["metadata"]


async def own_claim(world: StorageWorld, name: str) -> str:
    """Let the storage own its claim, as an earlier version did, and return the storage's uid."""
    storage = (await world.kube.get(world.path(GPU_STORAGES, name))).ok()
    uid: str = storage["metadata"]["uid"]
    owner = {
        "apiVersion": GPU_STORAGES.api_version,
        "kind": "GPUStorage",
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    marks = {"ownerReferences": [owner], "annotations": {labels.OWNER_UID: None}}
    (await world.kube.patch(world.claim_path(name), {"metadata": marks})).ok()
    return uid


async def test_a_claim_of_an_earlier_version_loses_its_owner_reference(open_world: Open) -> None:
    """Otherwise a foreground deletion of the storage would delete the claim under a Pod."""
    async with open_world() as world:
        name = await world.ready("models")
        uid = await own_claim(world, name)
        claim = await world.kube.settled(
            world.claim_path(name), lambda claim: "ownerReferences" not in claim["metadata"]
        )
        assert claim["metadata"]["annotations"][labels.OWNER_UID] == uid
        assert is_ready(await world.storage(name, lambda _: True))


async def test_a_claim_loses_its_owner_reference_even_if_its_storage_is_invalid(
    open_world: Open,
) -> None:
    async with open_world() as world:
        name, path = await world.ready("models"), world.path(GPU_STORAGES, world.name("models"))
        copy = await world.write_storage("copy", {"prepare": {"fromStorageName": name}})
        circle = {"spec": {"prepare": {"fromStorageName": copy}}}
        (await world.kube.patch(path, circle)).ok()
        await world.storage(name, lambda view: view["reason"] == "InvalidSpec")
        await own_claim(world, name)
        await world.kube.settled(
            world.claim_path(name), lambda claim: "ownerReferences" not in claim["metadata"]
        )
        # A copy that began before the circle would go on mounting a storage that is unfilled now.
        assert (await world.call("DELETE", f"/gpu-storages/{copy}")).status == 204
        await world.kube.gone(world.path(GPU_STORAGES, copy))


async def test_a_claim_left_after_a_removed_finalizer_is_kept_and_reported(
    open_world: Open,
) -> None:
    async with open_world() as world:
        name = await world.ready("models")
        unit = await world.mount("unit", name)
        await world.storage(name, lambda view: view["mountedBy"] == [unit])
        path = world.path(GPU_STORAGES, name)
        (await world.kube.delete(path)).ok()
        (await world.kube.patch(path, {"metadata": {"finalizers": None}})).ok()
        await world.kube.gone(path)
        assert (await world.call("DELETE", f"/gpu-units/{unit}")).status == 204
        await world.make("models")
        view = await world.storage(name, lambda view: view["reason"] == "VolumeSyncFailed")
        assert view["message"] == (
            f"PersistentVolumeClaim {world.namespace}/{name} belongs to an earlier GPUStorage "
            f"{name}: it is left as it is; save what is on it, and delete it"
        )
        (await world.kube.delete(world.claim_path(name))).ok()
        await world.storage(name, is_ready)


async def test_a_storage_takes_a_volume_that_was_created_by_hand_for_it(open_world: Open) -> None:
    async with open_world() as world:
        of = world.name("by-hand")
        name = await world.make("models", storageClassName=of)
        waiting = await world.storage(name, lambda view: view["reason"] == "VolumePending")
        await world.storage(name, lambda view: f"there is no class {of}" in view["message"])
        assert waiting["phase"] == "Pending"
        claim = (await world.kube.get(world.claim_path(name))).ok()
        assert claim["metadata"]["ownerReferences"], "Kubernetes would bind a patched one later"
        meant = {"namespace": world.namespace, "name": name}
        made = volume(of, storageClassName=of, claimRef=meant)
        (await world.kube.post(VOLUMES.path(), made)).ok(201)
        view = await world.storage(name, is_ready)
        assert view["capacity"] == "2Gi"
        claim = (await world.kube.get(world.claim_path(name))).ok()
        assert "ownerReferences" not in claim["metadata"]


async def test_a_storage_gets_its_volume_without_waiting_for_a_retry_of_kubernetes(
    open_world: Open,
) -> None:
    """Kubernetes' volume controller retries a failed write only after 15 s."""
    async with open_world() as world:
        begun = asyncio.get_running_loop().time()
        for number in range(5):
            await world.ready(f"models-{number}")
        assert asyncio.get_running_loop().time() - begun < 10.0


async def test_a_storage_grows_if_its_class_allows_it(open_world: Open) -> None:
    async with open_world() as world:
        name = await world.ready(
            "models", storageClassName=await world.make_class("elastic", grows=True)
        )
        grown = await world.call("PUT", f"/gpu-storages/{name}", {"size": "2Gi"})
        assert grown.status == 200
        await world.kube.settled(
            world.claim_path(name),
            lambda claim: claim["spec"]["resources"]["requests"]["storage"] == "2Gi",
        )
        view = await world.storage(name, is_ready)
        assert condition(view, "Ready")["reason"] == "VolumeReady"


async def test_a_class_that_cannot_grow_is_reported_until_it_changes(open_world: Open) -> None:
    async with open_world() as world:
        of = await world.make_class("stiff", grows=False)
        name = await world.ready("models", storageClassName=of)
        assert (await world.call("PUT", f"/gpu-storages/{name}", {"size": "2Gi"})).status == 200
        view = await world.storage(name, lambda view: view["reason"] == "ExpansionRefused")
        assert view["phase"] == "Ready"
        assert view["message"] == (
            f"claim {name} stays at 1Gi: class {of} does not let volumes grow to 2Gi"
        )
        allowed = {"allowVolumeExpansion": True}
        (await world.kube.patch(STORAGE_CLASSES.path(name=of), allowed)).ok(200)
        await world.storage(name, lambda view: view["reason"] == "VolumeReady")


async def test_a_storage_never_shrinks(open_world: Open) -> None:
    async with open_world() as world:
        name = await world.ready("models", size="2Gi")
        refused = await world.call("PUT", f"/gpu-storages/{name}", {"size": "1Gi"})
        assert (refused.status, refused.code) == (400, "invalid_request")
        assert refused.fields == {"size"}
        by_hand = await world.kube.patch(world.path(GPU_STORAGES, name), {"spec": {"size": "1Gi"}})
        assert by_hand.causes == {("spec.size", "FieldValueInvalid")}


async def lose_volume(world: StorageWorld, name: str) -> None:
    claim = (await world.kube.get(world.claim_path(name))).ok()
    path = VOLUMES.path(name=claim["spec"]["volumeName"])
    (await world.kube.delete(path)).ok()
    (await world.kube.patch(path, {"metadata": {"finalizers": None}})).ok()


async def test_a_lost_volume_is_reported_by_the_storage_and_by_its_unit(open_world: Open) -> None:
    async with open_world() as world:
        name = await world.ready("models")
        unit = await world.mount("unit", name)
        await world.unit(unit, is_ready)
        await lose_volume(world, name)
        view = await world.storage(name, lambda view: view["phase"] == "Failed")
        assert view["reason"] == "VolumeLost"
        assert "lost its volume" in view["message"]
        assert view["capacity"] == "1Gi"
        told = await world.unit(
            unit, lambda view: condition(view, "StorageReady")["status"] == "False"
        )
        assert condition(told, "StorageReady")["reason"] == "StorageFailed"
        assert f"storage {name} failed" in told["message"]
        assert told["phase"] == "Ready"


@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_removed_claim_is_never_replaced_by_an_empty_one(
    open_world: Open, *, is_lost: bool
) -> None:
    async with open_world() as world:
        name = await world.ready("models")
        if is_lost:
            await lose_volume(world, name)
            await world.storage(name, lambda view: view["reason"] == "VolumeLost")
        (await world.kube.delete(world.claim_path(name))).ok()
        view = await world.storage(name, lambda view: "was removed" in view["message"])
        assert view["message"] == (
            f"claim {name} was removed, and what was on it: delete this storage"
        )
        await world.touch(world.path(GPU_STORAGES, name), "after the loss")
        assert (await world.kube.get(world.claim_path(name))).status == 404


async def test_a_claim_removed_under_a_pod_is_reported_while_its_data_can_be_saved(
    open_world: Open,
) -> None:
    async with open_world() as world:
        name = await world.ready("models", accessor={"enabled": True})
        unit = await world.mount("unit", name)
        await world.unit(unit, is_ready)
        (await world.kube.delete(world.claim_path(name))).ok()
        view = await world.storage(name, lambda view: view["reason"] == "VolumeEnding")
        assert view["phase"] == "Failed"
        assert view["message"] == (
            f"claim {name} is being deleted, and the volume goes with the last Pod that mounts "
            "it: save what is on it"
        )
        told = await world.unit(
            unit, lambda view: condition(view, "StorageReady")["status"] == "False"
        )
        assert f"storage {name} failed: claim {name} is being deleted" in told["message"]
        assert told["phase"] == "Ready"
        # The file server stays, because the files can be saved through it.
        (await world.kube.get(world.path(DEPLOYMENTS, f"storage-accessor-{name}"))).ok()
        assert (await world.call("DELETE", f"/gpu-units/{unit}")).status == 204
        (await world.kube.delete(world.path(GPU_STORAGES, name))).ok()
        await world.kube.gone(world.path(GPU_STORAGES, name))


async def test_a_storage_that_is_deleted_while_it_is_held_reports_a_failure(
    open_world: Open,
) -> None:
    async with open_world() as world:
        name = await world.ready("models")
        unit = await world.mount("unit", name)
        await world.unit(unit, is_ready)
        (await world.kube.delete(world.path(GPU_STORAGES, name))).ok()
        view = await world.storage(name, lambda view: view["reason"] == "VolumeEnding")
        assert (view["phase"], view["mountedBy"]) == ("Failed", [unit])
        assert view["message"] == (
            f"storage {name} is being deleted, and what is on it goes when unit {unit} "
            "gives it back: save it before"
        )
        assert (await world.call("DELETE", f"/gpu-units/{unit}")).status == 204
        await world.kube.gone(world.path(GPU_STORAGES, name))


async def test_a_foreign_claim_is_named_and_left_alone(open_world: Open) -> None:
    async with open_world() as world:
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": world.name("models")},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        path = world.claim_path(world.name("models"))
        (await world.kube.post(path.rpartition("/")[0], claim)).ok(201)
        name = await world.make("models", size="2Gi")
        view = await world.storage(name, lambda view: view["phase"] == "Failed")
        assert view["reason"] == "VolumeSyncFailed"
        assert f"{name} has no owner: it is left as it is" in view["message"]
        kept = (await world.kube.get(path)).ok()
        assert kept["spec"]["resources"]["requests"]["storage"] == "1Gi"
        (await world.kube.delete(path)).ok()
        begun = asyncio.get_running_loop().time()
        await world.storage(name, is_ready)
        assert asyncio.get_running_loop().time() - begun < LOOK_AGAIN_SECONDS / 2


async def test_a_name_that_is_free_again_gets_a_new_volume(open_world: Open) -> None:
    async with open_world() as world:
        prepare = {"fromImage": "busybox:1.36", "command": ["fill"]}
        name = await world.make("models", prepare=prepare)
        await world.end_job(name)
        await world.storage(name, is_ready)
        assert (await world.call("DELETE", f"/gpu-storages/{name}")).status == 204
        path = world.path(GPU_STORAGES, name)
        await world.kube.gone(path)
        await world.make("models", prepare=prepare)
        await world.end_job(name)
        await world.storage(name, is_ready)
        (job,) = await world.jobs(name)
        owner = (await world.kube.get(path)).ok()["metadata"]["uid"]
        assert job["metadata"]["ownerReferences"][0]["uid"] == owner


async def test_a_create_that_lands_after_the_deletion_restores_nothing(open_world: Open) -> None:
    async with open_world() as world:
        name = await world.ready("models", operationID=world.name("once"))
        path = world.path(GPU_STORAGES, name)
        found = (await world.kube.get(path)).ok()
        assert (await world.call("DELETE", f"/gpu-storages/{name}")).status == 204
        for each in (path, world.claim_path(name)):
            await world.kube.gone(each)
        metadata = {each: found["metadata"][each] for each in ("name", "labels", "annotations")}
        late = {**found, "metadata": metadata, "status": {}}
        (await world.kube.post(GPU_STORAGES.path(namespace=world.namespace), late)).ok(201)
        await world.kube.gone(path)
        assert (await world.kube.get(world.claim_path(name))).status == 404


async def accessors(world: StorageWorld, storage: str) -> list[Document]:
    return await world.pods(labels.ACCESSOR, f"storage-accessor-{storage}")


async def test_a_claim_that_its_storage_no_longer_owns_is_not_served(open_world: Open) -> None:
    async with open_world() as world:
        name = await world.ready("models", accessor={"enabled": True})
        await world.until(lambda: accessors(world, name), lambda found: len(found) == 1)
        orphaned = {"metadata": {"annotations": {labels.OWNER_UID: None}}}
        (await world.kube.patch(world.claim_path(name), orphaned)).ok()
        view = await world.storage(name, lambda view: view["reason"] == "VolumeSyncFailed")
        assert condition(view, "AccessorReady")["reason"] == "AccessorProgressing"
        for resource in (DEPLOYMENTS, SERVICES, NETWORK_POLICIES):
            await world.kube.gone(world.path(resource, f"storage-accessor-{name}"))
        # A claim without an owner would stay, and every audit would report it.
        (await world.kube.delete(world.claim_path(name))).ok()


@pytest.mark.looptime
async def test_files_stay_served_while_an_invalid_spec_waits_for_correction() -> None:
    """The storage is older than the rule that it violates."""
    async with embedded("t") as world:
        name = await world.ready("models", accessor={"enabled": True})
        await world.until(lambda: accessors(world, name), lambda found: len(found) == 1)
        path, accessor = world.path(GPU_STORAGES, name), f"storage-accessor-{name}"
        found = (await world.kube.get(DEFINITION)).ok()
        (version,) = found["spec"]["versions"]
        del version["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"]
        (await world.kube.put(DEFINITION, found)).ok()
        (await world.kube.patch(path, {"spec": {"size": "much"}})).ok()
        await world.storage(name, lambda view: view["reason"] == "InvalidSpec")
        (await world.kube.delete(world.path(NETWORK_POLICIES, accessor))).ok()
        await world.kube.settled(world.path(NETWORK_POLICIES, accessor), lambda _: True)
        assert len(await accessors(world, name)) == 1
        (await world.kube.patch(path, {"spec": {"accessor": {"enabled": False}}})).ok()
        for resource in (DEPLOYMENTS, SERVICES, NETWORK_POLICIES):
            await world.kube.gone(world.path(resource, accessor))


@pytest.mark.parametrize("size", ["0", "1e999", "much"])
async def test_an_invalid_size_fails_until_it_is_corrected(open_world: Open, size: str) -> None:
    async with open_world() as world:
        name = await world.write_storage("models", {"size": size})
        view = await world.storage(name, lambda view: view["phase"] == "Failed")
        assert view["reason"] == "InvalidSpec"
        assert view["message"].startswith("spec.size: ")
        path = world.path(GPU_STORAGES, name)
        (await world.kube.patch(path, {"spec": {"size": "1Gi"}})).ok()
        await world.storage(name, is_ready)
