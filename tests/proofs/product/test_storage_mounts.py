"""Who mounts a storage, on both servers: one unit at a time, the older one first, none unseen."""

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
from tests.proofs.product.ground import (
    TOO_MUCH,
    Document,
    Ground,
    Holds,
    condition,
    embedded,
    is_ready,
)

FILL: Document = {"fromImage": "busybox:1.36", "command": ["fill"]}
# Objects tell their age in whole seconds.
YOUNGER_SECONDS = 1.1
# By an event: by itself the manager looks again after 15 s.
PROMPTLY_SECONDS = 10.0
# More than the cluster's collector takes.
COLLECTING_SECONDS = 3.0


async def delete_unit(ground: Ground, name: str) -> None:
    assert (await ground.call("DELETE", f"/gpu-units/{name}")).status == 204


def waits(view: Any) -> bool:
    return bool(view["reason"] == "StorageNotReady")


def held_by(unit: str) -> Holds:
    return lambda view: view["mountedBy"] == [unit]


def claims_of(pod: Document) -> list[str]:
    volumes = (volume.get("persistentVolumeClaim") for volume in pod["spec"]["volumes"])
    return [volume["claimName"] for volume in volumes if volume]


async def spec_of(ground: Ground, path: str) -> Document | None:
    """None while it is not there."""
    found = await ground.kube.get(path)
    spec: Document | None = found.body.get("spec")
    return spec


async def is_put_back(ground: Ground, path: str) -> None:
    before = await spec_of(ground, path)
    (await ground.kube.patch(path, {"spec": {"replicas": 0}})).ok()
    await ground.until(lambda: spec_of(ground, path), lambda spec: spec == before)


async def serving(ground: Ground, accessor: str) -> Document:
    """The one Pod of a file server that is tied to a node, once it serves."""

    async def look() -> list[Document]:
        found = await ground.pods(labels.ACCESSOR, accessor)
        return [each for each in found if "affinity" in each["spec"]]

    found: list[Document] = await ground.until(
        look, lambda found: [each["status"]["phase"] for each in found] == ["Running"]
    )
    return found[0]


@asynccontextmanager
async def only_node(ground: Ground) -> AsyncIterator[str]:
    """A GPU product that one node has until the block is over."""
    product = ground.name("product")
    node = (await ground.kube.get(NODES.path())).ok()["items"][0]
    path = NODES.path(name=node["metadata"]["name"])
    before = node["metadata"].get("labels", {}).get(labels.GPU_PRODUCT)

    async def give(label: str | None) -> None:
        patch = {"metadata": {"labels": {labels.GPU_PRODUCT: label}}}
        (await ground.kube.patch(path, patch)).ok()

    await give(product)
    try:
        yield product
    finally:
        await give(before)


async def test_nothing_half_filled_is_ever_mounted(on: Open) -> None:
    async with on() as ground:
        name = await ground.make("models", prepare=FILL)
        unit = await ground.mount("unit", name)
        await ground.job_pod(name)
        waiting = await ground.unit(
            unit, lambda view: waits(view) and "fills the volume" in view["message"]
        )
        assert waiting["phase"] == "Progressing"
        assert condition(waiting, "StorageReady")["reason"] == "StorageNotReady"
        assert await ground.pods(labels.UNIT, unit) == []
        await ground.end_job(name)
        view = await ground.unit(unit, is_ready)
        assert condition(view, "StorageReady")["status"] == "True"
        assert claims_of(await ground.unit_pod(unit)) == [name]


async def test_a_unit_waits_for_a_storage_that_is_not_there_yet(on: Open) -> None:
    async with on() as ground:
        unit = await ground.mount("unit", ground.name("models"))
        waiting = await ground.unit(unit, waits)
        assert waiting["message"] == (
            f"storage {ground.name('models')} does not exist: "
            "create it, or take it out of storageMounts"
        )
        await ground.make("models")
        await ground.unit(unit, is_ready)


async def test_a_unit_mounts_what_is_made_again_under_the_name(on: Open) -> None:
    async with on() as ground:
        name, unit = await ground.make("models", prepare=FILL), await ground.mount("unit")
        mounts = {"storageMounts": [{"name": name, "mountPath": "/data"}]}
        assert (await ground.call("PUT", f"/gpu-units/{unit}", mounts)).status == 200
        await ground.unit(unit, waits)
        path = ground.path(GPU_STORAGES, name)
        (await ground.kube.delete(path)).ok()
        await ground.kube.gone(path)
        view = await ground.unit(unit, lambda view: "does not exist" in view["message"])
        assert "create it, or take it out of storageMounts" in view["message"]
        await ground.ready("models")
        await ground.unit(unit, is_ready)
        assert claims_of(await ground.unit_pod(unit)) == [name]


