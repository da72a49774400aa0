"""Invocations from HTTP to their result, beside a bare loop, 64 callers in the same run."""

import asyncio
import contextlib
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp

from gpuruntime.framework import echo
from gpuruntime.framework.server import DEFAULTS
from tests.eventually import eventually_blocking
from tests.proofs.bench.bare_calls import AT_ONCE, Front, Worker, connect
from tests.proofs.bench.rows import Row
from tests.proofs.function_chain.chain import chain
from tests.proofs.real_cluster.processes import Keeper
from tests.proofs.real_cluster.product import NOWHERE, Caller
from tests.rooms.bus.broker import FUNCTION, Broker, broker, bus
from tests.rooms.roles.programs import Programs, programs

CALLS = 1_500
ALONE = 150
ROUNDS = 3
PAYLOAD = {"text": "grüße" * 20, "number": 1.5}
Call = Callable[[], Awaitable[object]]


async def rate_of(call: Call) -> float:
    """Return the calls per second of AT_ONCE concurrent callers."""
    left = iter(range(CALLS))

    async def keep_calling() -> None:
        for _ in left:
            await call()

    began_at = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_ONCE):
            tasks.create_task(keep_calling())
    return CALLS / (time.perf_counter() - began_at)


async def seconds_of(call: Call) -> float:
    """Return the median seconds of a call by a single caller."""
    seconds = []
    for _ in range(ALONE):
        began_at = time.perf_counter()
        await call()
        seconds.append(time.perf_counter() - began_at)
    return median(seconds)


@contextlib.contextmanager
def echo_and_bare_loop(folder: Path, url: str) -> Iterator[tuple[Path, str]]:
    """Yield the framework's socket, and the address of the bare loop's front."""
    keeper = Keeper(Path(tempfile.mkdtemp(prefix="gpuruntime-bench-")), NOWHERE)
    socket, log = folder / "echo.sock", folder / "front.log"

    def start(name: str, *argv: str) -> None:
        keeper.start(name, [sys.executable, "-m", *argv], folder / f"{name}.log")

    try:
        start("echo", "gpuruntime.framework.echo", "--socket", str(socket))
        eventually_blocking(socket.is_socket)
        start("front", "tests.proofs.bench.bare_calls", "front", url)
        port = eventually_blocking(lambda: log.exists() and log.read_text().strip())
        start("bare-worker", "tests.proofs.bench.bare_calls", "worker", url, str(socket))
        yield socket, f"http://127.0.0.1:{port}"
    finally:
        keeper.close()


def product(program: Programs, url: str, socket: Path) -> str:
    """Start an api and one worker of the function, without scaling; return the invocations URL."""
    queue = {"url": url, "subjectPrefix": "bench"}
    api = program.start("api", kubernetes={"kubeconfig": str(program.cluster())}, nats=queue)
    template = {
        "operationID": "echo",
        "name": FUNCTION,
        "specName": "f1",
        "image": "echo",
        "serverless": {"requestID": FUNCTION},
    }
    assert Caller(api.address).post("/gpu-units", template).status == 201
    worker = program.start(
        "worker",
        nats=queue,
        worker={
            "function": FUNCTION,
            "name": "w1",
            "concurrency": AT_ONCE,
            "framework": {"socketPath": str(socket)},
        },
    )
    worker.wait_until_ready()
    return f"{api.address}/api/v1/serverless/invocations"


async def queue_alone(url: str) -> float:
    """Return the median seconds of the hops through the queue, without HTTP and framework.

    Both ends run in this process, so that a call waits for the broker alone.
    """
    ends = [await connect(url), await connect(url)]
    front = Front(ends[0])
    await front.start()
    async with asyncio.TaskGroup() as tasks:
        worker = tasks.create_task(Worker(ends[1], None).run())
        seconds = await seconds_of(lambda: front.call(PAYLOAD))
        worker.cancel()
    for end in ends:
        await end._nc.close()
    return seconds


async def queue_rate(url: str) -> float:
    """Return the calls per second through the queue, with the worker in a separate process."""
    end = await connect(url)
    front = Front(end)
    await front.start()
    argv = [sys.executable, "-m", "tests.proofs.bench.bare_calls", "worker", url]
    worker = await asyncio.create_subprocess_exec(*argv)
    try:
        return median([await rate_of(lambda: front.call(PAYLOAD)) for _ in range(ROUNDS)])
    finally:
        worker.kill()
        await worker.wait()
        await end._nc.close()


