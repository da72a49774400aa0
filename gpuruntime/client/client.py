"""The client of one API.

    from gpuruntime.client import NewUnit, Options, connect

    async with connect(Options(server="https://gpu.example.com", token_file="token")) as client:
        made = await client.units.create(NewUnit(specName="g1.1", image="python:3.12"))

Requests that a server refuses for now, and those that are safe to send twice, are repeated with
growing pauses; what still fails raises a ClientError.
"""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from gpuruntime.client.messages import Reply, path_of
from gpuruntime.client.options import Options
from gpuruntime.client.resource import ResourceCalls
from gpuruntime.client.serverless import DeadLetters, Functions, Invocations
from gpuruntime.client.stock import Pools, Stock
from gpuruntime.client.storages import Storages
from gpuruntime.client.transport import Transport, connected
from gpuruntime.client.units import Units
from gpuruntime.models.views.operators import AuditView, FleetView, HealthView

DEFAULTS: Final = Options()


class Client:
    def __init__(self, transport: Transport) -> None:
        calls = ResourceCalls(transport)
        self.units = Units(calls)
        self.stock = Stock(calls)
        self.pools = Pools(calls)
        self.storages = Storages(calls)
        self.functions = Functions(calls)
        self.invocations = Invocations(calls)
        self.dead_letters = DeadLetters(calls)
        self._calls = calls

    async def health(self) -> Reply[HealthView]:
        """Its version as well; asked of no cluster, and answered to everybody."""
        return await self._calls.read(path_of("health"), HealthView)

    async def inventory(self) -> Reply[FleetView]:
        return await self._calls.read(path_of("operator", "inventory"), FleetView)

    async def audit(self) -> Reply[AuditView]:
        return await self._calls.read(path_of("operator", "audit"), AuditView)


@asynccontextmanager
async def connect(
    options: Options = DEFAULTS, *, rng: random.Random | None = None
) -> AsyncIterator[Client]:
    """While entered; raises ConfigurationError. The first call tells whether a server is there."""
    async with connected(options, rng=rng) as transport:
        yield Client(transport)