async def test_what_is_being_deleted_is_mounted_and_copied_by_nobody_new(on: Open) -> None:
    async with on() as ground:
        name = await ground.ready("models")
        holder, unit = await ground.mount("holder", name), await ground.mount("unit")
        await ground.unit(holder, is_ready)
        (await ground.kube.delete(ground.path(GPU_STORAGES, name))).ok()
        mounts = {"storageMounts": [{"name": name, "mountPath": "/data"}]}
        refused = await ground.call("PUT", f"/gpu-units/{unit}", mounts)
        assert (refused.status, refused.code) == (404, "gpustorage_not_found")
        assert refused.message == (
            f"storage {name} is being deleted: choose another one, "
            "or create it again once it is gone"
        )
        await delete_unit(ground, holder)


async def test_one_unit_holds_a_storage_and_the_older_of_the_waiters_is_next(on: Open) -> None:
    async with on() as ground:
        name = await ground.ready("models")
        units = []
        for short in ("first", "z-second", "a-third"):
            units.append(await ground.mount(short, name))
            await asyncio.sleep(YOUNGER_SECONDS)
        first, second, third = units
        await ground.unit(first, is_ready)
        for unit in (second, third):
            view = await ground.unit(unit, waits)
            assert "is held by unit" in view["message"]
        assert (await ground.storage(name, is_ready))["mountedBy"] == [first]

        await delete_unit(ground, first)
        await ground.unit(second, is_ready)
        view = await ground.unit(third, lambda view: f"by unit {second}" in view["message"])
        assert await ground.pods(labels.UNIT, third) == []
        await delete_unit(ground, second)
        await ground.unit(third, is_ready)
        assert (await ground.storage(name, is_ready))["holder"]["name"] == third


async def test_a_suspended_unit_keeps_its_hold(on: Open) -> None:
    async with on() as ground:
        name = await ground.ready("models")
        holder = await ground.mount("holder", name)
        await ground.unit(holder, is_ready)
        await ground.call("PUT", f"/gpu-units/{holder}", {"suspended": True})
        await ground.unit(holder, lambda view: view["phase"] == "Suspended")
        waiter = await ground.mount("waiter", name)
        view = await ground.unit(waiter, waits)
        assert f"is held by unit {holder}" in view["message"]
        await ground.touch(ground.path(GPU_STORAGES, name), "while its holder sleeps")
        assert (await ground.storage(name, is_ready))["mountedBy"] == [holder]
        await ground.call("PUT", f"/gpu-units/{holder}", {"suspended": False})
        await ground.unit(holder, is_ready)


async def test_a_change_of_mounts_rolls_the_pod_and_gives_the_storage_to_the_next(
    on: Open,
) -> None:
    async with on() as ground:
        old, new = await ground.ready("old"), await ground.ready("new")
        unit, waiter = await ground.mount("unit", old), ground.name("waiter")
        await ground.unit(unit, is_ready)
        before = await ground.unit_pod(unit)
        await ground.mount("waiter", old)
        mounts = {"storageMounts": [{"name": new, "mountPath": "/data"}]}
        assert (await ground.call("PUT", f"/gpu-units/{unit}", mounts)).status == 200
        await ground.storage(new, lambda view: view["mountedBy"] == [unit])
        await ground.storage(old, lambda view: view["mountedBy"] == [waiter])
        await ground.unit(waiter, is_ready)
        await ground.unit(unit, is_ready)
        after = await ground.unit_pod(unit)
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        assert claims_of(after) == [new]


