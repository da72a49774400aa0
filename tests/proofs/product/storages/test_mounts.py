"""Mounts of storages, on both servers: one unit at a time, and the oldest waiting unit next."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.storages import GPU_STORAGES
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.network import NETWORK_POLICIES, SERVICES
from gpuruntime.models.kubernetes.pods import PODS
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from tests.proofs.conformance.objects import NODES
from tests.proofs.product.conftest import Open
from tests.proofs.product.storages.storage_world import (
    TOO_MUCH,
    Document,
    Holds,
    StorageWorld,
    condition,
    embedded,
    is_ready,
)

FILL: Document = {"fromImage": "busybox:1.36", "command": ["fill"]}
# Creation timestamps have whole seconds.
YOUNGER_SECONDS = 1.1
# Within this time only an event helps: the manager's own retry comes after 15 s.
PROMPTLY_SECONDS = 10.0
# Longer than the garbage collector takes.
COLLECTING_SECONDS = 3.0


async def delete_unit(world: StorageWorld, name: str) -> None:
    assert (await world.call("DELETE", f"/gpu-units/{name}")).status == 204


def waits(view: Any) -> bool:
    return bool(view["reason"] == "StorageNotReady")


def held_by(unit: str) -> Holds:
    return lambda view: view["mountedBy"] == [unit]


def claims_of(pod: Document) -> list[str]:
    volumes = (volume.get("persistentVolumeClaim") for volume in pod["spec"]["volumes"])
    return [volume["claimName"] for volume in volumes if volume]


async def spec_of(world: StorageWorld, path: str) -> Document | None:
    """Return the object's spec, or None if it does not exist."""
    found = await world.kube.get(path)
    spec: Document | None = found.body.get("spec")
    return spec


async def is_put_back(world: StorageWorld, path: str) -> None:
    before = await spec_of(world, path)
    (await world.kube.patch(path, {"spec": {"replicas": 0}})).ok()
    await world.until(lambda: spec_of(world, path), lambda spec: spec == before)


async def serving(world: StorageWorld, accessor: str) -> Document:
    """Return the file server's only Pod that is bound to a node, once it serves."""

    async def look() -> list[Document]:
        found = await world.pods(labels.ACCESSOR, accessor)
        return [each for each in found if "affinity" in each["spec"]]

    found: list[Document] = await world.until(
        look, lambda found: [each["status"]["phase"] for each in found] == ["Running"]
    )
    return found[0]


@asynccontextmanager
async def only_node(world: StorageWorld) -> AsyncIterator[str]:
    """Yield a GPU product that only one node has until the block is left."""
    product = world.name("product")
    node = (await world.kube.get(NODES.path())).ok()["items"][0]
    path = NODES.path(name=node["metadata"]["name"])
    before = node["metadata"].get("labels", {}).get(labels.GPU_PRODUCT)

    async def give(label: str | None) -> None:
        patch = {"metadata": {"labels": {labels.GPU_PRODUCT: label}}}
        (await world.kube.patch(path, patch)).ok()

    await give(product)
    try:
        yield product
    finally:
        await give(before)


async def test_a_half_filled_storage_is_never_mounted(open_world: Open) -> None:
    async with open_world() as world:
        name = await world.make("models", prepare=FILL)
        unit = await world.mount("unit", name)
        await world.job_pod(name)
        waiting = await world.unit(
            unit, lambda view: waits(view) and "fills the volume" in view["message"]
        )
        assert waiting["phase"] == "Progressing"
        assert condition(waiting, "StorageReady")["reason"] == "StorageNotReady"
        assert await world.pods(labels.UNIT, unit) == []
        await world.end_job(name)
        view = await world.unit(unit, is_ready)
        assert condition(view, "StorageReady")["status"] == "True"
        assert claims_of(await world.unit_pod(unit)) == [name]


async def test_a_unit_waits_for_a_storage_that_does_not_exist_yet(open_world: Open) -> None:
    async with open_world() as world:
        unit = await world.mount("unit", world.name("models"))
        waiting = await world.unit(unit, waits)
        assert waiting["message"] == (
            f"storage {world.name('models')} does not exist: "
            "create it, or take it out of storageMounts"
        )
        await world.make("models")
        await world.unit(unit, is_ready)


