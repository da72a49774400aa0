"""Stock units are created by name and concurrently, and the outcome of each is known."""

import asyncio
import json
from typing import Any

import pytest

from gpuruntime.kube.errors import KubeError, OutcomeUnknownError, UnreachableError
from gpuruntime.models.encoding import codec
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.claim_timing import REQUEST_LIFE_SECONDS
from gpuruntime.models.kinds.pools import StockPool
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.reconcilers.options import PodDefaults
from gpuruntime.reconcilers.stock.seeding import Seeder
from tests.faults import ANSWER_LOST, UNREACHABLE, Fault, refused
from tests.options import configured
from tests.rooms.operations.cluster import STOCK, Replica, replica
from tests.rooms.reconcilers.world import World

pytestmark = pytest.mark.looptime


def seeder_of(api: Replica) -> Seeder:
    return Seeder(api.context.client, api.stock, configured(PodDefaults, cpu="2", memory="4Gi"))


def add_pool(world: World, **spec: Any) -> StockPool:
    return codec.decode(json.dumps(world.add_pool(**spec)).encode(), StockPool)


async def test_a_stock_unit_has_the_whole_envelope_and_names_its_pool() -> None:
    world = World()
    async with replica(world) as api:
        pool = add_pool(world, image="x", gpuProduct="H100", template={"command": ["a"]})
        assert await seeder_of(api).make(pool, [7]) == ""
    (made,) = world.objects(GPU_UNITS, STOCK)
    assert made["metadata"]["name"] == "p-7"
    assert made["metadata"]["labels"][labels.POOL] == "p"
    assert made["metadata"]["annotations"] == {labels.POOL_UID: pool.metadata.uid}
    assert "ownerReferences" not in made["metadata"]
    spec = {name: made["spec"][name] for name in ("cpu", "memory", "gpu", "gpuProduct", "image")}
    assert spec == {"cpu": "2", "memory": "4Gi", "gpu": 1, "gpuProduct": "H100", "image": "x"}
    assert made["spec"]["template"]["command"] == ["a"]


async def test_a_unit_created_by_an_earlier_attempt_counts() -> None:
    world = World()
    async with replica(world) as api:
        pool = add_pool(world)
        assert await seeder_of(api).make(pool, [1]) == ""
        assert await seeder_of(api).make(pool, [1, 2]) == ""
    assert world.stock_names == ["p-1", "p-2"]


async def test_another_owners_unit_of_the_name_is_reported_and_left_alone() -> None:
    world = World()
    async with replica(world) as api:
        pool = add_pool(world)
        held = world.add_stock_unit("p-1")
        told = await seeder_of(api).make(pool, [1, 2])
    assert told.startswith("stock runtime-stock/p-1 is not of this pool")
    assert world.stock("p-1") == held
    assert world.stock_names == ["p-1", "p-2"]


async def test_a_created_unit_is_cached_at_once() -> None:
    world = World()
    async with replica(world) as api:
        api.transport.hold_watches()
        await seeder_of(api).make(add_pool(world), [1, 2])
        assert len(api.stock.store) == 2


@pytest.mark.parametrize("status", [400, 403, 422])
async def test_a_refusal_is_returned_and_does_not_stop_the_others(status: int) -> None:
    world = World()
    async with replica(world) as api:
        api.transport.on("POST", "gpuunits", refused(status, "Refused"))
        assert "no" in await seeder_of(api).make(add_pool(world), [1, 2, 3])
    assert len(world.stock_names) == 2


@pytest.mark.parametrize(
    ("fault", "error"),
    [(UNREACHABLE, UnreachableError), (refused(503, "ServiceUnavailable"), KubeError)],
    ids=["unreachable", "unavailable"],
)
async def test_an_error_worth_a_retry_is_raised_after_the_others_have_finished(
    fault: Fault, error: type[Exception]
) -> None:
    world = World()
    async with replica(world) as api:
        pool, seeder = add_pool(world), seeder_of(api)
        api.transport.on("POST", "gpuunits", fault)
        with pytest.raises(error):
            await seeder.make(pool, [1, 2, 3])
        assert len(world.stock_names) == 2


async def test_after_a_lost_answer_the_pool_is_unsettled_for_a_requests_lifetime() -> None:
    world = World()
    async with replica(world) as api:
        pool, seeder = add_pool(world), seeder_of(api)
        assert seeder.unsettled_seconds(pool) == 0.0
        api.transport.on("POST", "gpuunits", ANSWER_LOST)
        with pytest.raises(OutcomeUnknownError):
            await seeder.make(pool, [1])
        assert seeder.unsettled_seconds(pool) == REQUEST_LIFE_SECONDS
        await asyncio.sleep(REQUEST_LIFE_SECONDS - 1)
        assert seeder.unsettled_seconds(pool) == pytest.approx(1.0)
        await asyncio.sleep(1)
        assert seeder.unsettled_seconds(pool) == 0.0


async def test_the_seeder_forgets_a_deleted_pool() -> None:
    world = World()
    async with replica(world) as api:
        pool, seeder = add_pool(world), seeder_of(api)
        api.transport.on("POST", "gpuunits", ANSWER_LOST)
        with pytest.raises(OutcomeUnknownError):
            await seeder.make(pool, [1])
        seeder.forget(pool.metadata.key)
        assert seeder.unsettled_seconds(pool) == 0.0
