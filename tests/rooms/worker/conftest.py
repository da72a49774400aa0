from collections.abc import AsyncIterator
from itertools import count

import pytest_asyncio

from tests.rooms.bus.broker import Broker, Bus, bus
from tests.rooms.bus.fixtures import own, shared

__all__ = ["own", "shared"]

PREFIXES = count(1)
# Short enough to wait for, and long enough for a busy machine.
ACK_WAIT_SECONDS = 1.5


@pytest_asyncio.fixture
async def declared(shared: Broker) -> AsyncIterator[Bus]:
    async with bus(shared.url, f"w{next(PREFIXES)}", ack_wait_seconds=ACK_WAIT_SECONDS) as made:
        yield made
