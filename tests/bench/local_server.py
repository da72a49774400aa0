"""The embedded API server's own speed: `python -m tests.bench.local_server`.

Over HTTP the server is a process of its own, so that its clients do not use up its core.
"""

import asyncio
import gc
import json
import random
import sys
import time
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import aiohttp

from gpuruntime.kube.transport import JSON, MERGE_PATCH, Request
from gpuruntime.local.http import serve
from gpuruntime.local.server import Server
from gpuruntime.local.streams import Stream
from gpuruntime.models.crds import crds
from tests.bench.rows import Row

MAPS = "/api/v1/namespaces/default/configmaps"
UNITS = "/apis/runtime.lokiwager.io/v1alpha1/namespaces/default/gpuunits"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WATCHES = 10
WRITES = 3_000
OBJECTS = 10_000
CALLERS = 8


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
    """Until so many events were told."""
    told = 0
    async for chunk in stream.chunks():
        told += chunk.count(b"\n")
        if told >= events:
            return


async def watched_writes() -> float:
    """Creates and patches a second, each told to every watch."""
    server = new_server()
    query = (("watch", "1"), ("resourceVersion", str(server.store.version)))
    request = Request(method="GET", path=MAPS, query=query)
    streams = [server.open_stream(request) for _ in range(WATCHES)]
    begun = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for stream in streams:
            group.create_task(read(stream, 2 * WRITES))
        for index in range(WRITES):
            send(server, "POST", MAPS, config_map(index))
            send(server, "PATCH", f"{MAPS}/m{index}", {"data": {"k": "w"}})
            if index % CALLERS == 0:
                await asyncio.sleep(0)
    return 2 * WRITES / (time.perf_counter() - begun)


async def http_writes() -> float:
    """Creates and patches a second, from some callers that keep their connections."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.local_server", "serve", stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    url = (await process.stdout.readline()).decode().strip()
    try:
        async with aiohttp.ClientSession() as session:
            begun = time.perf_counter()
            async with asyncio.TaskGroup() as group:
                for first in range(CALLERS):
                    group.create_task(call(session, url, range(first, WRITES, CALLERS)))
            return 2 * WRITES / (time.perf_counter() - begun)
    finally:
        process.terminate()
        await process.wait()


async def call(session: aiohttp.ClientSession, url: str, indexes: range) -> None:
    for index in indexes:
        async with session.post(url + MAPS, json=config_map(index)) as answer:
            await answer.read()
        patch = json.dumps({"data": {"k": "w"}}).encode()
        path, headers = f"{url}{MAPS}/m{index}", {"Content-Type": MERGE_PATCH}
        async with session.patch(path, data=patch, headers=headers) as answer:
            await answer.read()
            assert answer.status == 200


def loaded_units() -> tuple[float, float]:
    """Seconds until the units are there, and what they take in memory ÷ their JSON."""
    server = new_server()
    begun = time.perf_counter()
    for index in range(OBJECTS):
        send(server, "POST", UNITS, unit(index))
    seconds = time.perf_counter() - begun
    server = new_server()
    gc.collect()
    tracemalloc.start()
    for index in range(OBJECTS):
        send(server, "POST", UNITS, unit(index))
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    wire = sum(
        len(stored.body)
        for collection in server.store.collections()
        if collection.kind.kind == "GPUUnit"
        for stored in collection.present()
    )
    return seconds, kept / wire


def rows() -> Iterator[Row]:
    writes = max(asyncio.run(watched_writes()) for _ in range(3))
    name = f"embedded server: writes with {WATCHES} watches"
    yield Row(name=name, value=writes, unit="1/s", at_least=5_000)
    over_http = max(asyncio.run(http_writes()) for _ in range(3))
    yield Row(
        name="embedded server: writes over HTTP", value=over_http, unit="1/s", at_least=2_000
    )
    seconds, ratio = loaded_units()
    name = f"embedded server: {OBJECTS:,} units from nothing"
    yield Row(name=name, value=seconds, unit="s", at_most=3)
    name = "embedded server: memory kept ÷ JSON"
    yield Row(name=name, value=ratio, unit="ratio", at_most=2)


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
