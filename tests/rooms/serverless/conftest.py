from collections.abc import AsyncIterator
from itertools import count

import pytest_asyncio

from tests.rooms.bus.broker import Broker, Bus, bus
from tests.rooms.bus.fixtures import own, shared

__all__ = ["own", "shared"]

PREFIXES = count(1)


@pytest_asyncio.fixture
async def declared(shared: Broker) -> AsyncIterator[Bus]:
    async with bus(shared.url, f"s{next(PREFIXES)}") as made:
        yield made