async def test_mounts_that_wait_for_their_turn_leave_the_pod_as_it_is(on: Open) -> None:
    async with on() as ground:
        own, wanted = await ground.ready("own"), await ground.ready("wanted")
        other = await ground.mount("other", wanted)
        unit = await ground.mount("unit", own)
        for each in (other, unit):
            await ground.unit(each, is_ready)
        before = await ground.unit_pod(unit)
        mounts = {"storageMounts": [{"name": wanted, "mountPath": "/data"}]}
        await ground.call("PUT", f"/gpu-units/{unit}", mounts)
        view = await ground.unit(unit, lambda view: f"by unit {other}" in view["message"])
        assert (view["phase"], view["reason"]) == ("Progressing", "StorageNotReady")
        assert view["message"].endswith("; until then it runs as before")
        assert condition(view, "StorageReady")["reason"] == "StorageHeldElsewhere"
        assert (await ground.storage(own, is_ready))["mountedBy"] == [unit]
        assert (await ground.unit_pod(unit))["metadata"]["uid"] == before["metadata"]["uid"]
        await delete_unit(ground, other)
        await ground.storage(own, lambda view: view["mountedBy"] == [])
        view = await ground.unit(unit, is_ready)
        assert condition(view, "StorageReady")["status"] == "True"
        assert claims_of(await ground.unit_pod(unit)) == [wanted]


async def test_what_runs_while_it_waits_for_a_storage_is_put_back_as_it_was(on: Open) -> None:
    async with on() as ground:
        own, wanted = await ground.ready("own"), await ground.ready("wanted")
        holder, waiter = await ground.mount("holder", wanted), await ground.mount("waiter", own)
        for unit in (holder, waiter):
            await ground.unit(unit, is_ready)
        mounts = {"storageMounts": [{"name": wanted, "mountPath": "/data"}]}
        await ground.call("PUT", f"/gpu-units/{waiter}", mounts)
        await ground.unit(waiter, waits)
        storage = ground.path(GPU_STORAGES, wanted)
        (await ground.kube.delete(storage)).ok()
        await ground.unit(holder, lambda view: "is being deleted" in view["message"])
        for unit in (holder, waiter):
            await is_put_back(ground, ground.path(DEPLOYMENTS, f"unit-{unit}"))
        await delete_unit(ground, holder)
        await ground.kube.gone(storage)


async def test_units_that_change_storages_with_each_other_do_not_wait_for_ever(on: Open) -> None:
    async with on() as ground:
        names = [await ground.ready(short) for short in ("one", "two")]
        older = await ground.mount("older", names[0])
        await asyncio.sleep(YOUNGER_SECONDS)
        younger = await ground.mount("younger", names[1])
        for unit in (older, younger):
            await ground.unit(unit, is_ready)
        pods = {
            unit: (await ground.unit_pod(unit))["metadata"]["uid"] for unit in (older, younger)
        }
        wanted = {older: names[1], younger: names[0]}
        for unit, storage in wanted.items():
            mounts = {"storageMounts": [{"name": storage, "mountPath": "/data"}]}
            assert (await ground.call("PUT", f"/gpu-units/{unit}", mounts)).status == 200
        for unit, storage in wanted.items():
            await ground.storage(storage, held_by(unit))
            await ground.unit(unit, is_ready)
            pod = await ground.unit_pod(unit)
            assert claims_of(pod) == [storage]
            assert pod["metadata"]["uid"] != pods[unit]


async def test_units_that_want_each_others_storages_as_well_say_how_to_end_it(on: Open) -> None:
    async with on() as ground:
        one, two = await ground.ready("one"), await ground.ready("two")
        first, second = await ground.mount("first", one), await ground.mount("second", two)
        for unit in (first, second):
            await ground.unit(unit, is_ready)
        both = [{"name": each, "mountPath": f"/{each}"} for each in (one, two)]
        for unit in (first, second):
            await ground.call("PUT", f"/gpu-units/{unit}", {"storageMounts": both})
        for unit, other, storage in ((first, second, two), (second, first, one)):
            view = await ground.unit(unit, lambda view: "in turn" in view["message"])
            assert condition(view, "StorageReady")["message"] == (
                f"storage {storage} is held by unit {other} until its Pod is gone: delete that "
                "unit, or take the storage out of its storageMounts; "
                "that unit waits for this one in turn"
            )
            assert claims_of(await ground.unit_pod(unit)) != [storage]
        await ground.call("PUT", f"/gpu-units/{second}", {"storageMounts": both[:1]})
        await ground.unit(first, is_ready)
        assert claims_of(await ground.unit_pod(first)) == [one, two]
        view = await ground.unit(second, waits)
        assert f"is held by unit {first}" in view["message"]


