"""Open connections are bounded, and end with their ticket, their unit or a revocation."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime, timedelta
from typing import Any

import attrs
import pytest

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.gateway.connections import (
    Connection,
    ConnectionKind,
    ConnectionOptions,
    Connections,
    End,
)
from gpuruntime.gateway.errors import Code, GatewayError
from gpuruntime.gateway.gate import Visitor
from gpuruntime.meter import NullMeter
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.requests.tickets import Use
from tests.rooms.gateway.visitors import NOW, claims, unit

pytestmark = pytest.mark.looptime

OPTIONS = ConnectionOptions(
    all=8, per_unit=4, per_ticket=3, exec_per_unit=2, grace_seconds=5.0, ends_unknown=False
)
DEMO = unit("demo", generation=3)


def clock() -> Callable[[], datetime]:
    """Return a wall clock that moves with the loop's."""
    began_at = loop_time()
    return lambda: NOW + timedelta(seconds=loop_time() - began_at)


def connections_of(*, age: Callable[[], float] = lambda: 0.0, **options: Any) -> Connections:
    return Connections(
        attrs.evolve(OPTIONS, **options), now=clock(), watch_age=age, meter=NullMeter()
    )


def visitor(of: GPUUnit = DEMO, **changed: Any) -> Visitor:
    return Visitor(claims=claims(of, **changed), unit=of, use=Use.HTTP, port=8080)


async def ended_within(connection: Connection, seconds: float) -> End | None:
    done, _ = await asyncio.wait([connection.ended], timeout=seconds)
    return connection.ended.result() if done else None


AGAIN = attrs.evolve(DEMO, metadata=attrs.evolve(DEMO.metadata, uid="another"))
ENDING = attrs.evolve(DEMO, metadata=attrs.evolve(DEMO.metadata, deletionTimestamp=NOW))


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        pytest.param(None, End.UNIT_GONE, id="deleted"),
        pytest.param(AGAIN, End.UNIT_GONE, id="created again, unobserved"),
        pytest.param(ENDING, End.UNIT_GONE, id="being deleted"),
        pytest.param(unit("demo", generation=4), End.REVOKED, id="generation raised"),
        pytest.param(unit("demo", generation=3, suspended=True), End.SUSPENDED, id="suspended"),
        pytest.param(unit("demo", generation=3, scheme="https"), None, id="another change"),
    ],
)
async def test_the_event_itself_ends_connections(now: GPUUnit | None, reason: End | None) -> None:
    connections = connections_of()
    with (
        connections.open(visitor(), ConnectionKind.WEBSOCKET) as mine,
        connections.open(visitor(unit("other")), ConnectionKind.WEBSOCKET) as other,
    ):
        connections.unit_changed(DEMO.metadata.key, DEMO, now)
        assert (mine.ended.result() if mine.ended.done() else None) == reason
        assert not other.ended.done()


async def test_a_connection_outlives_its_ticket_by_the_grace_alone() -> None:
    connections = connections_of()
    with connections.open(visitor(), ConnectionKind.EXEC) as connection:
        assert await ended_within(connection, 904.9) is None
        assert await ended_within(connection, 0.2) == End.EXPIRED


async def test_a_wall_clock_that_jumps_ends_what_has_expired() -> None:
    ahead = [timedelta(0)]
    wall = clock()
    connections = Connections(
        OPTIONS, now=lambda: wall() + ahead[0], watch_age=lambda: 0.0, meter=NullMeter()
    )
    with connections.open(visitor(), ConnectionKind.SSH) as connection:
        ahead[0] = timedelta(hours=1)
        connections.sweep()
        assert connection.ended.result() == End.EXPIRED


@pytest.mark.parametrize("ends_unknown", [False, True])
async def test_a_silent_cluster_ends_connections_within_a_minute_if_so_configured(
    ends_unknown: bool,
) -> None:
    began_at = loop_time()
    connections = connections_of(age=lambda: loop_time() - began_at, ends_unknown=ends_unknown)
    async with asyncio.TaskGroup() as tasks:
        sweep = tasks.create_task(connections.run())
        with connections.open(visitor(), ConnectionKind.EXEC) as connection:
            reason = await ended_within(connection, 300.0)
            assert reason == (End.UNKNOWN if ends_unknown else None)
            assert ends_unknown <= (loop_time() - began_at <= 60.0)
        sweep.cancel()


@pytest.mark.parametrize(
    ("kind", "others", "mine", "name"),
    [
        pytest.param(
            ConnectionKind.HTTP,
            [visitor(jti=str(n)) for n in range(4)],
            visitor(jti="x"),
            "perUnit",
            id="of a unit",
        ),
        pytest.param(
            ConnectionKind.HTTP, [visitor()] * 3, visitor(), "perTicket", id="of a ticket"
        ),
        pytest.param(
            ConnectionKind.EXEC,
            [visitor(jti=str(n)) for n in range(2)],
            visitor(jti="x"),
            "execPerUnit",
            id="of programs in a unit",
        ),
        pytest.param(
            ConnectionKind.HTTP,
            [visitor(unit(f"u{n}")) for n in range(8)],
            visitor(),
            "all",
            id="of all callers",
        ),
    ],
)
async def test_a_limit_refuses_one_more_and_takes_one_again_after_an_end(
    kind: ConnectionKind, others: list[Visitor], mine: Visitor, name: str
) -> None:
    connections = connections_of()
    with ExitStack() as opened:
        for each in others[1:]:
            opened.enter_context(connections.open(each, kind))
        with connections.open(others[0], kind):
            with pytest.raises(GatewayError, match=name) as caught:
                connections.open(mine, kind).__enter__()
            assert caught.value.code is Code.TOO_MANY_CONNECTIONS
        opened.enter_context(connections.open(mine, kind))
    assert len(connections) == 0


async def test_a_key_of_ssh_has_its_limit_at_each_unit() -> None:
    """Its logins have one id, whatever the unit."""
    connections = connections_of()
    with ExitStack() as opened:
        for of in (DEMO, unit("other")):
            for _ in range(3):
                visit = connections.open(visitor(of, jti="key:SHA256:x"), ConnectionKind.FORWARD)
                opened.enter_context(visit)
            with pytest.raises(GatewayError, match="perTicket"):
                connections.open(visitor(of, jti="key:SHA256:x"), ConnectionKind.HTTP).__enter__()


async def test_bytes_of_callers_are_activity_and_a_deleted_unit_has_none() -> None:
    connections = connections_of()
    uid = DEMO.metadata.uid
    with connections.open(visitor(), ConnectionKind.WEBSOCKET) as connection:
        await asyncio.sleep(10)
        connection.touch()
        assert connections.activity() == {uid: (loop_time(), 1)}
    touched_at = loop_time()
    await asyncio.sleep(10)
    assert connections.activity() == {uid: (touched_at, 0)}
    connections.unit_changed(DEMO.metadata.key, DEMO, None)
    connection.touch()
    assert connections.activity() == {}


async def test_a_replica_that_drains_opens_nothing_and_waits_for_the_rest() -> None:
    connections = connections_of()
    async with asyncio.TaskGroup() as tasks:
        with connections.open(visitor(), ConnectionKind.HTTP) as connection:
            drain = tasks.create_task(connections.drain())
            await asyncio.sleep(1)
            assert not drain.done()
            with pytest.raises(GatewayError, match="stopping"):
                connections.open(visitor(), ConnectionKind.HTTP).__enter__()
            connections.end_all(End.STOPPING)
            assert connection.ended.result() == End.STOPPING
    assert drain.done()
