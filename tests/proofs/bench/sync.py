"""How long an informer takes to sync 50,000 Pods, and how much memory it keeps.

    python -m tests.proofs.bench.sync floor|informer|dicts|models

Each variant runs in its own process, so that no memory is counted twice.
"""

import asyncio
import gc
import json
import os
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import orjson
from kubernetes_asyncio.client import ApiClient, Configuration, CoreV1Api

from gpuruntime.informer.informer import Informer
from gpuruntime.kube.client import Client
from gpuruntime.kube.transport import Request, Transport
from tests.proofs.bench.pod_server import PODS, pod_server, transport_to

COUNT = 50_000
# The generated models are so slow that this variant uses a tenth of the Pods.
MODELS_COUNT = 5_000
LIMIT = 500


async def floor(transport: Transport) -> int:
    """Read the same bytes with the same transport, decode them and drop the result."""
    read, token = 0, ""
    while True:
        query = (("limit", str(LIMIT)), ("continue", token)) if token else (("limit", str(LIMIT)),)
        response = await transport.request(Request(method="GET", path="/api/v1/pods", query=query))
        read += len(response.body)
        token = orjson.loads(response.body)["metadata"].get("continue", "")
        if not token:
            return read


async def informer(transport: Transport) -> Informer[Any]:
    mirror = Informer(Client(transport), PODS, rng=Random(1))
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(mirror.run(), name="inform")
        await mirror.synced.wait()
        running.cancel()
    return mirror


async def dicts(url: str) -> list[Any]:
    return await _listed(url, as_models=False)


async def models(url: str) -> list[Any]:
    return await _listed(url, as_models=True)


async def _listed(url: str, *, as_models: bool) -> list[Any]:
    items: list[Any] = []
    token: str | None = None
    async with ApiClient(Configuration(host=url)) as client:
        core = CoreV1Api(client)
        while True:
            if as_models:
                page = await core.list_pod_for_all_namespaces(limit=LIMIT, _continue=token)
                items += page.items
                token = page.metadata._continue
            else:
                answer = await core.list_pod_for_all_namespaces(
                    limit=LIMIT, _continue=token, _preload_content=False
                )
                document = json.loads(await answer.read())
                items += document["items"]
                token = document["metadata"].get("continue")
            if not token:
                return items


def resident_bytes(process_id: int | str = "self") -> int:
    pages = int(Path(f"/proc/{process_id}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def longest_stall(until: asyncio.Event) -> float:
    worst = 0.0
    while not until.is_set():
        before = time.perf_counter()
        await asyncio.sleep(0.001)
        worst = max(worst, time.perf_counter() - before - 0.001)
    return worst


async def main(variant: str) -> None:
    count = MODELS_COUNT if variant == "models" else COUNT
    async with pod_server(pods=count) as url, transport_to(url) as transport:
        gc.collect()
        memory = resident_bytes()
        done = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            stall = tasks.create_task(longest_stall(done), name="stall")
            started = time.perf_counter()
            match variant:
                case "floor":
                    kept: object = await floor(transport)
                case "informer":
                    kept = await informer(transport)
                case "dicts":
                    kept = await dicts(url)
                case _:
                    kept = await models(url)
            seconds = time.perf_counter() - started
            done.set()
        gc.collect()
        grown = resident_bytes() - memory
        wire = kept if isinstance(kept, int) else 0
        sys.stdout.write(
            json.dumps(
                {
                    "seconds": seconds,
                    "count": count,
                    "bytes_kept": grown,
                    "wire": wire,
                    "stall": stall.result(),
                }
            )
        )
        # Keeps the result alive until the memory was measured.
        del kept


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
