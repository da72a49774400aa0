"""An embedded cluster for each test of use cases."""

import pytest

from tests.rooms.operations.cluster import Cluster


@pytest.fixture
async def cluster() -> Cluster:
    """Return an empty cluster, created inside the loop, whose time it follows."""
    return Cluster()
