"""Prepares of storages, on both servers: each runs once, stays failed, and can be recovered."""

from typing import Any

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.storages import GPU_STORAGES
from gpuruntime.models.kubernetes.network import NETWORK_POLICIES, SERVICES
from gpuruntime.models.kubernetes.volumes import JOBS
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from tests.eventually import eventually
from tests.proofs.product.conftest import Open
from tests.proofs.product.storages.storage_world import Document, StorageWorld, condition, is_ready

FILL: Document = {"fromImage": "busybox:1.36", "command": ["sh", "-c"], "args": ["fill /storage"]}


def has_failed(view: Any) -> bool:
    return bool(view["reason"] == "PrepareFailed")


def copying(source: str) -> Document:
    return {"prepare": {"fromStorageName": source}}


def volumes_of(pod: Document) -> dict[str, Document]:
    return {
        volume["persistentVolumeClaim"]["claimName"]: volume["persistentVolumeClaim"]
        for volume in pod["spec"]["volumes"]
        if "persistentVolumeClaim" in volume
    }


def mounts_of(pod: Document) -> dict[str, bool]:
    """Return by path whether each mount is read-only."""
    mounts = pod["spec"]["containers"][0]["volumeMounts"]
    return {each["mountPath"]: each.get("readOnly", False) for each in mounts}


async def patch(world: StorageWorld, name: str, spec: Document) -> None:
    """Patch the spec as kubectl would; the API does not change a prepare."""
    (await world.kube.patch(world.path(GPU_STORAGES, name), {"spec": spec})).ok()


async def recover(world: StorageWorld, name: str) -> None:
    asked = await world.call("POST", f"/gpu-storages/{name}/recover")
    assert asked.status == 200, asked


async def events_of(world: StorageWorld, name: str) -> set[tuple[str, str]]:
    """Return the Events about a storage, once all of them are sent."""
    path = f"/api/v1/namespaces/{world.namespace}/events"
    query = f"involvedObject.kind=GPUStorage,involvedObject.name={name}"

    async def events() -> set[tuple[str, str]]:
        found = (await world.kube.get(path, fieldSelector=query)).ok()["items"]
        return {(each["type"], each["reason"]) for each in found}

    return await eventually(
        events,
        lambda found: "VolumeReady" in {reason for _, reason in found},
        within_seconds=30,
        poll_seconds=0.1,
    )


async def test_an_image_fills_a_storage_once(open_world: Open) -> None:
    async with open_world() as world:
        name = await world.make("models", prepare=FILL)
        pod = await world.job_pod(name)
        container = pod["spec"]["containers"][0]
        assert (container["image"], container["command"], container["args"]) == (
            FILL["fromImage"],
            FILL["command"],
            FILL["args"],
        )
        assert (list(volumes_of(pod)), mounts_of(pod)) == ([name], {"/storage": False})
        view = await world.storage(name, lambda view: view["prepareStatus"]["phase"] == "Running")
        assert (view["phase"], view["reason"]) == ("Pending", "PrepareProgressing")
        await world.end_job(name)
        view = await world.storage(name, is_ready)
        assert view["prepareStatus"]["phase"] == "Succeeded"
        nothing = await world.call("POST", f"/gpu-storages/{name}/recover")
        assert (nothing.status, nothing.code) == (409, "nothing_to_recover")


async def test_a_deleted_job_is_not_run_again(open_world: Open) -> None:
    async with open_world() as world:
        name = await world.make("models", prepare=FILL)
        await world.end_job(name)
        await world.storage(name, is_ready)
        (job,) = await world.jobs(name)
        path = world.path(JOBS, job["metadata"]["name"])
        (await world.kube.delete(path, {"propagationPolicy": "Background"})).ok()
        await world.kube.gone(path)
        await world.touch(world.path(GPU_STORAGES, name), "after the collection")
        assert await world.jobs(name) == []
        assert is_ready(await world.storage(name, lambda _: True))


