"""A write on the cluster ends open connections in time, also in bad weather (virtual time)."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Final

import attrs
import pytest

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.embedded.apiserver.in_process_transport import InProcessTransport
from gpuruntime.gateway.connections import Connection, ConnectionKind, End
from gpuruntime.gateway.gate import Visitor
from gpuruntime.kube.transport import Request, StreamResponse, Transport
from gpuruntime.models.encoding import codec
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit
from gpuruntime.models.requests.tickets import Use
from gpuruntime.roles.gateway import GatewayParts, gateway_role
from gpuruntime.roles.process import Process
from gpuruntime.settings.gateway import GatewaySettings, WhenUnknown
from gpuruntime.settings.values import Address
from gpuruntime.tickets.tokens import Claims
from tests.faults import DROPPED, UNREACHABLE, FaultyTransport, slow
from tests.rooms.operations.cluster import INSTANCE, Cluster, clock
from tests.rooms.roles.dev.test_dev import local_settings

pytestmark = pytest.mark.looptime

PROMISED_SECONDS: Final = 60.0
UNITS: Final = GPU_UNITS.path(namespace=INSTANCE)
DEMO: Final = GPU_UNITS.path(namespace=INSTANCE, name="demo")
KINDS: Final = {
    ConnectionKind.HTTP: Use.HTTP,
    ConnectionKind.WEBSOCKET: Use.HTTP,
    ConnectionKind.EXEC: Use.EXEC,
    ConnectionKind.FORWARD: Use.FORWARD,
    ConnectionKind.SSH: Use.SSH,
}
FOR_EVER: Final = 10**9


class Network:
    """A transport whose open streams may be lost: they bring nothing more, and do not end."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._lost = asyncio.Event()
        self.request, self.socket = inner.request, inner.socket

    def lose_streams(self) -> None:
        """Lose the streams that are open now; later ones are sound."""
        self._lost.set()
        self._lost = asyncio.Event()

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamResponse]:
        lost = self._lost
        async with self._inner.stream(request) as opened:
            yield _LosableStream(opened, lost)


class _LosableStream:
    def __init__(self, inner: StreamResponse, lost: asyncio.Event) -> None:
        self._inner = inner
        self._lost = lost
        self.status, self.headers = inner.status, inner.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner.chunks():
            if self._lost.is_set():
                break
            yield chunk
        if self._lost.is_set():
            await asyncio.Event().wait()


@attrs.define
class Scene:
    """A gateway role on an embedded cluster, with a connection of each kind to two units."""

    cluster: Cluster
    transport: FaultyTransport
    network: Network
    parts: GatewayParts
    opened: list[Connection]
    others: list[Connection]

    def ends(self) -> set[End | None]:
        return {each.ended.result() if each.ended.done() else None for each in self.opened}

    async def seconds_to_the_end(self, most: float) -> float:
        """Return after how long all connections to the unit have to end, or infinity."""
        began_at = loop_time()
        await asyncio.wait([each.ended for each in self.opened], timeout=most)
        return loop_time() - began_at if None not in self.ends() else float("inf")

    def go_silent(self) -> None:
        """Answer no request for units, and end no watch of them."""
        self.transport.hold_watches("gpuunits")
        self.transport.on("GET", "gpuunits", UNREACHABLE, times=FOR_EVER)

    def come_back(self) -> None:
        self.transport.clear()
        self.transport.release_watches()


def add_unit(cluster: Cluster, name: str = "demo") -> GPUUnit:
    body = {
        "apiVersion": GPU_UNITS.api_version,
        "kind": "GPUUnit",
        "metadata": {"name": name},
        "spec": {"specName": "g1.1", "memory": "1Gi", "gpu": 1},
    }
    made = cluster.call("POST", UNITS, body)
    return codec.decode(codec.encode(made), GPUUnit)


def visitor(unit: GPUUnit, use: Use) -> Visitor:
    issued_at = int(clock().timestamp())
    claims = Claims(
        jti=f"{use}",
        uid=unit.metadata.uid,
        unit=unit.metadata.name,
        gen=0,
        use=(use,),
        iat=issued_at,
        exp=issued_at + int(timedelta(days=2).total_seconds()),
        sub="tester",
    )
    return Visitor(claims=claims, unit=unit, use=use)


