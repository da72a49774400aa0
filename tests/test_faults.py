"""Tests of the faulty transport: each fault does what its name says, and nothing else."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import cast

import pytest

from gpuruntime.embedded.apiserver.in_process_transport import InProcessTransport
from gpuruntime.embedded.apiserver.server import Server
from gpuruntime.kube.errors import OutcomeUnknownError, UnreachableError
from gpuruntime.kube.transport import Request, StreamResponse
from tests.faults import (
    ANSWER_LOST,
    DROPPED,
    UNREACHABLE,
    Fault,
    FaultyTransport,
    landing_late,
    refused,
    slow,
)
from tests.rooms.embedded.calls import MAPS, ask, call, names, new_server

pytestmark = pytest.mark.looptime

WATCH = ask("GET", MAPS, watch="true")


@pytest.fixture
def server() -> Server:
    return new_server()


@pytest.fixture
def transport(server: Server) -> FaultyTransport:
    return FaultyTransport(InProcessTransport(server))


def creation(name: str) -> Request:
    return ask("POST", MAPS, {"metadata": {"name": name}})


def stored(server: Server) -> list[str]:
    return names(call(server, "GET", MAPS))


async def first_chunk(stream: StreamResponse) -> bytes:
    async with aclosing(cast("AsyncGenerator[bytes, None]", stream.chunks())) as chunks:
        return await anext(chunks)


async def test_a_lost_answer_leaves_the_write_done(
    server: Server, transport: FaultyTransport
) -> None:
    transport.on("POST", "configmaps", ANSWER_LOST)
    with pytest.raises(OutcomeUnknownError):
        await transport.request(creation("a"))
    assert stored(server) == ["a"]


async def test_a_dropped_write_is_not_done_and_its_outcome_is_unknown(
    server: Server, transport: FaultyTransport
) -> None:
    transport.on("POST", "configmaps", DROPPED)
    with pytest.raises(OutcomeUnknownError):
        await transport.request(creation("a"))
    assert stored(server) == []


async def test_an_unreachable_server_did_nothing(
    server: Server, transport: FaultyTransport
) -> None:
    transport.on("POST", "configmaps", UNREACHABLE)
    with pytest.raises(UnreachableError):
        await transport.request(creation("a"))
    assert stored(server) == []


async def test_a_refusal_is_answered_without_asking_the_server(
    server: Server, transport: FaultyTransport
) -> None:
    transport.on("POST", "configmaps", refused(429, "TooManyRequests"))
    assert (await transport.request(creation("a"))).status == 429
    assert stored(server) == []


async def test_a_late_write_lands_after_its_caller_has_given_up(server: Server) -> None:
    async with asyncio.TaskGroup() as tasks:
        transport = FaultyTransport(InProcessTransport(server), tasks=tasks)
        transport.on("POST", "configmaps", landing_late(5))
        with pytest.raises(OutcomeUnknownError):
            await transport.request(creation("a"))
        await asyncio.sleep(4)
        assert stored(server) == []
    assert stored(server) == ["a"]


async def test_a_slow_request_waits_before_or_after_the_server_as_configured(
    transport: FaultyTransport,
) -> None:
    seen: list[float] = []
    loop = asyncio.get_running_loop()
    started = loop.time()
    fault = Fault(
        before_seconds=2, after_seconds=3, then=lambda: seen.append(loop.time() - started)
    )
    transport.on("POST", "configmaps", fault)
    await transport.request(creation("a"))
    assert seen == [pytest.approx(2)]
    assert loop.time() - started == pytest.approx(5)


async def test_a_rule_skips_and_hits_the_configured_numbers_of_requests(
    transport: FaultyTransport,
) -> None:
    transport.on("POST", "configmaps", refused(503, "ServiceUnavailable"), skip=1, times=2)
    statuses = [(await transport.request(creation(name))).status for name in "abcd"]
    assert statuses == [201, 503, 503, 201]


async def test_writes_are_counted_from_the_time_the_rule_is_added(
    transport: FaultyTransport,
) -> None:
    await transport.request(creation("a"))
    transport.on_write(1, DROPPED)
    await transport.request(ask("GET", MAPS))
    await transport.request(creation("b"))
    with pytest.raises(OutcomeUnknownError):
        await transport.request(creation("c"))
    assert transport.written() == [f"POST {MAPS}"] * 3


async def test_a_cut_process_neither_receives_nor_sends(
    server: Server, transport: FaultyTransport
) -> None:
    transport.on("POST", "configmaps", Fault(then=transport.cut))
    with pytest.raises(OutcomeUnknownError):
        await transport.request(creation("a"))
    with pytest.raises(UnreachableError):
        await transport.request(creation("b"))
    assert stored(server) == ["a"]


async def test_a_process_can_be_cut_just_before_a_write(
    server: Server, transport: FaultyTransport
) -> None:
    transport.on("POST", "configmaps", Fault(is_dropped=True, then=transport.cut))
    with pytest.raises(OutcomeUnknownError):
        await transport.request(creation("a"))
    with pytest.raises(UnreachableError):
        await transport.request(ask("GET", MAPS))
    assert stored(server) == []


async def test_a_held_watch_delivers_nothing_until_it_is_released(
    server: Server, transport: FaultyTransport
) -> None:
    transport.hold_watches()
    loop = asyncio.get_running_loop()
    async with transport.stream(WATCH) as stream:
        call(server, "POST", MAPS, {"metadata": {"name": "a"}})
        loop.call_later(7, transport.release_watches)
        started = loop.time()
        assert b'"ADDED"' in await first_chunk(stream)
        assert loop.time() - started == pytest.approx(7)


async def test_a_watch_lags_by_the_configured_seconds(server: Server) -> None:
    transport = FaultyTransport(InProcessTransport(server), watch_lag=lambda: 0.25)
    loop = asyncio.get_running_loop()
    async with transport.stream(WATCH) as stream:
        call(server, "POST", MAPS, {"metadata": {"name": "a"}})
        started = loop.time()
        await first_chunk(stream)
        assert loop.time() - started == pytest.approx(0.25)


async def test_latency_applies_before_and_after_a_request(server: Server) -> None:
    transport = FaultyTransport(InProcessTransport(server), latency=lambda: 0.01)
    transport.on("GET", "configmaps", slow(after=1))
    started = asyncio.get_running_loop().time()
    await transport.request(ask("GET", MAPS))
    assert asyncio.get_running_loop().time() - started == pytest.approx(1.02)
