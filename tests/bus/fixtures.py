"""Real brokers for the suites that need one; whose conftest imports them has them."""

from collections.abc import Iterator

import pytest

from tests.bus.broker import Broker, broker


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