async def test_a_unit_mounts_a_storage_that_was_created_again_under_its_name(
    open_world: Open,
) -> None:
    async with open_world() as world:
        name, unit = await world.make("models", prepare=FILL), await world.mount("unit")
        mounts = {"storageMounts": [{"name": name, "mountPath": "/data"}]}
        assert (await world.call("PUT", f"/gpu-units/{unit}", mounts)).status == 200
        await world.unit(unit, waits)
        path = world.path(GPU_STORAGES, name)
        (await world.kube.delete(path)).ok()
        await world.kube.gone(path)
        view = await world.unit(unit, lambda view: "does not exist" in view["message"])
        assert "create it, or take it out of storageMounts" in view["message"]
        await world.ready("models")
        await world.unit(unit, is_ready)
        assert claims_of(await world.unit_pod(unit)) == [name]


async def test_a_storage_being_deleted_gets_no_new_mount(open_world: Open) -> None:
    async with open_world() as world:
        name = await world.ready("models")
        holder, unit = await world.mount("holder", name), await world.mount("unit")
        await world.unit(holder, is_ready)
        (await world.kube.delete(world.path(GPU_STORAGES, name))).ok()
        mounts = {"storageMounts": [{"name": name, "mountPath": "/data"}]}
        refused = await world.call("PUT", f"/gpu-units/{unit}", mounts)
        assert (refused.status, refused.code) == (404, "gpustorage_not_found")
        assert refused.message == (
            f"storage {name} is being deleted: choose another one, "
            "or create it again once it is gone"
        )
        await delete_unit(world, holder)


async def test_one_unit_holds_a_storage_and_the_oldest_waiting_unit_is_next(
    open_world: Open,
) -> None:
    async with open_world() as world:
        name = await world.ready("models")
        units = []
        for short in ("first", "z-second", "a-third"):
            units.append(await world.mount(short, name))
            await asyncio.sleep(YOUNGER_SECONDS)
        first, second, third = units
        await world.unit(first, is_ready)
        for unit in (second, third):
            view = await world.unit(unit, waits)
            assert "is held by unit" in view["message"]
        assert (await world.storage(name, is_ready))["mountedBy"] == [first]

        await delete_unit(world, first)
        await world.unit(second, is_ready)
        view = await world.unit(third, lambda view: f"by unit {second}" in view["message"])
        assert await world.pods(labels.UNIT, third) == []
        await delete_unit(world, second)
        await world.unit(third, is_ready)
        assert (await world.storage(name, is_ready))["holder"]["name"] == third


async def test_a_suspended_unit_keeps_its_hold(open_world: Open) -> None:
    async with open_world() as world:
        name = await world.ready("models")
        holder = await world.mount("holder", name)
        await world.unit(holder, is_ready)
        await world.call("PUT", f"/gpu-units/{holder}", {"suspended": True})
        await world.unit(holder, lambda view: view["phase"] == "Suspended")
        waiter = await world.mount("waiter", name)
        view = await world.unit(waiter, waits)
        assert f"is held by unit {holder}" in view["message"]
        await world.touch(world.path(GPU_STORAGES, name), "while its holder sleeps")
        assert (await world.storage(name, is_ready))["mountedBy"] == [holder]
        await world.call("PUT", f"/gpu-units/{holder}", {"suspended": False})
        await world.unit(holder, is_ready)


async def test_a_change_of_mounts_rolls_the_pod_and_frees_the_storage(
    open_world: Open,
) -> None:
    async with open_world() as world:
        old, new = await world.ready("old"), await world.ready("new")
        unit, waiter = await world.mount("unit", old), world.name("waiter")
        await world.unit(unit, is_ready)
        before = await world.unit_pod(unit)
        await world.mount("waiter", old)
        mounts = {"storageMounts": [{"name": new, "mountPath": "/data"}]}
        assert (await world.call("PUT", f"/gpu-units/{unit}", mounts)).status == 200
        await world.storage(new, lambda view: view["mountedBy"] == [unit])
        await world.storage(old, lambda view: view["mountedBy"] == [waiter])
        await world.unit(waiter, is_ready)
        await world.unit(unit, is_ready)
        after = await world.unit_pod(unit)
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        assert claims_of(after) == [new]