async def test_a_failed_prepare_keeps_its_message_until_it_is_recovered(
    open_world: Open,
) -> None:
    async with open_world() as world:
        name = await world.make("models", prepare=FILL)
        pod = (await world.job_pod(name))["metadata"]["name"]
        await world.end_job(name, words="no space left on device")
        view = await world.storage(name, has_failed)
        words = f"{pod}/prepare: Error: exit code 3: no space left on device"
        assert view["message"] == f"{words}; mend what it needs and ask to recover"
        (job,) = await world.jobs(name)
        path = world.path(JOBS, job["metadata"]["name"])
        (await world.kube.delete(path, {"propagationPolicy": "Background"})).ok()
        await world.kube.gone(path)
        await world.touch(world.path(GPU_STORAGES, name), "after the failure")
        assert await world.jobs(name) == []
        view = await world.storage(name, has_failed)
        assert (view["phase"], view["message"].split(";")[0]) == ("Failed", words)

        await recover(world, name)
        await world.end_job(name, words="still none")
        view = await world.storage(
            name, lambda view: has_failed(view) and "still none" in view["message"]
        )
        assert view["prepareStatus"]["recoveryPhase"] == "Failed"
        await recover(world, name)
        await world.end_job(name)
        view = await world.storage(name, is_ready)
        assert view["prepareStatus"]["recoveryPhase"] == "Succeeded"
        names = {each["metadata"]["name"] for each in await world.jobs(name)}
        assert len(names) == 2
        assert job["metadata"]["name"] not in names
        assert await events_of(world, name) == {
            ("Warning", "PrepareFailed"),
            ("Normal", "PrepareRecovering"),
            ("Normal", "VolumeReady"),
        }


async def test_a_job_that_is_removed_before_its_end_fails_the_prepare(open_world: Open) -> None:
    async with open_world() as world:
        name = await world.make("models", prepare=FILL)
        await world.storage(name, lambda view: view["prepareStatus"]["phase"] == "Running")
        (job,) = await world.jobs(name)
        path = world.path(JOBS, job["metadata"]["name"])
        (await world.kube.delete(path, {"propagationPolicy": "Background"})).ok()
        view = await world.storage(name, has_failed)
        assert "was removed before it ended" in view["message"]
        await recover(world, name)
        await world.end_job(name)
        await world.storage(name, is_ready)


async def test_a_recovery_waits_until_the_pod_of_the_previous_run_has_ended(
    open_world: Open,
) -> None:
    async with open_world() as world:
        name = await world.make("models", prepare=FILL)
        pod = await world.job_pod(name)
        (job,) = await world.jobs(name)
        path = world.path(JOBS, job["metadata"]["name"])
        (await world.kube.delete(path, {"propagationPolicy": "Orphan"})).ok()
        await world.storage(name, has_failed)
        await recover(world, name)
        left = pod["metadata"]["name"]
        await world.storage(name, lambda view: f"waits until Pod {left} " in view["message"])
        assert await world.jobs(name) == []

        await world.end_job(name)
        await world.until(lambda: world.jobs(name), bool)
        await world.end_job(name)
        view = await world.storage(name, is_ready)
        assert view["prepareStatus"]["recoveryPhase"] == "Succeeded"


async def test_a_prepare_waits_until_the_file_server_is_gone(open_world: Open) -> None:
    async with open_world() as world:
        name = await world.ready("models", accessor={"enabled": True, "writable": True})
        (server,) = await world.until(
            lambda: world.pods(labels.ACCESSOR, f"storage-accessor-{name}"), bool
        )
        async with world.unreachable(server):
            await patch(world, name, {"prepare": FILL})
            waits = f"waits until Pod {server['metadata']['name']} "
            await world.storage(name, lambda view: waits in view["message"])
            assert await world.jobs(name) == []
        await world.end_job(name)
        await world.storage(name, is_ready)


