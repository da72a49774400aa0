"""A normal caller beside 1,000 callers that never finish their requests.

    python -m tests.proofs.bench.slow_callers [slow URL]

The api is a separate process in front of an embedded cluster that does not change. The slow
callers are another process: half of them send a head byte by byte, the others a body. They
reconnect when the api closes their connection. The normal caller is measured alone before and
after.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import attrs
import yaml

from gpuruntime.embedded.apiserver.http_listener import serve
from gpuruntime.operations.options import Namespaces
from tests.options import configured
from tests.proofs.bench.connections import Address, Connection, connections
from tests.proofs.bench.listing import empty_server, print_line, quietest
from tests.proofs.bench.pod_server import kubeconfig_of
from tests.proofs.bench.product import replica
from tests.proofs.bench.rows import Row
from tests.proofs.bench.unit_requests import UNITS

PLACE = configured(Namespaces)
SLOW = 1_000
ROUNDS = 5
# One after the other, with a pause: the bench measures latency, not throughput.
REQUESTS = 400
PAUSE_SECONDS = 0.002
# Well within the time that the api allows between two bytes of a body.
BYTE_SECONDS = 2.0
PAUSE_OF_ROUNDS_SECONDS = 2.0
# The callers start over this time, so that they are not all accepted or closed at once.
SPREAD_SECONDS = 5.0
HEAD = b"GET /api/v1/gpu-units HTTP/1.1\r\nHost: here\r\nX-Slow: "
BODY = (
    b"POST /api/v1/gpu-units HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\n"
    b"Content-Length: 100000\r\n\r\n"
)


async def slow(url: str) -> None:
    """Print a line when all slow callers are connected, and run until the process is killed."""
    async with asyncio.TaskGroup() as tasks:
        for number in range(SLOW):
            tasks.create_task(_again_and_again(url, number))
        await asyncio.sleep(2 * SPREAD_SECONDS)
        print_line("there")


async def _again_and_again(url: str, number: int) -> None:
    await asyncio.sleep(SPREAD_SECONDS * number / SLOW)
    while True:
        with suppress(OSError):
            await _once(url, BODY if number % 2 else HEAD)


async def _once(url: str, start: bytes) -> None:
    where = urlsplit(url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    try:
        writer.write(start)
        while not reader.at_eof() and not writer.is_closing():
            writer.write(b" ")
            with suppress(TimeoutError):
                async with asyncio.timeout(BYTE_SECONDS):
                    await reader.read(4096)
    finally:
        writer.close()


@asynccontextmanager
async def slow_caller_process(url: str) -> AsyncIterator[None]:
    command = (sys.executable, "-m", "tests.proofs.bench.slow_callers", "slow", url)
    started = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert started.stdout is not None
    try:
        assert await started.stdout.readline() == b"there\n"
        yield
    finally:
        started.kill()
        await started.wait()


@attrs.frozen(kw_only=True)
class ResponseTimes:
    """Seconds of each answer, round by round."""

    alone: list[list[float]]
    beside: list[list[float]]


async def asked(normal: Connection) -> list[float]:
    waits = []
    for _ in range(REQUESTS):
        began = time.perf_counter()
        answer = await normal.send("GET", UNITS)
        waits.append(time.perf_counter() - began)
        assert answer.status == 200, answer.body
        await asyncio.sleep(PAUSE_SECONDS)
    return waits


async def measured() -> ResponseTimes:
    waits = ResponseTimes(alone=[], beside=[])
    async with api_process() as address, connections(address, 1) as (normal,):
        await asked(normal)
        for _ in range(ROUNDS):
            waits.alone.append(await asked(normal))
        async with slow_caller_process(address.url):
            for _ in range(2 * ROUNDS):
                waits.beside.append(await asked(normal))
                await asyncio.sleep(PAUSE_OF_ROUNDS_SECONDS)
        await asked(normal)
        for _ in range(ROUNDS):
            waits.alone.append(await asked(normal))
    return waits


@asynccontextmanager
async def api_process() -> AsyncIterator[Address]:
    async with serve(empty_server(), port=0) as url:
        with tempfile.TemporaryDirectory() as folder:
            kubeconfig = Path(folder) / "kubeconfig"
            kubeconfig.write_text(yaml.safe_dump(kubeconfig_of(url)))
            async with replica(kubeconfig, PLACE) as address:
                yield address


def rows() -> Iterator[Row]:
    waits = asyncio.run(measured())
    for name, rounds in (
        ("alone", waits.alone),
        (f"beside {SLOW:,} slow callers", waits.beside),
    ):
        for hundredths in (50, 99):
            value = 1000 * quietest(rounds, hundredths)
            yield Row(name=f"a caller {name}, p{hundredths}", value=value, unit="ms")
    ratio = quietest(waits.beside, 99) / quietest(waits.alone, 99)
    name = f"a caller beside {SLOW:,} slow callers ÷ alone, p99"
    yield Row(name=name, value=ratio, unit="ratio", at_most=2.0)


def main(arguments: list[str]) -> None:
    match arguments:
        case ["slow", url]:
            asyncio.run(slow(url))
        case _:
            for row in rows():
                print_line(str(row))


if __name__ == "__main__":
    main(sys.argv[1:])