async def test_an_older_unit_that_waits_for_another_one_does_not_keep_that_waiting(
    on: Open,
) -> None:
    async with on() as ground:
        one, two = await ground.ready("one"), await ground.ready("two")
        older = await ground.mount("older")
        await asyncio.sleep(YOUNGER_SECONDS)
        holder = await ground.mount("holder", one)
        for unit in (older, holder):
            await ground.unit(unit, is_ready)
        both = {"storageMounts": [{"name": each, "mountPath": f"/{each}"} for each in (one, two)]}
        await ground.call("PUT", f"/gpu-units/{older}", both)
        await ground.unit(older, waits)
        await ground.call("PUT", f"/gpu-units/{holder}", both)
        await ground.unit(holder, is_ready)
        assert claims_of(await ground.unit_pod(holder)) == [one, two]
        await delete_unit(ground, holder)
        await ground.unit(older, is_ready)


async def test_who_waits_for_what_may_never_come_keeps_nobody_from_a_free_storage(
    on: Open,
) -> None:
    async with on() as ground:
        name = await ground.ready("models")
        older = await ground.mount("older", name, ground.name("missing"))
        await ground.unit(older, waits)
        await asyncio.sleep(YOUNGER_SECONDS)
        younger = await ground.mount("younger", name)
        await ground.unit(younger, is_ready)
        await ground.make("missing")
        view = await ground.unit(older, lambda view: f"by unit {younger}" in view["message"])
        assert waits(view)
        await delete_unit(ground, younger)
        await ground.unit(older, is_ready)


async def test_what_an_older_unit_can_no_longer_take_goes_to_the_next_at_once(on: Open) -> None:
    async with on() as ground:
        free, taken = await ground.ready("free"), await ground.ready("taken")
        holder = await ground.mount("holder", taken)
        await ground.unit(holder, is_ready)
        older = await ground.mount("older", free, taken)
        await ground.unit(older, waits)
        await asyncio.sleep(YOUNGER_SECONDS)
        younger = await ground.mount("younger", free)
        view = await ground.unit(younger, waits)
        assert view["message"] == (
            f"storage {free} goes to unit {older}, which is older: "
            "delete that unit, or take the storage out of its storageMounts"
        )
        (await ground.kube.delete(ground.path(GPU_STORAGES, taken))).ok()
        async with asyncio.timeout(PROMPTLY_SECONDS):
            await ground.unit(younger, is_ready)
        await delete_unit(ground, holder)


async def test_what_is_mounted_is_not_deleted(on: Open) -> None:
    async with on() as ground:
        name = await ground.ready("models")
        unit = await ground.mount("unit", name)
        await ground.unit(unit, is_ready)
        refused = await ground.call("DELETE", f"/gpu-storages/{name}")
        assert (refused.status, refused.code) == (409, "storage_in_use")
        assert f"is mounted by {unit}" in refused.message

        path = ground.path(GPU_STORAGES, name)
        (await ground.kube.delete(path)).ok()
        view = await ground.unit(unit, lambda view: "is being deleted" in view["message"])
        assert view["phase"] == "Ready"
        kept = (await ground.kube.get(path)).ok()["metadata"]
        assert "runtime.lokiwager.io/mounted" in kept["finalizers"]
        assert "deletionTimestamp" not in (await ground.unit_pod(unit))["metadata"]
        assert (await ground.kube.get(ground.claim_path(name))).ok()["status"]["phase"] == "Bound"

        await delete_unit(ground, unit)
        await ground.kube.gone(path)
        await ground.kube.gone(ground.claim_path(name))


async def test_what_is_mounted_stays_however_its_deletion_is_asked_for(on: Open) -> None:
    """In the foreground the cluster's collector takes first whatever the storage owns."""
    async with on() as ground:
        name = await ground.ready("models")
        unit = await ground.mount("unit", name)
        await ground.unit(unit, is_ready)
        path = ground.path(GPU_STORAGES, name)
        (await ground.kube.delete(path, {"propagationPolicy": "Foreground"})).ok()
        await ground.unit(unit, lambda view: "is being deleted" in view["message"])
        await asyncio.sleep(COLLECTING_SECONDS)
        kept = (await ground.kube.get(ground.claim_path(name))).ok()
        assert "deletionTimestamp" not in kept["metadata"]
        assert "deletionTimestamp" not in (await ground.unit_pod(unit))["metadata"]
        await delete_unit(ground, unit)
        await ground.kube.gone(path)
        await ground.kube.gone(ground.claim_path(name))


