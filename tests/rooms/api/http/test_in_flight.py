"""Places for requests: lasting requests leave some to the others."""

from contextlib import ExitStack

import pytest

from gpuruntime.api.errors import NotServingError
from gpuruntime.api.http.in_flight import InFlightLimit
from tests.rooms.api.service import service
from tests.rooms.operations.cluster import Cluster

pytestmark = pytest.mark.looptime

MOST = 4


def test_lasting_requests_take_at_most_half_of_the_places() -> None:
    in_flight = InFlightLimit(MOST)
    with ExitStack() as stack:
        for _ in range(MOST // 2):
            stack.enter_context(in_flight.place(lasts=True))
        with pytest.raises(NotServingError, match="2 lasting requests in flight"):
            stack.enter_context(in_flight.place(lasts=True))
        for _ in range(MOST // 2):
            stack.enter_context(in_flight.place())
        with pytest.raises(NotServingError, match="4 requests in flight"):
            stack.enter_context(in_flight.place())
    with in_flight.place(lasts=True):
        pass


async def test_routes_without_an_end_of_their_own_are_marked_as_lasting() -> None:
    async with service(Cluster()) as api:
        lasting = {route.path for route in api.routes if route.lasts}
    files = "/api/v1/gpu-storages/{name}/files"
    assert {path for path in lasting if not path.startswith(files)} == {
        "/api/v1/gpu-units/{name}/logs",
        "/api/v1/serverless/invocations",
    }
    assert any(path.startswith(files) for path in lasting)
