"""The client of one API.

    from gpuruntime.client import NewUnit, Options, connect

    async with connect(Options(server="https://gpu.example.com", token_file="token")) as client:
        made = await client.units.create(NewUnit(specName="g1.1", image="python:3.12"))

The client retries, with growing pauses, a request that the server refuses for now or that is safe
to send twice. It raises a ClientError for a request that still fails.
"""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from gpuruntime.client.messages import Page, Reply, path_of
from gpuruntime.client.options import Options
from gpuruntime.client.reach import Reach
from gpuruntime.client.resource import PAGE_ITEMS, ResourceCalls, every
from gpuruntime.client.secrets import Secrets
from gpuruntime.client.serverless import DeadLetters, Functions, Invocations
from gpuruntime.client.stock import Pools, Stock
from gpuruntime.client.storages import Storages
from gpuruntime.client.transport import Transport, connected
from gpuruntime.client.units import Units
from gpuruntime.models.views.flavours import FlavourView
from gpuruntime.models.views.operators import AuditView, FleetView, HealthView

DEFAULTS: Final = Options()


class Client:
    def __init__(self, transport: Transport) -> None:
        calls = ResourceCalls(transport)
        self.units = Units(calls)
        self.stock = Stock(calls)
        self.pools = Pools(calls)
        self.storages = Storages(calls)
        self.secrets = Secrets(calls)
        self.functions = Functions(calls)
        self.invocations = Invocations(calls)
        self.dead_letters = DeadLetters(calls)
        self._calls = calls
        reach = Reach(self.units, transport)
        self.exec = reach.exec
        self.forward = reach.forward
        self.ssh = reach.ssh
        self.ssh_ticket = reach.ssh_ticket

    async def health(self) -> Reply[HealthView]:
        """Return the API's health and version; every caller gets it, even without the cluster."""
        return await self._calls.read(path_of("health"), HealthView)

    async def inventory(self) -> Reply[FleetView]:
        return await self._calls.read(path_of("operator", "inventory"), FleetView)

    def flavours(self, *, limit: int = PAGE_ITEMS) -> AsyncIterator[FlavourView]:
        """Yield the units that can be asked for, by specName; every caller gets them."""

        async def fetch(cursor: str) -> Page[FlavourView]:
            query = {"limit": limit, "cursor": cursor}
            return await self._calls.page(path_of("flavours"), FlavourView, query)

        return every(fetch)

    async def audit(self) -> Reply[AuditView]:
        return await self._calls.read(path_of("operator", "audit"), AuditView)


@asynccontextmanager
async def connect(
    options: Options = DEFAULTS, *, rng: random.Random | None = None
) -> AsyncIterator[Client]:
    """Yield a client; raise ConfigurationError if the options are wrong.

    It connects with the first call, which shows whether a server is there.
    """
    async with connected(options, rng=rng) as transport:
        yield Client(transport)
