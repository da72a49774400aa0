"""The embedded cluster that each test of use cases gets for itself."""

import pytest

from tests.rooms.operations.cluster import Cluster


@pytest.fixture
async def cluster() -> Cluster:
    """Empty; made inside the loop, whose time is the cluster's."""
    return Cluster()