async def test_the_reason_of_a_pod_that_cannot_start_is_reported(open_world: Open) -> None:
    async with open_world() as world:
        name = await world.make("models", prepare=FILL)
        pod = await world.job_pod(name)
        waiting = {"reason": "ErrImagePull", "message": "no such image"}
        await world.tell(pod, {"waiting": waiting})
        view = await world.storage(name, lambda view: "ErrImagePull" in view["message"])
        assert (view["phase"], view["reason"]) == ("Pending", "PrepareProgressing")
        await world.end_job(name)
        view = await world.storage(name, is_ready)
        assert "ErrImagePull" not in condition(view, "Prepared")["message"]


async def test_a_storage_that_a_unit_waits_for_can_be_recovered(open_world: Open) -> None:
    async with open_world() as world:
        name = await world.make("models", prepare=FILL)
        unit = await world.mount("unit", name)
        await world.end_job(name, words="oops")
        waiting = await world.unit(unit, lambda view: "failed" in view["message"])
        assert (waiting["phase"], waiting["reason"]) == ("Progressing", "StorageNotReady")
        assert "exit code 3: oops" in waiting["message"]
        assert condition(waiting, "StorageReady")["reason"] == "StorageFailed"
        await recover(world, name)
        await world.end_job(name)
        await world.unit(unit, is_ready)


async def test_a_copy_reads_its_source_once_the_source_is_ready(open_world: Open) -> None:
    async with open_world() as world:
        source = await world.make("source", prepare=FILL)
        name = await world.make("copy", **copying(source))
        waiting = await world.storage(name, lambda view: view["reason"] == "SourceNotReady")
        assert waiting["message"] == f"storage {source} to copy from is not ready"
        assert await world.jobs(name) == []
        await world.end_job(source)
        pod = await world.job_pod(name)
        assert volumes_of(pod) == {
            name: {"claimName": name},
            source: {"claimName": source, "readOnly": True},
        }
        assert mounts_of(pod) == {"/storage": False, "/source": True}
        await world.end_job(name)
        await world.storage(name, is_ready)


async def test_a_source_stays_until_its_copy_has_ended(open_world: Open) -> None:
    async with open_world() as world:
        source = await world.ready("source")
        name = await world.make("copy", **copying(source))
        await world.job_pod(name)
        refused = await world.call("DELETE", f"/gpu-storages/{source}")
        assert (refused.status, refused.code) == (409, "storage_in_use")
        assert f"is being copied to {name}" in refused.message

        path = world.path(GPU_STORAGES, source)
        (await world.kube.delete(path)).ok()
        await world.touch(world.path(GPU_STORAGES, source), "while it is copied")
        assert (await world.kube.get(path)).status == 200
        await world.end_job(name)
        await world.storage(name, is_ready)
        await world.kube.gone(path)


async def test_a_copy_runs_on_the_node_of_the_unit_that_holds_its_source(open_world: Open) -> None:
    async with open_world() as world:
        source = await world.ready("source")
        unit = await world.mount("unit", source)
        node = (await world.unit(unit, is_ready))["nodeName"]
        name = await world.make("copy", **copying(source))
        affinity = (await world.job_pod(name))["spec"]["affinity"]["nodeAffinity"]
        required = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
        (term,) = required["nodeSelectorTerms"]
        assert term["matchFields"] == [
            {"key": "metadata.name", "operator": "In", "values": [node]}
        ]


async def made_again(world: StorageWorld, name: str, **members: Any) -> None:
    """Create another storage of this name, once the name is free."""
    await world.kube.gone(world.path(GPU_STORAGES, name))
    short = name.removeprefix(f"{world.prefix}-")
    await world.ready(short, **members)


async def test_a_copy_takes_nothing_from_a_tenant_that_reused_the_name(
    open_world: Open,
) -> None:
    async with open_world() as world:
        source = await world.make("weights", tenant="a", prepare=FILL)
        name = await world.make("copy", tenant="a", **copying(source))
        await world.storage(name, lambda view: view["reason"] == "SourceNotReady")
        assert (await world.call("DELETE", f"/gpu-storages/{source}")).status == 204
        await made_again(world, source, tenant="b")
        view = await world.storage(name, lambda view: "another tenant" in view["message"])
        assert view["message"] == (
            f"storage {source} to copy from is another tenant's: "
            "delete this one, and make it from what is there"
        )
        await world.touch(world.path(GPU_STORAGES, name), "once the name is another's")
        assert await world.jobs(name) == []
        assert (await world.call("DELETE", f"/gpu-storages/{source}")).status == 204