async def test_a_unit_that_waits_for_new_mounts_keeps_its_pod(open_world: Open) -> None:
    async with open_world() as world:
        own, wanted = await world.ready("own"), await world.ready("wanted")
        other = await world.mount("other", wanted)
        unit = await world.mount("unit", own)
        for each in (other, unit):
            await world.unit(each, is_ready)
        before = await world.unit_pod(unit)
        mounts = {"storageMounts": [{"name": wanted, "mountPath": "/data"}]}
        await world.call("PUT", f"/gpu-units/{unit}", mounts)
        view = await world.unit(unit, lambda view: f"by unit {other}" in view["message"])
        assert (view["phase"], view["reason"]) == ("Progressing", "StorageNotReady")
        assert view["message"].endswith("; until then it runs as before")
        assert condition(view, "StorageReady")["reason"] == "StorageHeldElsewhere"
        assert (await world.storage(own, is_ready))["mountedBy"] == [unit]
        assert (await world.unit_pod(unit))["metadata"]["uid"] == before["metadata"]["uid"]
        await delete_unit(world, other)
        await world.storage(own, lambda view: view["mountedBy"] == [])
        view = await world.unit(unit, is_ready)
        assert condition(view, "StorageReady")["status"] == "True"
        assert claims_of(await world.unit_pod(unit)) == [wanted]


async def test_a_deployment_is_restored_while_its_unit_waits_for_a_storage(
    open_world: Open,
) -> None:
    async with open_world() as world:
        own, wanted = await world.ready("own"), await world.ready("wanted")
        holder, waiter = await world.mount("holder", wanted), await world.mount("waiter", own)
        for unit in (holder, waiter):
            await world.unit(unit, is_ready)
        mounts = {"storageMounts": [{"name": wanted, "mountPath": "/data"}]}
        await world.call("PUT", f"/gpu-units/{waiter}", mounts)
        await world.unit(waiter, waits)
        storage = world.path(GPU_STORAGES, wanted)
        (await world.kube.delete(storage)).ok()
        await world.unit(holder, lambda view: "is being deleted" in view["message"])
        for unit in (holder, waiter):
            await is_put_back(world, world.path(DEPLOYMENTS, f"unit-{unit}"))
        await delete_unit(world, holder)
        await world.kube.gone(storage)


async def test_units_that_exchange_storages_do_not_wait_for_ever(open_world: Open) -> None:
    async with open_world() as world:
        names = [await world.ready(short) for short in ("one", "two")]
        older = await world.mount("older", names[0])
        await asyncio.sleep(YOUNGER_SECONDS)
        younger = await world.mount("younger", names[1])
        for unit in (older, younger):
            await world.unit(unit, is_ready)
        pods = {unit: (await world.unit_pod(unit))["metadata"]["uid"] for unit in (older, younger)}
        wanted = {older: names[1], younger: names[0]}
        for unit, storage in wanted.items():
            mounts = {"storageMounts": [{"name": storage, "mountPath": "/data"}]}
            assert (await world.call("PUT", f"/gpu-units/{unit}", mounts)).status == 200
        for unit, storage in wanted.items():
            await world.storage(storage, held_by(unit))
            await world.unit(unit, is_ready)
            pod = await world.unit_pod(unit)
            assert claims_of(pod) == [storage]
            assert pod["metadata"]["uid"] != pods[unit]


async def test_units_that_each_want_the_others_storage_too_report_the_remedy(
    open_world: Open,
) -> None:
    async with open_world() as world:
        one, two = await world.ready("one"), await world.ready("two")
        first, second = await world.mount("first", one), await world.mount("second", two)
        for unit in (first, second):
            await world.unit(unit, is_ready)
        both = [{"name": each, "mountPath": f"/{each}"} for each in (one, two)]
        for unit in (first, second):
            await world.call("PUT", f"/gpu-units/{unit}", {"storageMounts": both})
        for unit, other, storage in ((first, second, two), (second, first, one)):
            view = await world.unit(unit, lambda view: "in turn" in view["message"])
            assert condition(view, "StorageReady")["message"] == (
                f"storage {storage} is held by unit {other} until its Pod is gone: delete that "
                "unit, or take the storage out of its storageMounts; "
                "that unit waits for this one in turn"
            )
            assert claims_of(await world.unit_pod(unit)) != [storage]
        await world.call("PUT", f"/gpu-units/{second}", {"storageMounts": both[:1]})
        await world.unit(first, is_ready)
        assert claims_of(await world.unit_pod(first)) == [one, two]
        view = await world.unit(second, waits)
        assert f"is held by unit {first}" in view["message"]


