"""Brokers for test suites; a conftest imports these fixtures to have them."""

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from enum import StrEnum
from itertools import count

import pytest
import pytest_asyncio

from tests.proofs.broker_conformance.clients import PlainLink, opener
from tests.proofs.broker_conformance.server import Server
from tests.rooms.bus.broker import Broker, Bus, broker, bus

PREFIXES = count(1)
NOWHERE = "nats://in-process"


class Kind(StrEnum):
    """The brokers on which each test runs: both must pass the same tests."""

    REAL = "real"
    IN_PROCESS = "in-process"


@pytest.fixture(scope="module")
def shared() -> Iterator[Broker]:
    """Provide a shared broker to tests that leave it running; each has its own prefix."""
    with broker() as started:
        yield started


@pytest.fixture
def own() -> Iterator[Broker]:
    """Provide a broker of its own to a test that kills it."""
    with broker() as started:
        yield started


@pytest_asyncio.fixture(params=tuple(Kind))
async def declared(request: pytest.FixtureRequest) -> AsyncIterator[Bus]:
    prefix = f"t{next(PREFIXES)}"
    if request.param is Kind.REAL:
        async with bus(request.getfixturevalue("shared").url, prefix) as made:
            yield made
        return
    server = Server(now=lambda: datetime.now(UTC))
    async with bus(NOWHERE, prefix, opener=opener(server, PlainLink, "test")) as made:
        yield made
