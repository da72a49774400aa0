"""Functions are scaled while a manager runs their workers, and each change is audited at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from operator import not_

import attrs
import pytest

from gpuruntime.bus.messages import WorkerState
from gpuruntime.reconcilers.options import SidecarOptions
from tests.eventually import equals
from tests.options import configured
from tests.rooms.audit.continuous_audit import ContinuousAudit
from tests.rooms.reconcilers.world import OPTIONS, World, living, managing, phase_of, until
from tests.rooms.serverless.scaling.scaled import Scaled, scaled

pytestmark = pytest.mark.looptime

FUNCTIONS = attrs.evolve(
    OPTIONS, sidecar=configured(SidecarOptions, broker_url="nats://nats:4222")
)


@asynccontextmanager
async def working(*, stock: int = 6) -> AsyncIterator[tuple[Scaled, ContinuousAudit]]:
    world = World()
    onlooker = ContinuousAudit(world.server)
    async with living(world), managing(world, options=FUNCTIONS):
        world.add_pool(replicas=stock)
        await until(lambda: phase_of(world.pool()), equals("Ready"))
        async with scaled(world) as made:
            yield made, onlooker


async def serving(made: Scaled, *names: str) -> None:
    """Make exactly these workers ready; draining workers report that they have drained."""
    for _ in range(300):
        await made.drained(*made.draining)
        if made.workers == sorted(names):
            break
    assert made.workers == sorted(names)
    await until(lambda: all(phase_of(made.unit(name)) == "Ready" for name in names))
    for name in names:
        await made.tell(name, WorkerState.READY)


async def test_scaling_changing_suspending_and_deleting_a_function_breaks_no_rule() -> None:
    async with working() as (made, onlooker):
        made.declare(minAvailableCount=1, timeoutSeconds=30, idleTimeoutSeconds=0)
        await serving(made, "echo-w-1")
        await made.hold(4, echo=4)
        await serving(made, *(f"echo-w-{number}" for number in (1, 2, 3, 4)))
        made.change(serverless={"maxWorkers": 2})
        await made.hold(300, echo=4)
        assert len(made.workers) == 2
        made.change(image="v2")
        await made.hold(300, echo=4)
        assert {made.unit(name)["spec"]["image"] for name in made.workers} == {"v2"}
        made.change(suspended=True)
        await made.hold(300, echo=4)
        assert made.workers == []
        made.change(suspended=False)
        await made.hold(30, echo=1)
        assert len(made.workers) == 1
        made.delete("echo")
        await until(lambda: made.workers, not_)
        await asyncio.sleep(400)
        assert onlooker.looks > 100
        onlooker.assert_clean()


async def test_a_function_that_an_older_unit_declares_later_gets_new_workers() -> None:
    """The workers of the previous owner are drained and deleted."""
    async with working() as (made, onlooker):
        made.declare("elder", requestID="other", timeoutSeconds=30)
        await asyncio.sleep(2)
        made.declare("echo", minAvailableCount=1, timeoutSeconds=30)
        await serving(made, "echo-w-1")
        made.change("elder", serverless={"requestID": "echo", "minAvailableCount": 1})
        await made.hold(300, echo=1)
        assert made.workers == ["elder-w-1"]
        onlooker.assert_clean()


async def test_workers_of_a_unit_that_no_longer_declares_a_function_are_deleted() -> None:
    async with working() as (made, onlooker):
        made.declare(minAvailableCount=1, timeoutSeconds=30)
        await serving(made, "echo-w-1")
        made.change(serverless=None)
        await made.hold(300)
        assert made.workers == []
        onlooker.assert_clean()
