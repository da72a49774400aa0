from collections.abc import AsyncIterator, Iterator
from itertools import count

import pytest
import pytest_asyncio

from tests.bus.broker import Broker, Bus, broker, bus

PREFIXES = count(1)
# Short enough to wait for, long enough for a machine that is busy.
ACK_WAIT_SECONDS = 1.5


@pytest.fixture(scope="module")
def shared() -> Iterator[Broker]:
    with broker() as started:
        yield started


@pytest.fixture
def own() -> Iterator[Broker]:
    """For tests that kill it."""
    with broker() as started:
        yield started


@pytest_asyncio.fixture
async def declared(shared: Broker) -> AsyncIterator[Bus]:
    async with bus(shared.url, f"w{next(PREFIXES)}", ack_wait_seconds=ACK_WAIT_SECONDS) as made:
        yield made