async def test_a_copy_of_a_missing_source_takes_nothing_from_another_tenant(
    open_world: Open,
) -> None:
    async with open_world() as world:
        source = world.name("weights")
        name = await world.make("copy", tenant="a", **copying(source))
        await world.storage(name, lambda view: "does not exist" in view["message"])
        await world.ready("weights", tenant="b")
        view = await world.storage(name, lambda view: "tenant" in view["message"])
        assert f"storage {source} to copy from is another tenant's" in view["message"]
        assert await world.jobs(name) == []
        assert (await world.call("DELETE", f"/gpu-storages/{source}")).status == 204
        await made_again(world, source, tenant="a")
        await world.end_job(name)
        await world.storage(name, is_ready)


async def test_copies_that_would_wait_for_each_other_are_refused(open_world: Open) -> None:
    async with open_world() as world:
        first = await world.make("first", **copying(world.name("second")))
        second = {"name": world.name("second"), "size": "1Gi", **copying(first)}
        refused = await world.call("POST", "/gpu-storages", second)
        assert (refused.status, refused.fields) == (400, {"prepare.fromStorageName"})
        itself = {"name": world.name("itself"), "size": "1Gi", **copying(world.name("itself"))}
        refused = await world.call("POST", "/gpu-storages", itself)
        assert (refused.status, refused.fields) == (400, {"prepare.fromStorageName"})

        by_hand = await world.write_storage("second", copying(first))
        for name in (first, by_hand):
            view = await world.storage(name, lambda view: view["reason"] == "InvalidSpec")
            assert "closes a circle of copies" in view["message"]


async def test_a_finished_copy_closes_no_cycle(open_world: Open) -> None:
    async with open_world() as world:
        source = await world.ready("source")
        name = await world.make("copy", **copying(source))
        await world.end_job(name)
        await world.storage(name, is_ready)
        assert (await world.call("DELETE", f"/gpu-storages/{source}")).status == 204
        await world.kube.gone(world.path(GPU_STORAGES, source))
        await world.make("source", **copying(name))
        await world.end_job(source)
        await world.storage(source, is_ready)
        await world.touch(world.path(GPU_STORAGES, name), "once its source is its copy")
        assert is_ready(await world.storage(name, lambda _: True))


async def test_a_prepare_that_is_added_later_never_runs_while_a_unit_mounts(
    open_world: Open,
) -> None:
    async with open_world() as world:
        name = await world.ready("models")
        unit = await world.mount("unit", name)
        await world.unit(unit, is_ready)
        await patch(world, name, {"prepare": FILL})
        view = await world.storage(name, lambda view: view["phase"] == "Pending")
        assert view["message"].startswith(f"waits until unit {unit} gives the storage back")
        assert await world.jobs(name) == []
        assert (await world.unit(unit, lambda _: True))["readyReplicas"] == 1
        assert (await world.call("DELETE", f"/gpu-units/{unit}")).status == 204
        await world.end_job(name)
        await world.storage(name, is_ready)


async def test_no_file_server_serves_a_volume_that_is_not_filled(open_world: Open) -> None:
    async with open_world() as world:
        name = await world.ready("models", accessor={"enabled": True})
        child = f"storage-accessor-{name}"
        served = [world.path(each, child) for each in (DEPLOYMENTS, SERVICES, NETWORK_POLICIES)]
        for path in served:
            (await world.kube.get(path)).ok()
        await patch(world, name, copying(world.name("later")))
        for path in served:
            await world.kube.gone(path)
        view = await world.storage(name, lambda view: view["reason"] == "SourceNotReady")
        assert view["accessorStatus"]["phase"] == "Pending"
