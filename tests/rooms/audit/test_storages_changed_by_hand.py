"""Storages are changed past the API while a manager runs, and each change is audited at once."""

import asyncio
from typing import Any

import pytest

from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds.storages import GPU_STORAGES, GPUStorage
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.volumes import JOBS
from tests.rooms.audit.test_walk_through import POOL, Site, unit, working
from tests.rooms.operations.cluster import INSTANCE

pytestmark = pytest.mark.looptime

FILLED = {
    "name": "data",
    "size": "1Gi",
    "prepare": {"fromImage": "filler:1", "command": ["fill"]},
}
MOUNTS: dict[str, object] = {"storageMounts": [{"name": "data", "mountPath": "/data"}]}
KEY = Key(INSTANCE, "data")


def is_ready(view: Any) -> bool:
    return bool(view["phase"] == "Ready")


async def stocked(site: Site) -> None:
    await site.caller.post("/operator/stockpools", POOL)
    await site.caller.until("/operator/jobs/pool-1", lambda job: job["ready"] == 3)


async def mounted(site: Site, name: str) -> None:
    await site.caller.post("/gpu-units", unit(name, **MOUNTS))
    await site.caller.until(f"/gpu-units/{name}", is_ready)


async def touch(site: Site) -> None:
    """Trigger an event of the storage that asks for nothing."""
    labels: JsonObject = {"metadata": {"labels": {"touched": "yes"}}}
    await site.client.patch(GPU_STORAGES, KEY, labels)
    await asyncio.sleep(30)


async def made_again(site: Site) -> None:
    """Create the storage as soon as its name is free."""
    status = 0
    while status != 201:
        status, _ = await site.caller.post("/gpu-storages", FILLED)
        await asyncio.sleep(0.01)


async def live(site: Site) -> GPUStorage:
    return await site.client.get(GPU_STORAGES, KEY)


async def test_a_prepare_whose_job_is_deleted_does_not_run_again() -> None:
    async with working() as site:
        await site.caller.post("/gpu-storages", FILLED)
        await site.caller.until("/gpu-storages/data", is_ready)
        await site.client.delete(JOBS, Key(INSTANCE, (await live(site)).status.prepare.jobName))
        await touch(site)
        assert not (await site.client.list_page(JOBS, namespace=INSTANCE)).items
        site.onlooker.assert_clean()


async def test_a_copy_begins_once_its_source_is_filled() -> None:
    copy = {"name": "copy", "size": "1Gi", "prepare": {"fromStorageName": "data"}}
    async with working() as site:
        for body in (FILLED, copy):
            await site.caller.post("/gpu-storages", body)
        await site.caller.until("/gpu-storages/copy", is_ready)
        site.onlooker.assert_clean()


async def test_a_mounted_storage_is_deleted_once_its_unit_is_gone() -> None:
    async with working() as site:
        await stocked(site)
        await site.caller.post("/gpu-storages", FILLED)
        await mounted(site, "one")
        await site.client.delete(GPU_STORAGES, KEY)
        await asyncio.sleep(120)
        assert (await live(site)).metadata.deletionTimestamp is not None
        await site.caller.delete("/gpu-units/one")
        await asyncio.sleep(120)
        await site.caller.post("/gpu-storages", FILLED)
        await mounted(site, "two")
        site.onlooker.assert_clean()


async def test_a_recreated_storage_takes_nothing_of_the_deleted_one() -> None:
    async with working() as site:
        await stocked(site)
        await site.caller.post("/gpu-storages", FILLED)
        await site.caller.until("/gpu-storages/data", is_ready)
        await site.client.delete(GPU_STORAGES, KEY)
        await made_again(site)
        await mounted(site, "one")
        await asyncio.sleep(310)
        site.onlooker.assert_clean()


async def test_the_oldest_waiting_unit_is_next() -> None:
    async with working() as site:
        await stocked(site)
        await site.caller.post("/gpu-storages", FILLED)
        await mounted(site, "one")
        for name, members in (("two", {}), ("three", MOUNTS)):
            await asyncio.sleep(2)
            await site.caller.post("/gpu-units", unit(name, **members))
        await asyncio.sleep(30)
        await site.caller.put("/gpu-units/two", MOUNTS)
        await asyncio.sleep(30)
        await site.caller.delete("/gpu-units/one")
        await site.caller.until("/gpu-storages/data", lambda held: held["mountedBy"] != ["one"])
        await site.caller.until("/gpu-storages/data", lambda held: held["mountedBy"])
        holder = (await live(site)).status.holder
        assert holder is not None
        assert holder.name == "two"
        site.onlooker.assert_clean()
