"""Large files and slow callers through the running program, within its memory bounds."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.proofs.real_cluster.product import Caller, Process
from tests.rooms.roles.programs import Programs, programs

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="reads Linux's /proc"),
]

FILES = "/api/v1/gpu-storages/models/files"
STORAGE = {"name": "models", "size": "10Gi", "accessor": {"enabled": True, "writable": True}}
LARGE_BYTES = 2 * 2**30
CHUNK = bytes(2**20)
MOST_GROWTH_KIB = 64 * 1024
SLOW_CALLERS = 200
PATIENT = aiohttp.ClientTimeout(total=300)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    with programs(tmp_path_factory.mktemp("large")) as made:
        yield made


@pytest.fixture(scope="module")
def dev(program: Programs, dufs: Path) -> Iterator[Process]:
    process = program.dev(on_path=dufs.parent)
    caller = Caller(process.address)
    assert caller.post("/gpu-storages", STORAGE).status == 201
    caller.until("/gpu-storages/models", lambda view: view["accessorStatus"]["phase"] == "Ready")
    yield process
    assert process.stop() == 0


def kibibytes(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


@contextmanager
def within_memory(process: Process, what: str) -> Iterator[None]:
    """Fail if the process grows by more than its bound within the block."""
    before = kibibytes(process.pid, "VmRSS")
    Path(f"/proc/{process.pid}/clear_refs").write_text("5")
    yield
    growth = kibibytes(process.pid, "VmHWM") - before
    assert growth < MOST_GROWTH_KIB, f"{what} took {growth} KiB more than {before} KiB"


async def large() -> AsyncIterator[bytes]:
    for _ in range(LARGE_BYTES // len(CHUNK)):
        yield CHUNK


@pytest.fixture(scope="module")
def url(dev: Process) -> str:
    """Write a large file through the API and return its URL."""
    url = f"{dev.address}{FILES}/large.bin"

    async def write() -> None:
        async with (
            aiohttp.ClientSession(timeout=PATIENT) as session,
            session.put(url, data=large()) as answer,
        ):
            assert answer.status == 201, await answer.text()

    with within_memory(dev, "upload"):
        asyncio.run(write())
    return url


async def test_two_gigabytes_are_uploaded_and_downloaded_within_the_memory_bound(
    dev: Process, url: str
) -> None:
    with within_memory(dev, "download"):
        async with aiohttp.ClientSession(timeout=PATIENT) as session, session.get(url) as answer:
            assert answer.headers["Content-Length"] == str(LARGE_BYTES)
            count = 0
            async for chunk in answer.content.iter_any():
                count += len(chunk)
    assert count == LARGE_BYTES


async def test_two_hundred_slow_callers_exceed_no_memory_bound_and_delay_no_other_caller(
    dev: Process, url: str
) -> None:
    with within_memory(dev, f"{SLOW_CALLERS} slow callers"), slow_callers(dev.address):
        async with aiohttp.ClientSession(timeout=PATIENT) as session:
            headers = {"Range": "bytes=0-99"}
            async with session.get(url, headers=headers) as answer:
                assert answer.status == 206
                assert await answer.read() == bytes(100)
            async with session.get(f"{dev.address}/api/v1/health") as answer:
                assert answer.status == 200


@contextmanager
def slow_callers(address: str) -> Iterator[None]:
    """Open connections that request the large file and read only its first bytes."""
    asking = f"GET {FILES}/large.bin HTTP/1.1\r\nHost: here\r\n\r\n".encode()
    with ExitStack() as stack:
        slow = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port_of(address))))
            for _ in range(SLOW_CALLERS)
        ]
        for each in slow:
            each.sendall(asking)
        for each in slow:
            assert each.recv(15) == b"HTTP/1.1 200 OK"
        yield


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])