async def measured(made: Broker, folder: Path) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {"rate": [], "bare rate": [], "alone": [], "bare alone": []}
    async with bus(made.url, "bench"), aiohttp.ClientSession() as session:
        alone, rate = await queue_alone(made.url), await queue_rate(made.url)
        with echo_and_bare_loop(folder, made.url) as (socket, bare), programs(folder) as program:
            address = await asyncio.to_thread(product, program, made.url, socket)
            ask = {"serverlessRequestID": FUNCTION, "mode": "sync", "payload": PAYLOAD}

            async def post(url: str, body: Any) -> None:
                async with session.post(url, json=body) as answer:
                    told = await answer.text()
                    assert answer.status == 200, told
                    assert "grüße" in told or "gr\\u00fc" in told, told

            for _ in range(ROUNDS):
                found["bare rate"].append(await rate_of(lambda: post(bare, PAYLOAD)))
                found["rate"].append(await rate_of(lambda: post(address, ask)))
                found["bare alone"].append(await seconds_of(lambda: post(bare, PAYLOAD)))
                found["alone"].append(await seconds_of(lambda: post(address, ask)))
    return {**found, "queue": [alone], "queue rate": [rate]}


def measure_cold_calls() -> list[tuple[float, float]]:
    """Measure the first call of each function, and its worker's time from claimed to Ready."""
    found = []
    with chain("api-1", "manager-1", "activator-1") as made:
        for number in range(ROUNDS):
            name = f"cold-{number}"
            made.declare(
                name,
                program=echo.__file__,
                told=f"--socket={DEFAULTS.socketPath}",
            )
            ask = {"serverlessRequestID": name, "mode": "sync", "payload": PAYLOAD}
            began_at = time.perf_counter()
            answer = made.caller.post("/serverless/invocations", ask)
            taken = time.perf_counter() - began_at
            assert answer.data["body"] == PAYLOAD, answer.document
            unit = made.caller.until(
                f"/gpu-units/{answer.data['workerName']}", lambda unit: unit["phase"] == "Ready"
            )
            timeline = unit["timeline"]
            ready, claimed = (
                datetime.fromisoformat(timeline[moment]) for moment in ("readyAt", "claimedAt")
            )
            found.append((taken, (ready - claimed).total_seconds()))
    return found


def rows() -> Iterator[Row]:
    yield from warm_rows()
    cold_calls = measure_cold_calls()
    yield Row(
        name="first call from zero workers", value=median(a for a, _ in cold_calls), unit="s"
    )
    yield Row(
        name="its worker, from claimed to Ready", value=median(b for _, b in cold_calls), unit="s"
    )
    yield Row(
        name="first call, without the start of its worker",
        value=1000 * median(taken - start for taken, start in cold_calls),
        unit="ms",
        at_most=200,
    )


def warm_rows() -> Iterator[Row]:
    with broker() as made, tempfile.TemporaryDirectory(prefix="bench-") as folder:
        found = asyncio.run(measured(made, Path(folder)))
    ratios = [ours / bare for ours, bare in zip(found["rate"], found["bare rate"], strict=True)]
    yield Row(name="invocations, 64 callers", value=median(found["rate"]), unit="1/s")
    yield Row(name="bare loop, 64 callers", value=median(found["bare rate"]), unit="1/s")
    yield Row(
        name="invocations ÷ bare loop, 64 callers",
        value=median(ratios),
        unit="ratio",
        at_least=0.5,
    )
    hops = found["queue rate"][0]
    yield Row(name="bare loop through the queue only, 64 callers", value=hops, unit="1/s")
    yield Row(
        name="invocations ÷ bare loop through the queue, 64 callers",
        value=median(found["rate"]) / hops,
        unit="ratio",
    )
    alone, queue = median(found["alone"]), found["queue"][0]
    yield Row(name="synchronous invocation, one caller, p50", value=1000 * alone, unit="ms")
    yield Row(name="bare loop, p50", value=1000 * median(found["bare alone"]), unit="ms")
    yield Row(name="bare loop through the queue only, p50", value=1000 * queue, unit="ms")
    yield Row(
        name="synchronous invocation ÷ bare loop through the queue",
        value=alone / queue,
        unit="ratio",
        at_most=3,
    )