async def test_an_older_unit_that_waits_for_another_unit_does_not_block_it(
    open_world: Open,
) -> None:
    async with open_world() as world:
        one, two = await world.ready("one"), await world.ready("two")
        older = await world.mount("older")
        await asyncio.sleep(YOUNGER_SECONDS)
        holder = await world.mount("holder", one)
        for unit in (older, holder):
            await world.unit(unit, is_ready)
        both = {"storageMounts": [{"name": each, "mountPath": f"/{each}"} for each in (one, two)]}
        await world.call("PUT", f"/gpu-units/{older}", both)
        await world.unit(older, waits)
        await world.call("PUT", f"/gpu-units/{holder}", both)
        await world.unit(holder, is_ready)
        assert claims_of(await world.unit_pod(holder)) == [one, two]
        await delete_unit(world, holder)
        await world.unit(older, is_ready)


async def test_a_unit_that_waits_for_a_missing_storage_keeps_no_free_storage_from_others(
    open_world: Open,
) -> None:
    async with open_world() as world:
        name = await world.ready("models")
        older = await world.mount("older", name, world.name("missing"))
        await world.unit(older, waits)
        await asyncio.sleep(YOUNGER_SECONDS)
        younger = await world.mount("younger", name)
        await world.unit(younger, is_ready)
        await world.make("missing")
        view = await world.unit(older, lambda view: f"by unit {younger}" in view["message"])
        assert waits(view)
        await delete_unit(world, younger)
        await world.unit(older, is_ready)


async def test_a_storage_goes_on_at_once_when_the_older_unit_can_no_longer_start(
    open_world: Open,
) -> None:
    async with open_world() as world:
        free, taken = await world.ready("free"), await world.ready("taken")
        holder = await world.mount("holder", taken)
        await world.unit(holder, is_ready)
        older = await world.mount("older", free, taken)
        await world.unit(older, waits)
        await asyncio.sleep(YOUNGER_SECONDS)
        younger = await world.mount("younger", free)
        view = await world.unit(younger, waits)
        assert view["message"] == (
            f"storage {free} goes to unit {older}, which is older: "
            "delete that unit, or take the storage out of its storageMounts"
        )
        (await world.kube.delete(world.path(GPU_STORAGES, taken))).ok()
        async with asyncio.timeout(PROMPTLY_SECONDS):
            await world.unit(younger, is_ready)
        await delete_unit(world, holder)


async def test_a_mounted_storage_is_not_deleted(open_world: Open) -> None:
    async with open_world() as world:
        name = await world.ready("models")
        unit = await world.mount("unit", name)
        await world.unit(unit, is_ready)
        refused = await world.call("DELETE", f"/gpu-storages/{name}")
        assert (refused.status, refused.code) == (409, "storage_in_use")
        assert f"is mounted by {unit}" in refused.message

        path = world.path(GPU_STORAGES, name)
        (await world.kube.delete(path)).ok()
        view = await world.unit(unit, lambda view: "is being deleted" in view["message"])
        assert view["phase"] == "Ready"
        kept = (await world.kube.get(path)).ok()["metadata"]
        assert "runtime.lokiwager.io/mounted" in kept["finalizers"]
        assert "deletionTimestamp" not in (await world.unit_pod(unit))["metadata"]
        assert (await world.kube.get(world.claim_path(name))).ok()["status"]["phase"] == "Bound"

        await delete_unit(world, unit)
        await world.kube.gone(path)
        await world.kube.gone(world.claim_path(name))


async def test_a_mounted_storage_survives_a_foreground_deletion(open_world: Open) -> None:
    """A foreground deletion makes the collector first delete everything that the storage owns."""
    async with open_world() as world:
        name = await world.ready("models")
        unit = await world.mount("unit", name)
        await world.unit(unit, is_ready)
        path = world.path(GPU_STORAGES, name)
        (await world.kube.delete(path, {"propagationPolicy": "Foreground"})).ok()
        await world.unit(unit, lambda view: "is being deleted" in view["message"])
        await asyncio.sleep(COLLECTING_SECONDS)
        kept = (await world.kube.get(world.claim_path(name))).ok()
        assert "deletionTimestamp" not in kept["metadata"]
        assert "deletionTimestamp" not in (await world.unit_pod(unit))["metadata"]
        await delete_unit(world, unit)
        await world.kube.gone(path)
        await world.kube.gone(world.claim_path(name))


