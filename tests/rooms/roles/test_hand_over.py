"""A released lease says that no write made under it, or before it, can still take effect."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import attrs
import pytest

from gpuruntime.embedded.apiserver.in_process_transport import InProcessTransport
from gpuruntime.models.kinds.claim_timing import REQUEST_LIFE_SECONDS
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.cluster import EVENTS, LEASES
from gpuruntime.roles.manager import manager_role
from gpuruntime.roles.process import Process
from gpuruntime.settings.schema import LeaderElectionSettings
from tests.eventually import equals
from tests.faults import ANSWER_LOST, FaultyTransport
from tests.rooms.operations.cluster import STOCK, SYSTEM, clock
from tests.rooms.reconcilers.world import World, until
from tests.rooms.roles.dev.test_dev import local_settings

pytestmark = pytest.mark.looptime

NAME = "gpuruntime-manager"
LEASE_SECONDS = 15


def holder(world: World) -> str:
    leases = world.objects(LEASES, SYSTEM)
    return "".join(lease["spec"].get("holderIdentity") or "" for lease in leases)


def add_lease(world: World, held_by: str) -> None:
    """Create the Lease of a leader that was killed just now."""
    spec = {"holderIdentity": held_by, "leaseDurationSeconds": LEASE_SECONDS}
    body = {
        "apiVersion": LEASES.api_version,
        "kind": "Lease",
        "metadata": {"name": NAME},
        "spec": spec,
    }
    world.call("POST", LEASES.path(namespace=SYSTEM), body)


@asynccontextmanager
async def leading(world: World) -> AsyncIterator[FaultyTransport]:
    """Run a manager that leads until the end of the block and then stops as by a signal."""
    settings = attrs.evolve(local_settings(), leaderElection=LeaderElectionSettings(enabled=True))
    async with asyncio.TaskGroup() as tasks:
        transport = FaultyTransport(InProcessTransport(world.server), tasks=tasks)
        process = Process(identity="second", now=clock, rng=Random(3))
        manager = manager_role(settings, transport=transport, process=process)
        running = tasks.create_task(manager.run())
        await until(lambda: holder(world), equals("second"))
        await asyncio.sleep(1)
        yield transport
        await manager.drain()
        running.cancel()


@pytest.mark.parametrize(
    ("led_seconds", "left"), [(1.0, "second"), (REQUEST_LIFE_SECONDS + 1.0, "")]
)
async def test_the_successor_of_a_killed_leader_keeps_the_lease_while_old_writes_may_land(
    led_seconds: float, left: str
) -> None:
    world = World()
    add_lease(world, "first")
    async with leading(world):
        await asyncio.sleep(led_seconds)
    assert holder(world) == left


async def test_a_leader_without_a_predecessor_releases_the_lease() -> None:
    world = World()
    async with leading(world):
        pass
    assert holder(world) == ""


async def test_a_new_leader_is_recorded_as_an_event_of_the_lease() -> None:
    world = World()
    async with leading(world):
        (lease,) = world.objects(LEASES, SYSTEM)
    (event,) = world.objects(EVENTS, SYSTEM)
    about = event["involvedObject"]
    assert (about["kind"], about["name"], about["uid"]) == (
        "Lease",
        NAME,
        lease["metadata"]["uid"],
    )
    assert (event["type"], event["reason"]) == ("Normal", "LeaderElection")
    assert event["message"] == "second became leader"


@pytest.mark.parametrize(("seconds", "left"), [(1.0, "second"), (REQUEST_LIFE_SECONDS + 1.0, "")])
async def test_a_leader_keeps_the_lease_while_its_own_write_may_land(
    seconds: float, left: str
) -> None:
    world = World()
    async with leading(world) as transport:
        transport.on("POST", GPU_UNITS.path(namespace=STOCK), ANSWER_LOST)
        world.add_pool()
        await until(lambda: world.objects(GPU_UNITS, STOCK))
        await asyncio.sleep(seconds)
    assert holder(world) == left
