"""Frameworks scripted by a test, over a real socket; they record their requests."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import attrs

from gpuruntime.models.kinds.functions import Framework as Where
from gpuruntime.worker.framework import Framework, framework
from gpuruntime.worker.options import WorkerOptions
from tests.options import configured
from tests.rooms.bus.broker import FUNCTION

Behave = Callable[[bytes, asyncio.StreamWriter], None]


def answering(status: str, body: bytes, *headers: str, closes: bool = True) -> Behave:
    """Answer with the correct length, and as JSON unless a header says otherwise."""

    def behave(_: bytes, writer: asyncio.StreamWriter) -> None:
        told = headers or ("Content-Type: application/json",)
        head = [f"HTTP/1.1 {status}", *told, f"Content-Length: {len(body)}", "", ""]
        writer.write("\r\n".join(head).encode() + body)
        if closes:
            writer.close()

    return behave


@asynccontextmanager
async def behaving(where: Where, behave: Behave) -> AsyncIterator[list[bytes]]:
    """Yield the requests in order; connections left open are closed at the end."""
    asked: list[bytes] = []
    open_ones: list[asyncio.StreamWriter] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_ones.append(writer)
        head = await reader.readuntil(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        asked.append(head + await reader.readexactly(int(length or b"0")))
        behave(asked[-1], writer)

    server = await asyncio.start_unix_server(connected, where.socketPath)
    try:
        yield asked
    finally:
        server.close()
        for writer in open_ones:
            writer.close()
        await server.wait_closed()


@asynccontextmanager
async def caller(where: Where, **changes: object) -> AsyncIterator[Framework]:
    options = attrs.evolve(
        configured(
            WorkerOptions, function=FUNCTION, name="worker-1", namespace="here", framework=where
        ),
        **changes,  # type: ignore[arg-type]  # whatever the test says
    )
    async with framework(options) as made:
        yield made
