"""Stock units are made by name, side by side, and what became of each is known."""

import asyncio
import json
from typing import Any

import pytest

from gpuruntime.kube.errors import KubeError, OutcomeUnknownError, UnreachableError
from gpuruntime.models.encoding import codec
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.pools import StockPool
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.reconcilers.options import PodDefaults
from gpuruntime.reconcilers.stock.seeding import Seeder
from gpuruntime.reconcilers.unit.start_plan import REQUEST_LIFE_SECONDS
from tests.faults import ANSWER_LOST, UNREACHABLE, Fault, refused
from tests.rooms.operations.cluster import STOCK, Replica, replica
from tests.rooms.reconcilers.world import World

pytestmark = pytest.mark.looptime


def seeder_of(api: Replica) -> Seeder:
    return Seeder(api.context.client, api.stock, PodDefaults(cpu="2", memory="4Gi"))


def add_pool(world: World, **spec: Any) -> StockPool:
    return codec.decode(json.dumps(world.add_pool(**spec)).encode(), StockPool)


async def test_a_stock_unit_spells_out_the_envelope_and_names_its_pool() -> None:
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


async def test_what_an_earlier_try_made_counts_as_made() -> None:
    world = World()
    async with replica(world) as api:
        pool = add_pool(world)
        assert await seeder_of(api).make(pool, [1]) == ""
        assert await seeder_of(api).make(pool, [1, 2]) == ""
    assert world.stock_names == ["p-1", "p-2"]


async def test_a_name_that_somebody_elses_unit_bears_is_told_and_left_alone() -> None:
    world = World()
    async with replica(world) as api:
        pool = add_pool(world)
        held = world.add_stock_unit("p-1")
        told = await seeder_of(api).make(pool, [1, 2])
    assert told.startswith("stock runtime-stock/p-1 is not of this pool")
    assert world.stock("p-1") == held
    assert world.stock_names == ["p-1", "p-2"]


async def test_what_was_made_is_seen_at_once() -> None:
    world = World()
    async with replica(world) as api:
        api.transport.hold_watches()
        await seeder_of(api).make(add_pool(world), [1, 2])
        assert len(api.stock.store) == 2


@pytest.mark.parametrize("status", [400, 403, 422])
async def test_a_refusal_is_told_and_stops_none_of_the_others(status: int) -> None:
    world = World()
    async with replica(world) as api:
        api.transport.on("POST", "gpuunits", refused(status, "Refused"))
        assert "no" in await seeder_of(api).make(add_pool(world), [1, 2, 3])
    assert len(world.stock_names) == 2


@pytest.mark.parametrize(
    ("fault", "error"),
    [(UNREACHABLE, UnreachableError), (refused(503, "ServiceUnavailable"), KubeError)],
)
async def test_what_a_retry_may_mend_is_raised_after_the_others_are_done(
    fault: Fault, error: type[Exception]
) -> None:
    world = World()
    async with replica(world) as api:
        pool, seeder = add_pool(world), seeder_of(api)
        api.transport.on("POST", "gpuunits", fault)
        with pytest.raises(error):
            await seeder.make(pool, [1, 2, 3])
        assert len(world.stock_names) == 2


async def test_after_a_lost_answer_the_pool_is_unsettled_for_a_requests_life() -> None:
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


async def test_a_pool_that_is_gone_is_forgotten() -> None:
    world = World()
    async with replica(world) as api:
        pool, seeder = add_pool(world), seeder_of(api)
        api.transport.on("POST", "gpuunits", ANSWER_LOST)
        with pytest.raises(OutcomeUnknownError):
            await seeder.make(pool, [1])
        seeder.forget(pool.metadata.key)
        assert seeder.unsettled_seconds(pool) == 0.0