async def test_a_running_unit_stays_isolated_while_its_storage_is_being_deleted(
    open_world: Open,
) -> None:
    async with open_world() as world:
        name = await world.ready("models")
        unit = await world.mount("unit", name)
        await world.unit(unit, is_ready)
        storage = world.path(GPU_STORAGES, name)
        (await world.kube.delete(storage)).ok()
        await world.unit(unit, lambda view: "is being deleted" in view["message"])

        policy = world.path(NETWORK_POLICIES, f"unit-{unit}")
        closed = (await world.kube.get(policy)).ok()["spec"]
        (await world.kube.patch(policy, {"spec": {"egress": [{}]}})).ok()
        await world.until(lambda: spec_of(world, policy), lambda spec: spec == closed)
        (await world.kube.delete(policy)).ok()
        await world.until(lambda: spec_of(world, policy), lambda spec: spec == closed)
        await delete_unit(world, unit)
        await world.kube.gone(storage)


async def test_a_volume_is_passed_on_only_after_the_last_pod_is_gone(open_world: Open) -> None:
    async with open_world() as world:
        name = await world.ready("models")
        unit = await world.mount("unit", name)
        await world.unit(unit, is_ready)
        waiter = await world.mount("waiter", name)
        async with world.unreachable(await world.unit_pod(unit)):
            await delete_unit(world, unit)
            await world.kube.gone(world.path(DEPLOYMENTS, f"unit-{unit}"))
            await world.touch(world.path(GPU_STORAGES, name), "while the Pod hangs")
            assert (await world.storage(name, is_ready))["mountedBy"] == [unit]
            assert await world.pods(labels.UNIT, waiter) == []
        await world.unit(waiter, is_ready)


async def evict(world: StorageWorld, unit: str) -> None:
    """Evict the unit's Pod, which stays beside its successor."""
    pod = await world.unit_pod(unit)
    status = {"phase": "Failed", "reason": "Evicted", "message": "the node was low on memory"}
    path = world.path(PODS, pod["metadata"]["name"])
    (await world.kube.patch(f"{path}/status", {"status": status})).ok()
    await world.until(lambda: world.pods(labels.UNIT, unit), lambda found: len(found) == 2)
    await world.unit(unit, is_ready)
    assert (await world.kube.get(path)).ok()["status"]["phase"] == "Failed"


async def test_an_ended_pod_keeps_no_storage_from_the_next_unit(open_world: Open) -> None:
    async with open_world() as world:
        name = await world.ready("models")
        unit = await world.mount("unit", name)
        await world.unit(unit, is_ready)
        await evict(world, unit)
        waiter = await world.mount("waiter", name)
        assert (await world.call("PUT", f"/gpu-units/{unit}", {"storageMounts": []})).status == 200
        await world.storage(name, held_by(waiter))
        await world.unit(waiter, is_ready)


async def test_a_unit_whose_pod_was_evicted_can_be_suspended(open_world: Open) -> None:
    async with open_world() as world:
        unit = await world.mount("unit")
        await world.unit(unit, is_ready)
        await evict(world, unit)
        assert (await world.call("PUT", f"/gpu-units/{unit}", {"suspended": True})).status == 200
        view = await world.unit(unit, lambda view: view["phase"] == "Suspended")
        assert view["message"] == "suspended: no Pod runs"


async def test_a_resumed_unit_reports_the_storage_that_it_waits_for(open_world: Open) -> None:
    async with open_world() as world:
        own, wanted = await world.ready("own"), await world.ready("wanted")
        other = await world.mount("other", wanted)
        unit = await world.mount("unit", own)
        for each in (other, unit):
            await world.unit(each, is_ready)
        await world.call("PUT", f"/gpu-units/{unit}", {"suspended": True})
        await world.unit(unit, lambda view: view["phase"] == "Suspended")
        change = {"spec": {"suspended": False}}
        mounts = {"storageMounts": [{"name": wanted, "mountPath": "/data"}]}
        await world.call("PUT", f"/gpu-units/{unit}", mounts)
        async with asyncio.timeout(PROMPTLY_SECONDS):
            await world.storage(own, lambda view: view["mountedBy"] == [])
        (await world.kube.patch(world.path(GPU_UNITS, unit), change)).ok()
        view = await world.unit(unit, waits)
        assert f"is held by unit {other}" in view["message"]
        await delete_unit(world, other)
        await world.unit(unit, is_ready)