@asynccontextmanager
async def scene(
    folder: Path, when_unknown: WhenUnknown = WhenUnknown.KEEP
) -> AsyncIterator[Scene]:
    keys = folder / "tickets.yaml"
    secret = base64.b64encode(b"1" * 32).decode()
    keys.write_text(f"keys: [{{id: k1, secret: {secret}}}]\n")
    given = GatewaySettings(
        listen=Address("127.0.0.1", 0),
        activityListen=Address("127.0.0.1", 0),
        publicURL="https://*.units.example.com",
        keyFile=str(keys),
        whenUnknown=when_unknown,
    )
    cluster = Cluster()
    demo, other = add_unit(cluster), add_unit(cluster, "other")
    async with asyncio.TaskGroup() as tasks:
        network = Network(InProcessTransport(cluster.server))
        transport = FaultyTransport(network, tasks=tasks)
        process = Process(now=clock, rng=Random(3))
        role = gateway_role(
            attrs.evolve(local_settings(), gateway=given), transport=transport, process=process
        )
        running = tasks.create_task(role.run(), name="gateway")
        parts = await role.opened()
        await parts.serving()
        # The first window and the first probe are over, so that ages are those of every day.
        await asyncio.sleep(47)
        with ExitStack() as opened:
            of_demo, of_other = (
                [
                    opened.enter_context(parts.connections.open(visitor(each, use), kind))
                    for kind, use in KINDS.items()
                ]
                for each in (demo, other)
            )
            yield Scene(cluster, transport, network, parts, of_demo, of_other)
        await role.drain()
        running.cancel()


def delete(cluster: Cluster) -> None:
    cluster.call("DELETE", DEMO)


def create_again(cluster: Cluster) -> None:
    cluster.call("DELETE", DEMO)
    add_unit(cluster)


def suspend(cluster: Cluster) -> None:
    cluster.call("PATCH", DEMO, {"spec": {"suspended": True}})


def revoke(cluster: Cluster) -> None:
    cluster.call("PATCH", DEMO, {"spec": {"access": {"generation": 1}}})


REVOCATIONS: Final[dict[str, tuple[Callable[[Cluster], None], End]]] = {
    "deleted": (delete, End.UNIT_GONE),
    "created again": (create_again, End.UNIT_GONE),
    "suspended": (suspend, End.SUSPENDED),
    "its tickets revoked": (revoke, End.REVOKED),
}


def stay_calm(_: Scene) -> None:
    return


def lose_watches(at: Scene) -> None:
    """No byte of the open watches arrives any more, and no end of them."""
    at.network.lose_streams()


def lose_watches_and_lists(at: Scene) -> None:
    at.network.lose_streams()
    at.transport.on("GET", "gpuunits", UNREACHABLE)
    at.transport.on("GET", "gpuunits", DROPPED)


def lose_watches_and_answer_late(at: Scene) -> None:
    at.network.lose_streams()
    at.transport.on("GET", "gpuunits", slow(before=2.0, after=2.0), times=FOR_EVER)


WEATHER: Final[dict[str, Callable[[Scene], None]]] = {
    "calm": stay_calm,
    "open watches are lost": lose_watches,
    "open watches are lost, and lists fail": lose_watches_and_lists,
    "open watches are lost, and lists are slow": lose_watches_and_answer_late,
}


@pytest.mark.parametrize("break_it", WEATHER.values(), ids=WEATHER)
@pytest.mark.parametrize(("change", "reason"), REVOCATIONS.values(), ids=REVOCATIONS)
async def test_open_connections_of_every_kind_end_within_a_minute(
    tmp_path: Path,
    change: Callable[[Cluster], None],
    reason: End,
    break_it: Callable[[Scene], None],
) -> None:
    async with scene(tmp_path) as at:
        break_it(at)
        change(at.cluster)
        taken = await at.seconds_to_the_end(300)
        assert taken <= (1.0 if break_it is stay_calm else PROMISED_SECONDS)
        assert at.ends() == {reason}
        assert not any(each.ended.done() for each in at.others)


async def test_open_connections_outlive_a_silent_cluster_and_end_once_it_answers(
    tmp_path: Path,
) -> None:
    async with scene(tmp_path) as at:
        at.go_silent()
        revoke(at.cluster)
        await asyncio.sleep(600)
        assert at.parts.facts["watchAge"] > 500  # type: ignore[operator]  # a fact is any object
        assert at.ends() == {None}
        at.come_back()
        assert await at.seconds_to_the_end(300) <= PROMISED_SECONDS
        assert at.ends() == {End.REVOKED}
        await asyncio.sleep(60)
        assert not any(each.ended.done() for each in at.others)


async def test_a_silent_cluster_ends_every_connection_within_a_minute_if_so_configured(
    tmp_path: Path,
) -> None:
    async with scene(tmp_path, WhenUnknown.END) as at:
        await asyncio.sleep(300)
        assert at.ends() == {None}
        at.go_silent()
        assert await at.seconds_to_the_end(300) <= PROMISED_SECONDS
        assert at.ends() == {End.UNKNOWN}
        assert {each.ended.result() for each in at.others} == {End.UNKNOWN}


async def test_a_short_silence_ends_nothing(tmp_path: Path) -> None:
    async with scene(tmp_path, WhenUnknown.END) as at:
        for _ in range(4):
            at.go_silent()
            await asyncio.sleep(20)
            at.come_back()
            await asyncio.sleep(60)
        assert at.ends() == {None}