async def test_a_unit_that_runs_stays_isolated_while_its_storage_is_in_trouble(on: Open) -> None:
    async with on() as ground:
        name = await ground.ready("models")
        unit = await ground.mount("unit", name)
        await ground.unit(unit, is_ready)
        storage = ground.path(GPU_STORAGES, name)
        (await ground.kube.delete(storage)).ok()
        await ground.unit(unit, lambda view: "is being deleted" in view["message"])

        policy = ground.path(NETWORK_POLICIES, f"unit-{unit}")
        closed = (await ground.kube.get(policy)).ok()["spec"]
        (await ground.kube.patch(policy, {"spec": {"egress": [{}]}})).ok()
        await ground.until(lambda: spec_of(ground, policy), lambda spec: spec == closed)
        (await ground.kube.delete(policy)).ok()
        await ground.until(lambda: spec_of(ground, policy), lambda spec: spec == closed)
        await delete_unit(ground, unit)
        await ground.kube.gone(storage)


async def test_a_volume_is_not_given_on_before_the_last_pod_is_gone(on: Open) -> None:
    async with on() as ground:
        name = await ground.ready("models")
        unit = await ground.mount("unit", name)
        await ground.unit(unit, is_ready)
        waiter = await ground.mount("waiter", name)
        async with ground.unreachable(await ground.unit_pod(unit)):
            await delete_unit(ground, unit)
            await ground.kube.gone(ground.path(DEPLOYMENTS, f"unit-{unit}"))
            await ground.touch(ground.path(GPU_STORAGES, name), "while the Pod hangs")
            assert (await ground.storage(name, is_ready))["mountedBy"] == [unit]
            assert await ground.pods(labels.UNIT, waiter) == []
        await ground.unit(waiter, is_ready)


async def evict(ground: Ground, unit: str) -> None:
    """Its Pod stays as it ended, beside its successor."""
    pod = await ground.unit_pod(unit)
    status = {"phase": "Failed", "reason": "Evicted", "message": "the node was low on memory"}
    path = ground.path(PODS, pod["metadata"]["name"])
    (await ground.kube.patch(f"{path}/status", {"status": status})).ok()
    await ground.until(lambda: ground.pods(labels.UNIT, unit), lambda found: len(found) == 2)
    await ground.unit(unit, is_ready)
    assert (await ground.kube.get(path)).ok()["status"]["phase"] == "Failed"


async def test_a_pod_that_has_ended_keeps_no_storage_from_the_next_unit(on: Open) -> None:
    async with on() as ground:
        name = await ground.ready("models")
        unit = await ground.mount("unit", name)
        await ground.unit(unit, is_ready)
        await evict(ground, unit)
        waiter = await ground.mount("waiter", name)
        assert (
            await ground.call("PUT", f"/gpu-units/{unit}", {"storageMounts": []})
        ).status == 200
        await ground.storage(name, held_by(waiter))
        await ground.unit(waiter, is_ready)


async def test_a_unit_whose_pod_was_evicted_is_suspended_all_the_same(on: Open) -> None:
    async with on() as ground:
        unit = await ground.mount("unit")
        await ground.unit(unit, is_ready)
        await evict(ground, unit)
        assert (await ground.call("PUT", f"/gpu-units/{unit}", {"suspended": True})).status == 200
        view = await ground.unit(unit, lambda view: view["phase"] == "Suspended")
        assert view["message"] == "suspended: no Pod runs"


async def test_a_unit_that_is_resumed_says_what_it_waits_for(on: Open) -> None:
    async with on() as ground:
        own, wanted = await ground.ready("own"), await ground.ready("wanted")
        other = await ground.mount("other", wanted)
        unit = await ground.mount("unit", own)
        for each in (other, unit):
            await ground.unit(each, is_ready)
        await ground.call("PUT", f"/gpu-units/{unit}", {"suspended": True})
        await ground.unit(unit, lambda view: view["phase"] == "Suspended")
        change = {"spec": {"suspended": False}}
        mounts = {"storageMounts": [{"name": wanted, "mountPath": "/data"}]}
        await ground.call("PUT", f"/gpu-units/{unit}", mounts)
        async with asyncio.timeout(PROMPTLY_SECONDS):
            await ground.storage(own, lambda view: view["mountedBy"] == [])
        (await ground.kube.patch(ground.path(GPU_UNITS, unit), change)).ok()
        view = await ground.unit(unit, waits)
        assert f"is held by unit {other}" in view["message"]
        await delete_unit(ground, other)
        await ground.unit(unit, is_ready)