@pytest.mark.looptime
async def test_rolling_a_unit_on_its_node_leaves_the_file_server_alone() -> None:
    async with embedded("t", helper_cpu="250m") as world, only_node(world) as product:
        name = await world.ready("models", accessor={"enabled": True})
        child = f"storage-accessor-{name}"
        unit = await world.mount("unit", name, gpuProduct=product)
        await world.unit(unit, is_ready)
        server = await serving(world, child)
        before = await world.unit_pod(unit)
        assert server["spec"]["nodeName"] == before["spec"]["nodeName"]

        rolled = await world.call("PUT", f"/gpu-units/{unit}", {"image": "busybox:1.37"})
        assert rolled.status == 200
        await world.unit(unit, lambda view: is_ready(view) and view["image"] == "busybox:1.37")
        assert (await world.unit_pod(unit))["metadata"]["uid"] != before["metadata"]["uid"]
        assert (await serving(world, child))["metadata"]["uid"] == server["metadata"]["uid"]
        deployment = (await world.kube.get(world.path(DEPLOYMENTS, child))).ok()
        template = deployment["spec"]["template"]["spec"]
        assert template["affinity"] == server["spec"]["affinity"]


async def test_a_file_server_that_makes_way_for_a_pod_without_a_node_reports_it(
    open_world: Open,
) -> None:
    async with open_world() as world:
        name = await world.ready("models", accessor={"enabled": True})
        unit = await world.mount("unit", name, cpu=TOO_MUCH)
        words = f"waits until the Pod of unit {unit} has a node"
        view = await world.storage(
            name, lambda view: condition(view, "AccessorReady")["message"] == words
        )
        assert view["accessorStatus"]["phase"] == "Pending"
        path = world.path(DEPLOYMENTS, f"storage-accessor-{name}")
        assert (await world.kube.get(path)).ok()["spec"]["replicas"] == 0
        files = await world.call("GET", f"/gpu-storages/{name}/files/")
        assert (files.status, words in files.message) == (503, True)

        await delete_unit(world, unit)
        await world.kube.settled(path, lambda live: live["spec"]["replicas"] == 1)


async def test_a_file_server_starts_follows_the_holder_and_ends(open_world: Open) -> None:
    async with open_world() as world:
        name = await world.ready("models", accessor={"enabled": True, "writable": True})
        child = f"storage-accessor-{name}"
        (pod,) = await world.until(
            lambda: world.pods(labels.ACCESSOR, child), lambda found: len(found) == 1
        )
        assert "--allow-upload" in pod["spec"]["containers"][0]["args"]
        assert "affinity" not in pod["spec"]

        unit = await world.mount("unit", name)
        node = (await world.unit(unit, is_ready))["nodeName"]
        (pod,) = await world.until(
            lambda: world.pods(labels.ACCESSOR, child),
            lambda found: len(found) == 1 and "affinity" in found[0]["spec"],
        )
        await world.place(pod, node)
        view = await world.storage(name, lambda view: view["accessorStatus"]["phase"] == "Ready")
        assert view["accessorStatus"]["serviceName"] == child
        assert condition(view, "AccessorReady")["status"] == "True"

        reading = {"accessor": {"enabled": True, "writable": False}}
        assert (await world.call("PUT", f"/gpu-storages/{name}", reading)).status == 200
        (pod,) = await world.until(
            lambda: world.pods(labels.ACCESSOR, child),
            lambda found: (
                len(found) == 1
                and "--allow-upload" not in found[0]["spec"]["containers"][0]["args"]
            ),
        )
        (mount,) = pod["spec"]["containers"][0]["volumeMounts"]
        assert mount["readOnly"]

        await world.call("PUT", f"/gpu-storages/{name}", {"accessor": None})
        for resource in (DEPLOYMENTS, SERVICES, NETWORK_POLICIES):
            await world.kube.gone(world.path(resource, child))
        view = await world.storage(name, lambda view: view["accessorStatus"]["phase"] == "")
        assert condition(view, "AccessorReady")["reason"] == "AccessorOff"
