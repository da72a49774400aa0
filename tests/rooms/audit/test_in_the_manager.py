"""The audit by the leading manager, and audits of managers that are disturbed."""

import asyncio

import pytest
from structlog.testing import capture_logs

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.reconcilers.unit.start_plan import Term
from tests.eventually import equals
from tests.faults import ANSWER_LOST
from tests.rooms.audit.continuous_audit import ContinuousAudit
from tests.rooms.operations.cluster import INSTANCE, STOCK, replica
from tests.rooms.reconcilers.world import World, living, managing, phase_of, quiet, until

pytestmark = pytest.mark.looptime

DISTURBED_WRITES = range(1, 19, 4)


async def seeded(world: World, *, replicas: int = 3, refill: str = "Always") -> None:
    world.add_pool(replicas=replicas, refill=refill)
    await until(lambda: phase_of(world.pool()), equals("Ready"))
    await quiet(world)


async def test_half_a_claim_sets_the_gauge_and_is_logged_once() -> None:
    world = World()
    with capture_logs() as lines:
        async with living(world), managing(world) as manager:
            await seeded(world)
            await asyncio.sleep(61)
            assert "audit_breaches" in manager.meter.gauges
            path = GPU_UNITS.path(namespace=STOCK, name="p-1")
            marks = {labels.OPERATION_ID: "one"}
            world.call("PATCH", path, {"metadata": {"annotations": marks}})
            await asyncio.sleep(400)
    told = [each["rule"] for each in lines if each["event"] == "invariant broken"]
    assert told == ["claim-whole"]


async def test_a_rival_a_lost_claim_and_deletions_by_hand_break_no_rule() -> None:
    world = World()
    onlooker = ContinuousAudit(world.server)
    async with living(world), managing(world), replica(world) as api:
        await seeded(world)
        assert await api.create("one", name="one") == "201 one"
        envelope = {name: world.stock("p-2")["spec"][name] for name in ("cpu", "memory", "gpu")}
        marks = world.provenance("p-2", operation="one")
        world.add_unit("rival", annotations=marks, **envelope)
        world.claim_by_hand("p-3", "nobody", operation="three")
        await until(lambda: len(world.units), equals(2))
        assert await api.create("two", name="two") in ("201 two", "insufficient_capacity")
        await asyncio.sleep(200)
        for name in ("one", "rival"):
            world.delete(GPU_UNITS, INSTANCE, name)
        await asyncio.sleep(310)
        onlooker.assert_clean()


@pytest.mark.parametrize("number", DISTURBED_WRITES)
async def test_a_manager_that_dies_after_a_lost_answer_breaks_no_rule(number: int) -> None:
    """The next leader knows nothing of the lost write, as after a crash."""
    world = World()
    onlooker = ContinuousAudit(world.server)
    began = asyncio.get_running_loop().time()

    def term() -> Term:
        return Term(age_seconds=asyncio.get_running_loop().time() - began, is_clean=False)

    async with living(world), replica(world) as api:
        lose = managing(world, prepare=lambda wire: wire.on_write(number, ANSWER_LOST))
        async with lose:
            world.add_pool(replicas=2, refill="Never")
            await asyncio.sleep(2)
            await api.create("one", name="one")
            await asyncio.sleep(number / 10)
        began = asyncio.get_running_loop().time()
        async with managing(world, term=term):
            await asyncio.sleep(70)
            assert (await api.create("one", name="one")).endswith("one")
            await api.create("two", name="two")
            await asyncio.sleep(120)
            world.delete(GPU_UNITS, INSTANCE, "one")
            await asyncio.sleep(200)
        onlooker.assert_clean()
