"""The holder of a storage while it is requested and given back at the same time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import OutcomeUnknownError
from gpuruntime.meter import NullMeter
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.claim_timing import REQUEST_LIFE_SECONDS
from gpuruntime.models.kinds.storages import GPU_STORAGES, GPUStorage
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.pods import PODS
from gpuruntime.models.kubernetes.volumes import VOLUME_CLAIMS
from gpuruntime.reconcilers.caches import Caches
from gpuruntime.reconcilers.informers import Informers, ReconcilerContext
from gpuruntime.reconcilers.storage.holders import StorageHolders
from gpuruntime.reconcilers.storage.mount_plan import Mountable
from gpuruntime.reconcilers.storage.observed import Holding
from gpuruntime.reconcilers.storage.writes import StorageWrites
from gpuruntime.reconcilers.unit.start_locks import StartLocks
from gpuruntime.reconcilers.unit.start_plan import Term
from tests.eventually import equals
from tests.faults import FaultyTransport, landing_late, slow
from tests.rooms.operations.cluster import INSTANCE, clock
from tests.rooms.reconcilers.world import OPTIONS, SETTLED, World, becomes, living, managing, until

pytestmark = pytest.mark.looptime

STORAGE, UNIT = Key(INSTANCE, "models"), Key(INSTANCE, "unit")
MOUNTS = [{"name": "models", "mountPath": "/data"}]


def add_storage(world: World) -> None:
    body = {
        "apiVersion": GPU_STORAGES.api_version,
        "kind": "GPUStorage",
        "metadata": {"name": STORAGE.name},
        "spec": {"size": "1Gi"},
    }
    world.call("POST", GPU_STORAGES.path(namespace=INSTANCE), body)


def held_storage(world: World) -> None:
    """Return a ready storage held by the unit, which no longer mounts it."""
    add_storage(world)
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
async def holding(
    world: World, starts: StartLocks, term: Term = SETTLED
) -> AsyncIterator[tuple[StorageHolders, Caches, FaultyTransport]]:
    async with asyncio.TaskGroup() as tasks:
        transport = FaultyTransport(world.ledger, tasks=tasks)
        informers = Informers(
            ReconcilerContext(
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
        holds = StorageHolders(
            client,
            caches,
            writes=StorageWrites(client=client, storages=caches.storages),
            starts=starts,
            term=lambda: term,
        )
        yield holds, caches, transport
        for task in running:
            task.cancel()


def one(caches: Caches) -> GPUStorage:
    storage = caches.storages.store.get(STORAGE)
    assert storage is not None
    return storage


def holder(caches: Caches) -> GPUUnit:
    unit = caches.units.store.get(UNIT)
    assert unit is not None
    return unit


async def give_back(holds: StorageHolders, caches: Caches) -> Holding:
    """Give the storage back if that is due, as its reconciler does."""
    storage = one(caches)
    async with holds.settled(storage) as holding:
        if holding is Holding.LET_GO:
            await holds.give_back(storage)
        return holding


async def test_a_storage_that_no_unit_mounts_is_given_back() -> None:
    world = World()
    held_storage(world)
    async with holding(world, StartLocks()) as (holds, caches, _):
        assert await give_back(holds, caches) is Holding.LET_GO
        assert one(caches).status.holder is None


async def test_a_suspended_unit_keeps_its_storage_although_nothing_of_it_exists() -> None:
    world = World()
    held_storage(world)
    world.change(UNIT.name, storageMounts=MOUNTS, suspended=True)
    async with holding(world, StartLocks()) as (holds, caches, _):
        assert await give_back(holds, caches) is Holding.WANTED
        assert one(caches).status.holder is not None


async def test_a_unit_that_mounts_a_storage_again_waits_until_it_is_given_back() -> None:
    world, starts = World(), StartLocks()
    held_storage(world)
    async with holding(world, starts) as (holds, caches, transport), asyncio.TaskGroup() as tasks:
        transport.on("GET", "/pods$", slow(before=1.0))
        giving = tasks.create_task(give_back(holds, caches))
        await asyncio.sleep(0.1)
        world.change(UNIT.name, storageMounts=MOUNTS)
        await asyncio.sleep(0.1)
        async with starts.turn(holder(caches)):
            assert giving.done()
            assert await holds.take(holder(caches)) == Mountable()
        assert await giving is Holding.WANTED


async def test_no_storage_is_given_back_while_its_holder_may_start() -> None:
    world, starts = World(), StartLocks()
    held_storage(world)
    async with holding(world, starts) as (holds, caches, _), asyncio.TaskGroup() as tasks:
        async with starts.turn(holder(caches)):
            giving = tasks.create_task(give_back(holds, caches))
            await asyncio.sleep(10)
            assert not giving.done()
        assert await giving is Holding.LET_GO


async def test_a_start_of_unknown_outcome_keeps_a_storage_for_a_requests_lifetime() -> None:
    world, starts = World(), StartLocks()
    held_storage(world)
    async with holding(world, starts) as (holds, caches, _):
        with pytest.raises(OutcomeUnknownError):
            async with starts.turn(holder(caches)):
                raise OutcomeUnknownError("the answer was lost")
        await asyncio.sleep(REQUEST_LIFE_SECONDS - 1)
        assert await give_back(holds, caches) is Holding.KEPT
        await asyncio.sleep(1)
        assert await give_back(holds, caches) is Holding.LET_GO


async def test_a_new_leader_gives_nothing_back_while_earlier_requests_may_land() -> None:
    world = World()
    held_storage(world)
    young = Term(age_seconds=REQUEST_LIFE_SECONDS - 1, is_clean=False)
    async with holding(world, StartLocks(), young) as (holds, caches, _):
        assert await give_back(holds, caches) is Holding.KEPT
    old = Term(age_seconds=REQUEST_LIFE_SECONDS, is_clean=False)
    async with holding(world, StartLocks(), old) as (holds, caches, _):
        assert await give_back(holds, caches) is Holding.LET_GO


async def test_the_late_start_of_a_dead_leader_mounts_no_storage_of_another_unit() -> None:
    """The second holder waits for every Pod that the first may still have started."""
    world = World()
    add_storage(world)
    async with living(world), managing(world) as first:
        await until(lambda: world.objects(VOLUME_CLAIMS, INSTANCE))
        bind(world)
        first.transport.on("POST", "/deployments", landing_late(20.0), times=99)
        world.add_unit("a", storageMounts=MOUNTS)
        await until(lambda: "POST" in str(first.transport.written()[-1:]))
        first.transport.cut()
        began_at = asyncio.get_running_loop().time()

        def term() -> Term:
            age = asyncio.get_running_loop().time() - began_at
            return Term(age_seconds=age, is_clean=False)

        world.change("a", storageMounts=[{"name": "missing", "mountPath": "/data"}])
        world.add_unit("b", storageMounts=MOUNTS)
        async with managing(world, term=term):
            await until(lambda: mounting(world), equals({"a"}))
            await asyncio.sleep(120)
            assert mounting(world) == {"a"}
            world.delete(GPU_UNITS, INSTANCE, "a")
            await becomes(world, "b", "Ready")
            assert mounting(world) == {"b"}


def mounting(world: World) -> set[str]:
    """Return the units whose Pods mount the volume."""
    return {
        pod["metadata"]["labels"][labels.UNIT]
        for pod in world.objects(PODS, INSTANCE)
        if "'claimName': 'models'" in str(pod["spec"]["volumes"])
    }


def bind(world: World) -> None:
    path = VOLUME_CLAIMS.path(namespace=INSTANCE, name=STORAGE.name, subresource="status")
    status = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
    world.call("PATCH", path, {"status": status})
