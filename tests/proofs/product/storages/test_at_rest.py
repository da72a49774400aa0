"""Storages and units at rest, on both servers: a second reconcile writes nothing."""

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.storages import GPU_STORAGES
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.network import NETWORK_POLICIES, SERVICES
from gpuruntime.models.kubernetes.volumes import JOBS, VOLUME_CLAIMS
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from tests.proofs.product.conftest import Open
from tests.proofs.product.storages.storage_world import StorageWorld, is_ready

KINDS = (
    GPU_STORAGES,
    GPU_UNITS,
    VOLUME_CLAIMS,
    JOBS,
    DEPLOYMENTS,
    SERVICES,
    NETWORK_POLICIES,
)
FILL = {"fromImage": "busybox:1.36", "command": ["fill"]}


async def versions(world: StorageWorld) -> dict[str, str]:
    """Return the versions of this test's objects and of their children."""
    found = {}
    for resource in KINDS:
        listed = (await world.kube.get(resource.path(namespace=world.namespace))).ok()
        for each in listed["items"]:
            metadata = each["metadata"]
            if f"{world.prefix}-" in metadata["name"]:
                found[f"{resource.kind} {metadata['name']}"] = metadata["resourceVersion"]
    return found


async def create_all(world: StorageWorld) -> tuple[list[str], list[str]]:
    """Create storages and units in every state in which they can rest."""
    served = await world.ready("served", accessor={"enabled": True})
    holder = await world.mount("holder", served)
    node = (await world.unit(holder, is_ready))["nodeName"]
    child = f"storage-accessor-{served}"
    (pod,) = await world.until(
        lambda: world.pods(labels.ACCESSOR, child),
        lambda found: len(found) == 1 and "affinity" in found[0]["spec"],
    )
    await world.place(pod, node)
    await world.storage(served, lambda view: view["accessorStatus"]["phase"] == "Ready")
    failed = await world.make("failed", prepare=FILL)
    await world.end_job(failed, words="no space left on device")
    await world.storage(failed, lambda view: view["phase"] == "Failed")
    filling = await world.make("filling", prepare=FILL)
    await world.storage(filling, lambda view: view["prepareStatus"]["phase"] == "Running")
    copy = await world.make("copy", prepare={"fromStorageName": failed})
    await world.storage(copy, lambda view: view["reason"] == "SourceNotReady")
    pending = await world.make("pending", storageClassName=world.name("no-class"))
    await world.storage(pending, lambda view: "there is no class" in view["message"])
    spoilt = await world.write_storage("spoilt", {"size": "much"})
    await world.storage(spoilt, lambda view: view["reason"] == "InvalidSpec")
    waiters = [await world.mount(f"waits-for-{each}", each) for each in (served, failed)]
    for unit in waiters:
        await world.unit(unit, lambda view: view["reason"] == "StorageNotReady")
    return [served, failed, filling, copy, pending, spoilt], [holder, *waiters]


async def test_a_second_reconcile_changes_no_version(open_world: Open) -> None:
    async with open_world() as world:
        storages, units = await create_all(world)
        looked = {
            **{each: world.path(GPU_STORAGES, each) for each in storages},
            **{each: world.path(GPU_UNITS, each) for each in units},
        }
        for name, path in looked.items():
            await world.touch(path, f"for {name}")
        before = await versions(world)
        for name in storages:
            assert f"GPUStorage {name}" in before
        again = {}
        for name, path in looked.items():
            again[name] = await world.touch(path, f"for {name} again")
        after = await versions(world)
        kinds = {name: f"GPUStorage {name}" for name in storages} | {
            name: f"GPUUnit {name}" for name in units
        }
        assert after == {**before, **{kinds[name]: version for name, version in again.items()}}
