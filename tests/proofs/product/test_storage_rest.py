"""Storages and units where they rest, on both servers: looked at again, nothing is written."""

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.storages import GPU_STORAGES
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.network import NETWORK_POLICIES, SERVICES
from gpuruntime.models.kubernetes.volumes import JOBS, VOLUME_CLAIMS
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from tests.proofs.product.conftest import Open
from tests.proofs.product.ground import Ground, is_ready

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


async def versions(ground: Ground) -> dict[str, str]:
    """Of what this test has made, and of what was made for it."""
    found = {}
    for resource in KINDS:
        listed = (await ground.kube.get(resource.path(namespace=ground.namespace))).ok()
        for each in listed["items"]:
            metadata = each["metadata"]
            if f"{ground.prefix}-" in metadata["name"]:
                found[f"{resource.kind} {metadata['name']}"] = metadata["resourceVersion"]
    return found


async def furnish(ground: Ground) -> tuple[list[str], list[str]]:
    """Storages and units of every way to rest."""
    served = await ground.ready("served", accessor={"enabled": True})
    holder = await ground.mount("holder", served)
    node = (await ground.unit(holder, is_ready))["nodeName"]
    child = f"storage-accessor-{served}"
    (pod,) = await ground.until(
        lambda: ground.pods(labels.ACCESSOR, child),
        lambda found: len(found) == 1 and "affinity" in found[0]["spec"],
    )
    await ground.place(pod, node)
    await ground.storage(served, lambda view: view["accessorStatus"]["phase"] == "Ready")
    failed = await ground.make("failed", prepare=FILL)
    await ground.end_job(failed, words="no space left on device")
    await ground.storage(failed, lambda view: view["phase"] == "Failed")
    filling = await ground.make("filling", prepare=FILL)
    await ground.storage(filling, lambda view: view["prepareStatus"]["phase"] == "Running")
    copy = await ground.make("copy", prepare={"fromStorageName": failed})
    await ground.storage(copy, lambda view: view["reason"] == "SourceNotReady")
    pending = await ground.make("pending", storageClassName=ground.name("no-class"))
    await ground.storage(pending, lambda view: "there is no class" in view["message"])
    spoilt = await ground.write_storage("spoilt", {"size": "much"})
    await ground.storage(spoilt, lambda view: view["reason"] == "InvalidSpec")
    waiters = [await ground.mount(f"waits-for-{each}", each) for each in (served, failed)]
    for unit in waiters:
        await ground.unit(unit, lambda view: view["reason"] == "StorageNotReady")
    return [served, failed, filling, copy, pending, spoilt], [holder, *waiters]


async def test_a_second_look_writes_nothing(on: Open) -> None:
    async with on() as ground:
        storages, units = await furnish(ground)
        looked = {
            **{each: ground.path(GPU_STORAGES, each) for each in storages},
            **{each: ground.path(GPU_UNITS, each) for each in units},
        }
        for name, path in looked.items():
            await ground.touch(path, f"for {name}")
        before = await versions(ground)
        for name in storages:
            assert f"GPUStorage {name}" in before
        again = {}
        for name, path in looked.items():
            again[name] = await ground.touch(path, f"for {name} again")
        after = await versions(ground)
        kinds = {name: f"GPUStorage {name}" for name in storages} | {
            name: f"GPUUnit {name}" for name in units
        }
        assert after == {**before, **{kinds[name]: version for name, version in again.items()}}