@pytest.mark.looptime
async def test_a_unit_that_is_rolled_on_its_node_leaves_the_file_server_alone() -> None:
    async with embedded("t", helper_cpu="250m") as ground, only_node(ground) as product:
        name = await ground.ready("models", accessor={"enabled": True})
        child = f"storage-accessor-{name}"
        unit = await ground.mount("unit", name, gpuProduct=product)
        await ground.unit(unit, is_ready)
        server = await serving(ground, child)
        before = await ground.unit_pod(unit)
        assert server["spec"]["nodeName"] == before["spec"]["nodeName"]

        rolled = await ground.call("PUT", f"/gpu-units/{unit}", {"image": "busybox:1.37"})
        assert rolled.status == 200
        await ground.unit(unit, lambda view: is_ready(view) and view["image"] == "busybox:1.37")
        assert (await ground.unit_pod(unit))["metadata"]["uid"] != before["metadata"]["uid"]
        assert (await serving(ground, child))["metadata"]["uid"] == server["metadata"]["uid"]
        deployment = (await ground.kube.get(ground.path(DEPLOYMENTS, child))).ok()
        template = deployment["spec"]["template"]["spec"]
        assert template["affinity"] == server["spec"]["affinity"]


async def test_an_accessor_that_makes_way_for_a_pod_without_a_node_says_so(on: Open) -> None:
    async with on() as ground:
        name = await ground.ready("models", accessor={"enabled": True})
        unit = await ground.mount("unit", name, cpu=TOO_MUCH)
        words = f"waits until the Pod of unit {unit} has a node"
        view = await ground.storage(
            name, lambda view: condition(view, "AccessorReady")["message"] == words
        )
        assert view["accessorStatus"]["phase"] == "Pending"
        path = ground.path(DEPLOYMENTS, f"storage-accessor-{name}")
        assert (await ground.kube.get(path)).ok()["spec"]["replicas"] == 0
        files = await ground.call("GET", f"/gpu-storages/{name}/files/")
        assert (files.status, words in files.message) == (503, True)

        await delete_unit(ground, unit)
        await ground.kube.settled(path, lambda live: live["spec"]["replicas"] == 1)


async def test_an_accessor_comes_goes_and_follows_the_holder(on: Open) -> None:
    async with on() as ground:
        name = await ground.ready("models", accessor={"enabled": True, "writable": True})
        child = f"storage-accessor-{name}"
        (pod,) = await ground.until(
            lambda: ground.pods(labels.ACCESSOR, child), lambda found: len(found) == 1
        )
        assert "--allow-upload" in pod["spec"]["containers"][0]["args"]
        assert "affinity" not in pod["spec"]

        unit = await ground.mount("unit", name)
        node = (await ground.unit(unit, is_ready))["nodeName"]
        (pod,) = await ground.until(
            lambda: ground.pods(labels.ACCESSOR, child),
            lambda found: len(found) == 1 and "affinity" in found[0]["spec"],
        )
        await ground.place(pod, node)
        view = await ground.storage(name, lambda view: view["accessorStatus"]["phase"] == "Ready")
        assert view["accessorStatus"]["serviceName"] == child
        assert condition(view, "AccessorReady")["status"] == "True"

        reading = {"accessor": {"enabled": True, "writable": False}}
        assert (await ground.call("PUT", f"/gpu-storages/{name}", reading)).status == 200
        (pod,) = await ground.until(
            lambda: ground.pods(labels.ACCESSOR, child),
            lambda found: (
                len(found) == 1
                and "--allow-upload" not in found[0]["spec"]["containers"][0]["args"]
            ),
        )
        (mount,) = pod["spec"]["containers"][0]["volumeMounts"]
        assert mount["readOnly"]

        await ground.call("PUT", f"/gpu-storages/{name}", {"accessor": None})
        for resource in (DEPLOYMENTS, SERVICES, NETWORK_POLICIES):
            await ground.kube.gone(ground.path(resource, child))
        view = await ground.storage(name, lambda view: view["accessorStatus"]["phase"] == "")
        assert condition(view, "AccessorReady")["reason"] == "AccessorOff"
