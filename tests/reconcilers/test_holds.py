"""Who holds a storage while it is asked for and given back at the same time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import ConflictError
from gpuruntime.meter import NullMeter
from gpuruntime.models.metadata import Key
from gpuruntime.models.storages import GPU_STORAGES
from gpuruntime.reconcilers.caches import Caches
from gpuruntime.reconcilers.holds import Holds
from gpuruntime.reconcilers.informers import Informers, Surroundings
from gpuruntime.reconcilers.mount_plan import Mountable
from gpuruntime.reconcilers.storage_writes import StorageWrites
from tests.faults import FaultyTransport, slow
from tests.inventory.cluster import INSTANCE, clock
from tests.reconcilers.world import OPTIONS, SETTLED, World

pytestmark = pytest.mark.looptime

STORAGE, UNIT = Key(INSTANCE, "models"), Key(INSTANCE, "unit")
MOUNTS = [{"name": "models", "mountPath": "/data"}]


def held_storage(world: World) -> None:
    """Ready, and the unit's, which names it no more."""
    body = {
        "apiVersion": GPU_STORAGES.api_version,
        "kind": "GPUStorage",
        "metadata": {"name": STORAGE.name},
        "spec": {"size": "1Gi"},
    }
    world.call("POST", GPU_STORAGES.path(namespace=INSTANCE), body)
    uid = world.add_unit(UNIT.name)["metadata"]["uid"]
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "VolumeReady",
        "message": "",
        "lastTransitionTime": "2025-01-01T00:00:00Z",
    }
    status = {"holder": {"name": UNIT.name, "uid": uid}, "conditions": [ready]}
    path = GPU_STORAGES.path(namespace=INSTANCE, name=STORAGE.name, subresource="status")
    world.call("PATCH", path, {"status": status})


@asynccontextmanager
async def holding(world: World) -> AsyncIterator[tuple[Holds, Caches, FaultyTransport]]:
    async with asyncio.TaskGroup() as tasks:
        transport = FaultyTransport(world.ledger, tasks=tasks)
        informers = Informers(
            Surroundings(
                client=Client(transport),
                options=OPTIONS,
                retention_seconds=60.0,
                term=lambda: SETTLED,
                now=clock,
                rng=Random(3),
                meter=NullMeter(),
            )
        )
        running = [tasks.create_task(each.run()) for each in informers.all()]
        for informer in informers.all():
            await informer.synced.wait()
        client, caches = Client(transport), informers.caches()
        writes = StorageWrites(client=client, storages=caches.storages)
        yield Holds(client, caches, writes), caches, transport
        for task in running:
            task.cancel()


async def test_a_storage_that_nobody_wants_any_more_is_given_back() -> None:
    world = World()
    held_storage(world)
    async with holding(world) as (holds, caches, _):
        storage = caches.storages.store.get(STORAGE)
        assert storage is not None
        freed = await holds.give_back(storage)
        assert freed is not None
        assert freed.status.holder is None


async def test_a_unit_that_comes_back_while_its_storage_is_given_back_asks_again() -> None:
    """No event would tell it that the storage stayed its own."""
    world = World()
    held_storage(world)
    async with holding(world) as (holds, caches, transport), asyncio.TaskGroup() as tasks:
        storage = caches.storages.store.get(STORAGE)
        assert storage is not None
        transport.on("GET", "/pods$", slow(before=1.0))
        giving = tasks.create_task(holds.give_back(storage))
        await asyncio.sleep(0.1)
        world.change(UNIT.name, storageMounts=MOUNTS)
        await asyncio.sleep(0.1)
        unit = caches.units.store.get(UNIT)
        assert unit is not None
        with pytest.raises(ConflictError, match="storage models is perhaps being given back"):
            await holds.take(unit)
        assert await giving is None
        assert await holds.take(unit) == Mountable()
