"""A gateway passes bytes unchanged, and takes little memory for them, however slow a side is."""

import asyncio
import hashlib
import os
import resource
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Final, TypeAlias

import aiohttp
import pytest

from tests.proofs.gateway_bytes.callers import Caller, calling, frame, on_web_socket
from tests.proofs.gateway_bytes.pieces import MIB, digest_of, pieces
from tests.proofs.gateway_bytes.reach import NAME, Reach, reach

# They need no control plane, but few other tests beside them: they measure memory.
pytestmark = pytest.mark.cluster

KIB: Final = 1024
# `nox -s long-gateway` asks for 2 GiB and 5,000 WebSockets.
TRANSFERRED_MIB: Final = int(os.environ.get("GPURUNTIME_GATEWAY_MIB", "64"))
IDLE: Final = int(os.environ.get("GPURUNTIME_GATEWAY_SOCKETS", "500"))
# Memory that Python keeps of what was in transit, whatever the length of the body.
MOST_GROWTH: Final = 8 * MIB
MOST_OF_IDLE: Final = 30 * KIB
MOST_KIB_OF_SLOW: Final = 512
SLOW: Final = 24
AT_ONCE: Final = 50
# Nothing moves once the gateway has used no processor time for this long.
QUIET_SECONDS: Final = 1.0
# On a busy machine it may move for longer; the bound holds at any moment.
REST_SECONDS: Final = 20.0
PIECE: Final = bytes(32 * KIB)
V5: Final = "v5.channel.k8s.io"
ENDLESS: Final = {"Content-Length": str(2**36)}


@pytest.fixture(autouse=True)
def open_files() -> Iterator[int]:
    """Raise the limit of open files, which the processes of a test inherit, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@asynccontextmanager
async def session_of(at: Reach) -> AsyncIterator[aiohttp.ClientSession]:
    headers = {"Host": at.host, "Authorization": at.authorization}
    url = f"http://127.0.0.1:{at.port}"
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(url, headers=headers, timeout=timeout) as session:
        yield session


async def downloaded(session: aiohttp.ClientSession, mib: int) -> str:
    digest = hashlib.sha256()
    async with session.get(f"/pieces?mib={mib}") as answer:
        assert answer.status == 200
        async for data in answer.content.iter_any():
            digest.update(data)
    return digest.hexdigest()


async def uploaded(session: aiohttp.ClientSession, mib: int) -> str:
    async def body() -> AsyncIterator[bytes]:
        for piece in pieces(mib):
            yield piece

    async with session.post("/pieces", data=body()) as answer:
        assert answer.status == 200
        return await answer.text()


@pytest.mark.parametrize("transfer", [downloaded, uploaded])
async def test_a_large_body_arrives_whole_and_takes_no_memory_of_its_length(
    transfer: Callable[[aiohttp.ClientSession, int], Awaitable[str]],
) -> None:
    async with reach() as at, session_of(at) as session:
        await transfer(session, 8)
        before = at.memory()
        at.forget_peak()
        assert await transfer(session, TRANSFERRED_MIB) == digest_of(TRANSFERRED_MIB)
        growth = at.memory("VmHWM") - before
    print(f"{transfer.__name__} {TRANSFERRED_MIB} MiB: {growth / KIB:.0f} KiB more")  # noqa: T201 - the figure
    assert growth < MOST_GROWTH


async def test_messages_of_8_mib_pass_both_ways() -> None:
    async with (
        reach() as at,
        session_of(at) as session,
        session.ws_connect("/echo", max_msg_size=0, compress=0) as socket,
    ):
        sent = b"".join(pieces(8))
        before = at.memory()
        at.forget_peak()
        for _ in range(3):
            await socket.send_bytes(sent)
            assert await socket.receive_bytes() == sent
        growth = at.memory("VmHWM") - before
    assert growth < MOST_GROWTH


async def test_an_idle_web_socket_takes_at_most_30_kib(open_files: int) -> None:
    """The gateway has two open files for each, and each of the other processes has one."""
    count = min(IDLE, (open_files - 200) // 2)
    async with reach() as at, AsyncExitStack() as stack:
        before = at.memory()
        for _ in range(0, count, AT_ONCE):
            opening = (on_web_socket(at, "/echo") for _ in range(AT_ONCE))
            await asyncio.gather(*(stack.enter_async_context(each) for each in opening))
        held = (at.memory() - before) / count
    print(f"{count} idle WebSockets: {held / KIB:.1f} KiB each")  # noqa: T201 - the figure
    assert held < MOST_OF_IDLE


def in_the_unit(at: Reach, path: str, protocol: str = "") -> AbstractAsyncContextManager[Caller]:
    host = at.program_host
    return on_web_socket(at, f"/units/{NAME}/{path}", host=host, protocol=protocol)


Opening: TypeAlias = Callable[[Reach], AbstractAsyncContextManager[Caller]]
# Callers that take nothing of what the unit sends without end.
READERS: Final[dict[str, Opening]] = {
    "HTTP": lambda at: calling(at, "GET /pour"),
    "WebSocket": lambda at: on_web_socket(at, "/pour-messages"),
    "exec": lambda at: in_the_unit(at, "exec?command=cat&command=/dev/zero", V5),
    "forward": lambda at: in_the_unit(at, f"forward?port={at.unit_ports['pour']}"),
}
# Callers that send these bytes without end to a unit that takes nothing.
WRITERS: Final[dict[str, tuple[Opening, bytes]]] = {
    "HTTP": (lambda at: calling(at, "POST /stuck", headers=ENDLESS), PIECE),
    "WebSocket": (lambda at: on_web_socket(at, "/stuck"), frame(bytes(8 * MIB))),
    "exec": (lambda at: in_the_unit(at, "exec?command=sleep&command=600", V5), frame(PIECE)),
    "forward": (
        lambda at: in_the_unit(at, f"forward?port={at.unit_ports['stuck']}"),
        frame(bytes(64 * KIB)),
    ),
}


async def test_a_slow_reader_holds_at_most_512_kib() -> None:
    held = {}
    async with reach() as at, AsyncExitStack() as stack:
        for name, opening in READERS.items():
            await stack.enter_async_context(opening(at))
            before = at.memory()
            for _ in range(SLOW):
                await stack.enter_async_context(opening(at))
            held[name] = await held_by_each(at, before)
    print(f"slow readers, KiB each: {held}")  # noqa: T201 - the figures
    assert max(held.values()) <= MOST_KIB_OF_SLOW, held


async def test_a_slow_writer_holds_at_most_512_kib() -> None:
    held = {}
    async with reach() as at, AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        sending = []
        for name, (opening, piece) in WRITERS.items():
            await stack.enter_async_context(opening(at))
            before = at.memory()
            for _ in range(SLOW):
                caller = await stack.enter_async_context(opening(at))
                sending.append(tasks.create_task(caller.send_for_ever(piece)))
            held[name] = await held_by_each(at, before)
        for each in sending:
            each.cancel()
    print(f"slow writers, KiB each: {held}")  # noqa: T201 - the figures
    assert max(held.values()) <= MOST_KIB_OF_SLOW, held


async def held_by_each(at: Reach, before: int) -> int:
    """Return the KiB that each slow connection takes, once the gateway is at rest, or in time."""
    loop = asyncio.get_running_loop()
    last, since, ends_at = at.processor_ticks(), loop.time(), loop.time() + REST_SECONDS
    while loop.time() < min(since + QUIET_SECONDS, ends_at):
        await asyncio.sleep(0.1)
        if (now := at.processor_ticks()) > last:
            last, since = now, loop.time()
    return (at.memory() - before) // SLOW // KIB
