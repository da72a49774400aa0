"""Readings of the gateway's replicas: which Pods are read, and what becomes of each answer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from gpuruntime.embedded.apiserver.in_process_transport import InProcessTransport
from gpuruntime.kube.client import Client
from gpuruntime.models.kubernetes.pods import PODS
from gpuruntime.reconcilers.activity.reader import (
    MOST_BYTES,
    ActivityOptions,
    ActivityReader,
    Fetch,
    fetching_over_http,
)
from tests.faults import FaultyTransport, refused
from tests.rooms.informer.harness import CountingMeter
from tests.rooms.operations.cluster import SYSTEM, Cluster

LABELS = {"app.kubernetes.io/name": "gpuruntime-gateway"}
REPORT = b'{"boot": "b", "since": 5.0, "now": 65.0, "units": {"u": {"last": 35.0, "open": 2}}}'


class Gateways:
    """Answers by the address of the Pod; a Pod without one does not answer."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.transport = FaultyTransport(InProcessTransport(self.cluster.server))
        self.meter = CountingMeter()
        self.answers: dict[str, bytes | Exception] = {}
        self.asked: list[str] = []
        self.changes: list[bool | None] = []
        self.reader = ActivityReader(
            client=Client(self.transport),
            options=ActivityOptions(namespace=SYSTEM, every_seconds=30.0, fetching=self._fetching),
            living=lambda: {"u"},
            on_ready_change=lambda: self.changes.append(self.reader.is_gateway_ready),
            meter=self.meter,
        )

    def add(self, name: str, address: str, *, phase: str = "Running", **labels: str) -> None:
        body = {
            "metadata": {"name": name, "labels": labels or LABELS},
            "spec": {"nodeName": "n", "containers": [{"name": "gateway", "image": "i"}]},
        }
        self.cluster.call("POST", PODS.path(namespace=SYSTEM), body)
        path = PODS.path(namespace=SYSTEM, name=name, subresource="status")
        self.cluster.call("PATCH", path, {"status": {"phase": phase, "podIP": address}})
        host = f"[{address}]" if ":" in address else address
        self.answers[f"http://{host}:8082/activity"] = REPORT

    def set_ready(self, name: str, *, is_ready: bool) -> None:
        condition = {"type": "Ready", "status": str(is_ready)}
        path = PODS.path(namespace=SYSTEM, name=name, subresource="status")
        self.cluster.call("PATCH", path, {"status": {"conditions": [condition]}})

    @property
    def outcomes(self) -> dict[str, float]:
        prefix = "activity_readings_total "
        sums = self.meter.sums.items()
        return {name.removeprefix(prefix): n for name, n in sums if name.startswith(prefix)}

    @asynccontextmanager
    async def _fetching(self) -> AsyncIterator[Fetch]:
        async def fetch(url: str) -> bytes:
            self.asked.append(url)
            answer = self.answers[url]
            if isinstance(answer, Exception):
                raise answer
            return answer

        yield fetch

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.reader.run())
        try:
            yield
        finally:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task


looptime = pytest.mark.looptime


@looptime
async def test_every_running_replica_is_read_every_interval_terminating_ones_too() -> None:
    gateways = Gateways()
    gateways.add("a", "10.0.0.1")
    gateways.add("b", "fd00::1")
    gateways.add("pending", "", phase="Pending")
    gateways.add("evicted", "10.0.0.9", phase="Failed")
    gateways.add("another", "10.0.0.8", **{"app.kubernetes.io/name": "gpuruntime-api"})
    path = PODS.path(namespace=SYSTEM, name="b")
    gateways.cluster.call("DELETE", path, {"gracePeriodSeconds": 300})
    async with gateways.reading():
        await asyncio.sleep(70)
    urls = {"http://10.0.0.1:8082/activity", "http://[fd00::1]:8082/activity"}
    assert set(gateways.asked) == urls
    assert gateways.outcomes == {"read": 6}
    assert gateways.transport.written() == []


@looptime
async def test_idle_times_are_those_of_the_last_round() -> None:
    gateways = Gateways()
    gateways.add("a", "10.0.0.1")
    assert gateways.reader.idle_seconds("u") == 0
    async with gateways.reading():
        await asyncio.sleep(59)
        assert gateways.reader.idle_seconds("u") == pytest.approx(30)
        assert gateways.reader.known_seconds == pytest.approx(30)


@looptime
@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        pytest.param(ConnectionError("refused"), "unreachable", id="no connection"),
        pytest.param(TimeoutError(), "unreachable", id="no answer in time"),
        pytest.param(b"<html>", "malformed", id="no JSON"),
        pytest.param(b'{"boot": "b"}', "malformed", id="members missing"),
    ],
)
async def test_a_replica_that_is_not_read_makes_all_units_active(
    answer: bytes | Exception, outcome: str
) -> None:
    gateways = Gateways()
    gateways.add("a", "10.0.0.1")
    async with gateways.reading():
        await asyncio.sleep(100)
        assert gateways.reader.idle_seconds("u") > 0
        gateways.answers["http://10.0.0.1:8082/activity"] = answer
        await asyncio.sleep(30)
        assert gateways.reader.idle_seconds("u") == 0
    assert gateways.outcomes[outcome] == 1


@looptime
async def test_a_refused_list_makes_all_units_active_and_is_repeated() -> None:
    gateways = Gateways()
    gateways.add("a", "10.0.0.1")
    gateways.transport.on("GET", PODS.path(namespace=SYSTEM), refused(403, "Forbidden"), times=2)
    async with gateways.reading():
        await asyncio.sleep(119)
    assert gateways.outcomes == {"not_listed": 2, "read": 2}
    assert gateways.reader.known_seconds == pytest.approx(30)


@looptime
async def test_the_gateway_is_ready_with_a_ready_replica_until_two_lists_have_none() -> None:
    gateways = Gateways()
    gateways.add("a", "10.0.0.1")
    gateways.add("b", "10.0.0.2")
    gateways.set_ready("a", is_ready=True)
    async with gateways.reading():
        await asyncio.sleep(1)
        assert gateways.changes == [True]
        gateways.set_ready("a", is_ready=False)
        await asyncio.sleep(30)
        gateways.set_ready("b", is_ready=True)
        await asyncio.sleep(30)
        gateways.set_ready("b", is_ready=False)
        await asyncio.sleep(30)
        assert gateways.changes == [True]
        gateways.transport.on("GET", PODS.path(namespace=SYSTEM), refused(503, "Unavailable"))
        await asyncio.sleep(30)
        assert gateways.changes == [True]
        await asyncio.sleep(30)
        assert gateways.changes == [True, False]


async def answered(handler: Any) -> bytes:
    """Return what a Fetch gets from a server with this handler."""
    app = web.Application()
    app.router.add_get("/activity", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        async with fetching_over_http() as fetch:
            return await fetch(f"http://127.0.0.1:{port}/activity")
    finally:
        await runner.cleanup()


async def test_a_body_is_read_over_http() -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(body=REPORT)

    assert await answered(handler) == REPORT


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({"status": 503}, id="another status"),
        pytest.param({"status": 302, "headers": {"Location": "/activity"}}, id="a redirect"),
        pytest.param({"body": bytes(MOST_BYTES + 1)}, id="too many bytes"),
    ],
)
async def test_any_other_answer_is_an_error(answer: dict[str, Any]) -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(**answer)

    with pytest.raises(ConnectionError):
        await answered(handler)


async def test_a_replica_that_does_not_listen_is_an_error() -> None:
    async with fetching_over_http() as fetch:
        with pytest.raises(ConnectionError):
            await fetch("http://127.0.0.1:1/activity")
