from collections.abc import AsyncIterator, Iterator
from itertools import count

import pytest
import pytest_asyncio

from tests.bus.broker import Broker, Bus, broker, bus

PREFIXES = count(1)


@pytest.fixture(scope="module")
def shared() -> Iterator[Broker]:
    """For tests that leave it running: each has a prefix of its own."""
    with broker() as started:
        yield started


@pytest.fixture
def own() -> Iterator[Broker]:
    """For tests that kill it."""
    with broker() as started:
        yield started


@pytest_asyncio.fixture
async def declared(shared: Broker) -> AsyncIterator[Bus]:
    async with bus(shared.url, f"t{next(PREFIXES)}") as made:
        yield made
