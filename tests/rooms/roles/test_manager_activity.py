"""A manager reads the gateway's replicas if it leads and a gateway is configured."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import attrs
import pytest

from gpuruntime.embedded.apiserver.in_process_transport import InProcessTransport
from gpuruntime.models.kubernetes.pods import PODS
from gpuruntime.reconcilers.activity.reader import Fetch
from gpuruntime.roles.manager import manager_role
from gpuruntime.roles.process import Process
from gpuruntime.settings.gateway import GatewaySettings
from gpuruntime.settings.schema import LeaderElectionSettings
from tests.faults import FaultyTransport
from tests.rooms.operations.cluster import SYSTEM, clock
from tests.rooms.reconcilers.world import World
from tests.rooms.roles.dev.test_dev import local_settings
from tests.rooms.roles.test_hand_over import add_lease, holder

pytestmark = pytest.mark.looptime

GATEWAY = GatewaySettings(publicURL="https://*.units.example.com")
REPORT = b'{"boot": "b", "since": 5.0, "now": 6.0}'


@asynccontextmanager
async def fetching() -> AsyncIterator[Fetch]:
    async def fetch(_: str) -> bytes:
        return REPORT

    yield fetch


@pytest.mark.parametrize(
    ("gateway", "is_led_elsewhere", "seconds", "lists"),
    [
        pytest.param(GATEWAY, False, 100, 4, id="a leader with a gateway"),
        pytest.param(GATEWAY, True, 10, 0, id="a standby"),
        pytest.param(GatewaySettings(), False, 100, 0, id="a leader without a gateway"),
    ],
)
async def test_replicas_are_listed_every_interval_by_a_leader_with_a_gateway(
    gateway: GatewaySettings, is_led_elsewhere: bool, seconds: float, lists: int
) -> None:
    world = World()
    if is_led_elsewhere:
        add_lease(world, "first")
    settings = attrs.evolve(
        local_settings(),
        leaderElection=LeaderElectionSettings(enabled=True),
        gateway=gateway,
    )
    async with asyncio.TaskGroup() as tasks:
        transport = FaultyTransport(InProcessTransport(world.server), tasks=tasks)
        process = Process(identity="own", now=clock, rng=Random(3), fetching=fetching)
        manager = manager_role(settings, transport=transport, process=process)
        running = tasks.create_task(manager.run())
        await asyncio.sleep(seconds)
        assert holder(world) == ("first" if is_led_elsewhere else "own")
        await manager.drain()
        running.cancel()
    pods = PODS.path(namespace=SYSTEM)
    assert sum(request.path == pods for request in transport.sent) == lists
