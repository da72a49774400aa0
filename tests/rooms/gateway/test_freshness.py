"""The mirror's age grows while the watch or the probe is silent."""

import asyncio
from contextlib import AbstractAsyncContextManager
from random import Random

import pytest

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.embedded.apiserver.in_process_transport import InProcessTransport
from gpuruntime.gateway.freshness import PROBE_SECONDS, WINDOW_SECONDS, Freshness
from gpuruntime.informer.informer import Informer
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import UnreachableError
from gpuruntime.kube.transport import Request, Response, Socket, StreamResponse
from gpuruntime.models.kinds.units import GPU_UNITS
from tests.rooms.operations.cluster import Cluster

pytestmark = pytest.mark.looptime

LIST = (
    b'{"kind":"GPUUnitList","apiVersion":"runtime.lokiwager.io/v1alpha1",'
    b'"metadata":{"resourceVersion":"7"},"items":[]}'
)


class Server:
    """A transport that answers lists, or does not."""

    def __init__(self) -> None:
        self.is_away = False
        self.requests: list[Request] = []

    async def request(self, request: Request) -> Response:
        self.requests.append(request)
        if self.is_away:
            raise UnreachableError("the server is away")
        return Response(status=200, headers={"Content-Type": "application/json"}, body=LIST)

    def stream(self, _: Request) -> AbstractAsyncContextManager[StreamResponse]:
        raise NotImplementedError

    def socket(self, _: Request, __: str) -> AbstractAsyncContextManager[Socket | Response]:
        raise NotImplementedError


async def test_the_age_is_that_of_the_older_answer() -> None:
    server, silence = Server(), [0.0]
    freshness = Freshness(Client(server), "lab", lambda: silence[0])
    assert freshness.age_seconds() == float("inf")
    async with asyncio.TaskGroup() as tasks:
        run = tasks.create_task(freshness.run())
        await asyncio.sleep(1)
        assert freshness.age_seconds() == 1
        silence[0] = 30.0
        assert freshness.age_seconds() == 30
        silence[0] = 0.0
        await asyncio.sleep(100)
        assert freshness.age_seconds() <= PROBE_SECONDS
        began_at, server.is_away = loop_time(), True
        await asyncio.sleep(60)
        assert freshness.age_seconds() >= 60
        assert loop_time() - began_at == 60
        server.is_away = False
        await asyncio.sleep(PROBE_SECONDS)
        assert freshness.age_seconds() <= PROBE_SECONDS
        run.cancel()
    assert {request.method for request in server.requests} == {"GET"}
    assert {dict(request.query).get("limit") for request in server.requests} == {"1"}


async def test_a_quiet_watch_shows_each_half_minute_that_it_lives() -> None:
    units = Informer(
        Client(InProcessTransport(Cluster().server)),
        GPU_UNITS,
        rng=Random(5),
        window_seconds=WINDOW_SECONDS,
    )
    async with asyncio.TaskGroup() as tasks:
        run = tasks.create_task(units.run())
        await units.synced.wait()
        for _ in range(300):
            await asyncio.sleep(1)
            assert units.silent_seconds <= 30
        run.cancel()
