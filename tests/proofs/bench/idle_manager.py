"""A manager with 10,000 units at rest: `python -m tests.proofs.bench.idle_manager`.

It shares its process with an embedded API server without controllers: every unit has its children,
whose Deployment is told ready as soon as it is made. The processor time covers both together.
"""

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager

import attrs

from gpuruntime.embedded.apiserver.in_process_transport import InProcessTransport
from gpuruntime.embedded.apiserver.server import Server
from gpuruntime.kube.transport import Request, Response, Socket, StreamResponse, Transport
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from gpuruntime.roles.manager import manager_role
from gpuruntime.settings.schema import OperationsSettings, Settings
from gpuruntime.settings.values import Address
from gpuruntime.telemetry.logs import configure
from tests.eventually import eventually
from tests.proofs.bench.embedded_server import send
from tests.proofs.bench.listing import PLACE, empty_server, unit
from tests.proofs.bench.rows import Row

EXISTING_UNITS = 10_000
SETTLING_SECONDS = 280.0
QUIET_SECONDS = 3.0
WINDOW_SECONDS = 15.0
REPLICAS = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
STARTED = {"status": {"observedGeneration": 1, **dict.fromkeys(REPLICAS, 1)}}


class CountingTransport:
    """A transport that counts writes and lists, and notes when it was last used.

    It takes the part of the controllers: each Deployment that it creates becomes ready.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._inner: Transport = InProcessTransport(server)
        self.writes = 0
        self.lists = 0
        self._last_at = time.monotonic()

    async def request(self, request: Request) -> Response:
        self._last_at = time.monotonic()
        self.writes += request.method != "GET"
        self.lists += request.method == "GET" and "limit" in dict(request.query)
        response = await self._inner.request(request)
        if request.method == "POST" and request.path == DEPLOYMENTS.path(namespace=PLACE.instance):
            name = json.loads(response.body)["metadata"]["name"]
            send(self._server, "PATCH", f"{request.path}/{name}/status", STARTED)
        return response

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        return self._inner.stream(request)

    def socket(
        self, request: Request, protocol: str
    ) -> AbstractAsyncContextManager[Socket | Response]:
        return self._inner.socket(request, protocol)

    async def is_quiet(self) -> bool:
        return time.monotonic() - self._last_at > QUIET_SECONDS


@attrs.frozen(kw_only=True)
class IdleMeasurement:
    settling_seconds: float
    share: float
    writes: int
    lists: int


def server_with_units() -> Server:
    server = empty_server()
    for number in range(EXISTING_UNITS):
        path = GPU_UNITS.path(namespace=PLACE.instance)
        send(server, "POST", path, unit(f"unit-{number:05}", is_claimed=False))
    return server


def phase(server: Server, number: int) -> str:
    path = GPU_UNITS.path(namespace=PLACE.instance, name=f"unit-{number:05}")
    found = json.loads(server.handle(Request(method="GET", path=path)).body)
    return str(found["status"]["phase"])


async def measured() -> IdleMeasurement:
    server = server_with_units()
    transport = CountingTransport(server)
    listener = OperationsSettings(listen=Address("127.0.0.1", 0))
    manager = manager_role(Settings(operations=listener), transport=transport)
    async with asyncio.TaskGroup() as tasks:
        begun = time.monotonic()
        running = tasks.create_task(manager.run(), name="manager")
        await eventually(transport.is_quiet, within_seconds=SETTLING_SECONDS)
        settled = time.monotonic() - begun - QUIET_SECONDS
        assert transport.writes > EXISTING_UNITS, transport.writes
        assert phase(server, EXISTING_UNITS - 1) == "Ready", phase(server, EXISTING_UNITS - 1)
        writes, lists, processor = transport.writes, transport.lists, time.process_time()
        await asyncio.sleep(WINDOW_SECONDS)
        rest = IdleMeasurement(
            settling_seconds=settled,
            share=(time.process_time() - processor) / WINDOW_SECONDS,
            writes=transport.writes - writes,
            lists=transport.lists - lists,
        )
        running.cancel()
    return rest


def rows() -> Iterator[Row]:
    configure(level="warning", is_json=True)
    rest = asyncio.run(measured())
    title = f"manager, {EXISTING_UNITS:,} units"
    yield Row(name=f"{title}, time until idle", value=rest.settling_seconds, unit="s")
    yield Row(name=f"{title}, idle: share of a core", value=rest.share, unit="ratio", at_most=0.02)
    yield Row(name=f"{title}, idle: writes", value=rest.writes, unit="", at_most=0)
    yield Row(name=f"{title}, idle: lists", value=rest.lists, unit="", at_most=0)


if __name__ == "__main__":
    for row in rows():
        sys.stdout.write(f"{row}\n")
