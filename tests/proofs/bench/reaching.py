"""Requests, bytes and WebSocket messages through a gateway, beside the same ones without it.

    python -m tests.proofs.bench.reaching

Gateway and unit are processes. One caller asks both in turns, over keep-alive connections.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from statistics import median
from typing import Final, TypeAlias

import aiohttp
import attrs

from tests.proofs.bench.connections import Address, Connection, connections
from tests.proofs.bench.rows import Row
from tests.proofs.bench.unit_requests import spread
from tests.proofs.gateway_bytes.pieces import MIB
from tests.proofs.gateway_bytes.reach import Reach, reach

ROUNDS: Final = 5
# Requests and messages of a round; each is sent once directly and once through the gateway.
TURNS: Final = 300
CALLERS: Final = 32
BURST: Final = 1_000
BODY_MIB: Final = 128
MESSAGE: Final = bytes(64)
_PIECE: Final = bytes(256 * 1024)
Work: TypeAlias = Callable[[], Awaitable[None]]


@attrs.frozen(kw_only=True)
class Measured:
    """Figures of each round: directly, and through the gateway."""

    direct: list[float] = attrs.field(factory=list)
    gateway: list[float] = attrs.field(factory=list)

    @property
    def pairs(self) -> list[tuple[float, float]]:
        return list(zip(self.direct, self.gateway, strict=True))

    @property
    def added(self) -> float:
        return median(gateway - direct for direct, gateway in self.pairs)

    @property
    def share(self) -> float:
        return median(gateway / direct for direct, gateway in self.pairs)


@attrs.frozen(kw_only=True)
class Figures:
    """Seconds of a request and a message; requests and MB in a second."""

    request: Measured = attrs.field(factory=Measured)
    message: Measured = attrs.field(factory=Measured)
    requests: Measured = attrs.field(factory=Measured)
    down: Measured = attrs.field(factory=Measured)
    up: Measured = attrs.field(factory=Measured)


def addresses(at: Reach) -> tuple[Address, Address]:
    """Return the unit's own address, and its address at the gateway."""
    return (
        Address(f"http://127.0.0.1:{at.unit_ports['http']}"),
        Address(f"http://127.0.0.1:{at.port}", at.ticket, host=at.host),
    )


async def measured() -> Figures:
    figures = Figures()
    async with reach() as at:
        direct, gateway = addresses(at)
        async with (
            connections(direct, CALLERS) as callers,
            connections(gateway, CALLERS) as visitors,
            web_socket(direct) as call,
            web_socket(gateway) as visit,
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session,
        ):
            for number in range(ROUNDS + 1):
                found = figures if number else Figures()  # the first round warms up
                await in_turns(found.request, lambda: get(callers[0]), lambda: get(visitors[0]))
                await in_turns(found.message, lambda: echo(call), lambda: echo(visit))
                found.requests.direct.append(await rate(callers))
                found.requests.gateway.append(await rate(visitors))
                for transfer, into in ((downloaded, found.down), (uploaded, found.up)):
                    into.direct.append(await transfer(direct, session))
                    into.gateway.append(await transfer(gateway, session))
    return figures


async def in_turns(into: Measured, direct: Work, gateway: Work) -> None:
    """Do both alternately, and keep the medians of this round."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(TURNS):
        for work, waits in zip((direct, gateway), seconds, strict=True):
            begun = time.perf_counter()
            await work()
            waits.append(time.perf_counter() - begun)
    into.direct.append(median(seconds[0]))
    into.gateway.append(median(seconds[1]))


async def get(connection: Connection) -> None:
    answer = await connection.send("GET", "/")
    assert answer.status == 200, answer


async def echo(messages: aiohttp.ClientWebSocketResponse) -> None:
    await messages.send_bytes(MESSAGE)
    assert await messages.receive_bytes() == MESSAGE


async def rate(callers: list[Connection]) -> float:
    async def work(connection: Connection, _: int) -> None:
        await get(connection)

    begun = time.perf_counter()
    await spread(callers, range(BURST), work)
    return BURST / (time.perf_counter() - begun)


@asynccontextmanager
async def web_socket(address: Address) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{address.url}/echo", headers=address.headers) as messages,
    ):
        yield messages


async def downloaded(address: Address, session: aiohttp.ClientSession) -> float:
    """Return the MB that a caller receives in a second."""
    begun, received = time.perf_counter(), 0
    url = f"{address.url}/pieces?mib={BODY_MIB}"
    async with session.get(url, headers=address.headers) as answer:
        async for data in answer.content.iter_any():
            received += len(data)
    assert received == BODY_MIB * MIB, answer
    return received / 1e6 / (time.perf_counter() - begun)


async def uploaded(address: Address, session: aiohttp.ClientSession) -> float:
    """Return the MB in a second that a caller sends, to the end of the answer."""

    async def body() -> AsyncIterator[bytes]:
        for _ in range(BODY_MIB * MIB // len(_PIECE)):
            yield _PIECE

    begun, size = time.perf_counter(), BODY_MIB * MIB
    headers = address.headers | {"Content-Length": str(size)}
    async with session.post(f"{address.url}/count", headers=headers, data=body()) as answer:
        assert await answer.text() == str(size), answer
    return size / 1e6 / (time.perf_counter() - begun)


def rows() -> Iterator[Row]:
    found = asyncio.run(measured())
    for name, each in (("GET of a unit", found.request), ("WebSocket message", found.message)):
        direct, gateway = 1000 * median(each.direct), 1000 * median(each.gateway)
        yield Row(name=f"{name} directly, p50", value=direct, unit="ms")
        yield Row(name=f"{name} through the gateway, p50", value=gateway, unit="ms")
    name = "GET of a unit, added by the gateway, p50"
    yield Row(name=name, value=1000 * found.request.added, unit="ms", at_most=1.0)
    name = "WebSocket message, added by the gateway, p50"
    yield Row(name=name, value=1000 * found.message.added, unit="ms")
    for name, each in (("down", found.down), ("up", found.up)):
        words = f"{BODY_MIB} MiB {name}"
        yield Row(name=f"{words}, directly", value=median(each.direct), unit="MB/s")
        words = f"{words}, through the gateway ÷ directly"
        yield Row(name=words, value=each.share, unit="ratio", at_least=0.35)
    name = f"GETs of {CALLERS} callers, directly"
    yield Row(name=name, value=median(found.requests.direct), unit="1/s")
    name = f"GETs of {CALLERS} callers, through the gateway ÷ directly"
    yield Row(name=name, value=found.requests.share, unit="ratio")


if __name__ == "__main__":
    for row in rows():
        sys.stdout.write(f"{row}\n")
        sys.stdout.flush()
