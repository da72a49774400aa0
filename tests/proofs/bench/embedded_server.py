"""The speed of the embedded API server: `python -m tests.proofs.bench.embedded_server`.

Over HTTP the server runs in a separate process, so that its clients do not use its core. Budgets
inside one process count processor time, which other work on the machine does not lengthen.
"""

import asyncio
import gc
import json
import random
import resource
import sys
import time
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import aiohttp
import attrs

from gpuruntime.embedded.apiserver.http_listener import serve
from gpuruntime.embedded.apiserver.server import Server
from gpuruntime.embedded.apiserver.streams import Stream
from gpuruntime.kube.transport import JSON, MERGE_PATCH, Request
from gpuruntime.models.definitions.crds import crds
from tests.proofs.bench.rows import Row

MAPS = "/api/v1/namespaces/default/configmaps"
UNITS = "/apis/runtime.lokiwager.io/v1alpha1/namespaces/default/gpuunits"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WATCHES = 10
WRITES = 3_000
OBJECTS = 10_000
CALLERS = 8
ROUNDS = 3


@attrs.frozen(kw_only=True, slots=True)
class Spent:
    """Wall-clock seconds, and processor seconds of the server."""

    wall: float
    processor: float


class Stopwatch:
    """Measures from its construction until `stop`."""

    def __init__(self) -> None:
        self._begun, self._processor_begun = time.perf_counter(), time.process_time()

    def stop(self) -> Spent:
        return Spent(
            wall=time.perf_counter() - self._begun,
            processor=time.process_time() - self._processor_begun,
        )


def new_server() -> Server:
    server = Server(now=lambda: datetime.now(UTC), rng=random.Random(7))
    for definition in crds():
        send(server, "POST", DEFINITIONS, definition)
    return server


def send(server: Server, method: str, path: str, body: Any) -> None:
    content_type = MERGE_PATCH if method == "PATCH" else JSON
    data = json.dumps(body).encode()
    request = Request(method=method, path=path, body=data, content_type=content_type)
    answer = server.handle(request)
    assert answer.status in {200, 201}, answer.body


def config_map(index: int) -> dict[str, Any]:
    labels = {"app": "bench", "index": str(index)}
    return {"metadata": {"name": f"m{index}", "labels": labels}, "data": {"k": "v" * 800}}


def unit(index: int) -> dict[str, Any]:
    group = "runtime.lokiwager.io"
    return {
        "apiVersion": f"{group}/v1alpha1",
        "kind": "GPUUnit",
        "metadata": {
            "name": f"u{index}",
            "labels": {"app.kubernetes.io/managed-by": "gpuruntime", f"{group}/unit": f"u{index}"},
            "annotations": {f"{group}/request-hash": "a" * 64},
        },
        "spec": {
            "specName": "g1.1",
            "image": "example.com/runtime:1",
            "cpu": "4",
            "memory": "16Gi",
            "gpu": 1,
            "template": {
                "envs": [{"name": f"E{number}", "value": "v"} for number in range(5)],
                "ports": [{"name": "http", "port": 80}],
            },
        },
    }


async def read(stream: Stream, events: int) -> None:
    """Read until this many events were received."""
    told = 0
    async for chunk in stream.chunks():
        told += chunk.count(b"\n")
        if told >= events:
            return


async def watched_writes() -> Spent:
    """Create and patch objects while watches receive every change."""
    server = new_server()
    query = (("watch", "1"), ("resourceVersion", str(server.store.version)))
    request = Request(method="GET", path=MAPS, query=query)
    streams = [server.open_stream(request) for _ in range(WATCHES)]
    stopwatch = Stopwatch()
    async with asyncio.TaskGroup() as group:
        for stream in streams:
            group.create_task(read(stream, 2 * WRITES))
        for index in range(WRITES):
            send(server, "POST", MAPS, config_map(index))
            send(server, "PATCH", f"{MAPS}/m{index}", {"data": {"k": "w"}})
            if index % CALLERS == 0:
                await asyncio.sleep(0)
    return stopwatch.stop()


async def http_writes() -> Spent:
    """Create and patch objects from several callers with keep-alive connections.

    The processor time covers the whole server process, including its start.
    """
    spent_before = children_seconds()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.proofs.bench.embedded_server",
        "serve",
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    url = (await process.stdout.readline()).decode().strip()
    try:
        async with aiohttp.ClientSession() as session:
            stopwatch = Stopwatch()
            async with asyncio.TaskGroup() as group:
                for first in range(CALLERS):
                    group.create_task(call(session, url, range(first, WRITES, CALLERS)))
            wall = stopwatch.stop().wall
    finally:
        process.terminate()
        await process.wait()
    return Spent(wall=wall, processor=children_seconds() - spent_before)


def children_seconds() -> float:
    """Return the processor time of all child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


async def call(session: aiohttp.ClientSession, url: str, indexes: range) -> None:
    for index in indexes:
        async with session.post(url + MAPS, json=config_map(index)) as answer:
            await answer.read()
        patch = json.dumps({"data": {"k": "w"}}).encode()
        path, headers = f"{url}{MAPS}/m{index}", {"Content-Type": MERGE_PATCH}
        async with session.patch(path, data=patch, headers=headers) as answer:
            await answer.read()
            assert answer.status == 200


def load() -> Server:
    server = new_server()
    for index in range(OBJECTS):
        send(server, "POST", UNITS, unit(index))
    return server


def loading() -> Spent:
    """Measure the creation of the server and of all its units."""
    stopwatch = Stopwatch()
    load()
    return stopwatch.stop()


def kept_share() -> float:
    """Return the memory of a server with the units ÷ the size of their JSON."""
    gc.collect()
    tracemalloc.start()
    server = load()
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    wire = sum(
        len(stored.body)
        for collection in server.store.collections()
        if collection.kind.kind == "GPUUnit"
        for stored in collection.present()
    )
    return kept / wire


def rows() -> Iterator[Row]:
    rounds = [asyncio.run(watched_writes()) for _ in range(ROUNDS)]
    name = f"embedded server: writes with {WATCHES} watches"
    yield from rate_rows(name, rounds, at_least=5_000)
    rounds = [asyncio.run(http_writes()) for _ in range(ROUNDS)]
    yield from rate_rows("embedded server: writes over HTTP", rounds, at_least=2_000)
    rounds = [loading() for _ in range(ROUNDS)]
    name, seconds = f"embedded server: start and creation of {OBJECTS:,} units", least(rounds)
    yield Row(name=name, value=seconds.wall, unit="s")
    yield Row(name=f"{name}, processor", value=seconds.processor, unit="s", at_most=3)
    name = "embedded server: memory kept ÷ JSON"
    yield Row(name=name, value=kept_share(), unit="ratio", at_most=2)


def rate_rows(name: str, rounds: list[Spent], *, at_least: float) -> Iterator[Row]:
    best = least(rounds)
    yield Row(name=name, value=2 * WRITES / best.wall, unit="1/s")
    rate = 2 * WRITES / best.processor
    yield Row(name=f"{name}, processor", value=rate, unit="1/s", at_least=at_least)


def least(rounds: list[Spent]) -> Spent:
    """Return the shortest times, because other work on the machine only adds to them."""
    return Spent(
        wall=min(each.wall for each in rounds), processor=min(each.processor for each in rounds)
    )


async def serve_for_ever() -> None:
    async with serve(new_server()) as url:
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        asyncio.run(serve_for_ever())
    for row in rows():
        sys.stdout.write(f"{row}\n")
