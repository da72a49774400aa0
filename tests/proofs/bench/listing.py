"""Pages of 100 among 10,000 units, beside static bytes of the same size, by one and many callers.

    python -m tests.proofs.bench.listing [cluster | static BYTES]

The api is a separate process in front of an embedded cluster that does not change. Both servers
are asked in turns, over keep-alive connections.
"""

import asyncio
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import attrs
import yaml
from aiohttp import web

from gpuruntime.embedded.apiserver.http_listener import serve
from gpuruntime.embedded.apiserver.server import Server
from gpuruntime.kube.transport import JSON
from gpuruntime.models.definitions.crds import crds
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.operations.options import Namespaces
from tests.options import configured
from tests.proofs.bench.connections import Address, Connection, connections
from tests.proofs.bench.embedded_server import DEFINITIONS, send
from tests.proofs.bench.pod_server import kubeconfig_of
from tests.proofs.bench.product import replica
from tests.proofs.bench.rows import Row
from tests.proofs.bench.unit_requests import READY, UNITS, order, spread

PLACE = configured(Namespaces)
EXISTING_UNITS = 10_000
LIMIT = 100
PAGES = EXISTING_UNITS // LIMIT
# Walks over all pages. An earlier walk encodes each view once, and is reported separately.
WALKS = 30
CALLERS = 64
CROWDED_WALKS = 5
MOMENT = "2026-01-01T00:00:00.000000Z"


@attrs.frozen(kw_only=True)
class Walk:
    """Seconds of each answer, page by page."""

    pages: list[float]
    static: list[float]


def quietest(walks: list[list[float]], hundredths: int) -> float:
    """Return the quantile, in seconds, of the walk with the least influence of other work."""
    return min(quantiles(each, n=100)[hundredths - 1] for each in walks)


def empty_server() -> Server:
    server = Server(now=lambda: datetime.now(UTC), rng=random.Random(7))
    for definition in crds():
        send(server, "POST", DEFINITIONS, definition)
    for name in attrs.astuple(PLACE):
        send(server, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    return server


def server_with_units() -> Server:
    server = empty_server()
    for number in range(EXISTING_UNITS):
        name = f"unit-{number:05}"
        send(server, "POST", GPU_UNITS.path(namespace=PLACE.instance), unit(name))
        path = GPU_UNITS.path(namespace=PLACE.instance, name=name, subresource="status")
        send(server, "PATCH", path, {"status": status(name)})
    return server


def unit(name: str, *, is_claimed: bool = True) -> dict[str, Any]:
    """Return a unit as the api creates it. A unit that names no stock starts without a claim."""
    asked = order(name, "g1")
    source = {
        labels.SOURCE_STOCK: f"{PLACE.stock}/stock-{name}",
        labels.SOURCE_STOCK_UID: f"00000000-0000-4000-8000-0000000{name[-5:]}",
    }
    spec = {member: asked[member] for member in ("specName", "image", "access", "template")}
    return {
        "apiVersion": GPU_UNITS.api_version,
        "kind": GPU_UNITS.kind,
        "metadata": {
            "name": name,
            "labels": {labels.UNIT: name, labels.SPEC: "g1", labels.MANAGED_BY: labels.MANAGER},
            "annotations": {
                labels.OPERATION_ID: name,
                labels.REQUEST_HASH: "f" * 64,
                labels.ACCEPTED_AT: MOMENT,
                labels.CLAIMED_AT: MOMENT,
                **(source if is_claimed else {}),
            },
        },
        "spec": {**spec, "memory": "16Gi", "cpu": "4", "gpu": 1},
    }


def status(name: str) -> dict[str, Any]:
    """Return the status that the manager writes for a running unit."""
    moments = ("acceptedAt", "claimedAt", "createdAt", "scheduledAt", "startedAt", "readyAt")
    return {
        "phase": "Ready",
        "readyReplicas": 1,
        "observedGeneration": 1,
        "serviceName": f"unit-{name}",
        "accessURL": f"http://unit-{name}.{PLACE.instance}.svc.cluster.local:8080",
        "nodeName": "gpu-0",
        "timeline": dict.fromkeys(moments, MOMENT),
        "conditions": [READY],
    }


async def run_cluster() -> None:
    async with serve(server_with_units()) as url:
        print_line(url)
        await asyncio.Event().wait()


async def run_static(size: int) -> None:
    """Serve these bytes with aiohttp alone."""
    body = b"x" * size

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body, content_type=JSON)

    app = web.Application()
    app.router.add_get(UNITS, answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print_line(f"http://127.0.0.1:{runner.addresses[0][1]}")
    await asyncio.Event().wait()


def print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


@asynccontextmanager
async def process(*arguments: str) -> AsyncIterator[str]:
    """Run this module as a separate process; yield the URL that it prints."""
    command = (sys.executable, "-m", "tests.proofs.bench.listing", *arguments)
    started = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert started.stdout is not None
    try:
        yield (await started.stdout.readline()).decode().strip()
    finally:
        started.kill()
        await started.wait()


async def first_walk(api: Connection) -> tuple[list[str], list[float]]:
    """Return the path of each page, and the seconds of each answer."""
    paths: list[str] = []
    seconds: list[float] = []
    following = cursor = ""
    while following or not paths:
        paths.append(f"{UNITS}?limit={LIMIT}{cursor}")
        begun = time.perf_counter()
        answer = await api.send("GET", paths[-1])
        seconds.append(time.perf_counter() - begun)
        following = answer.document["next"]
        cursor = f"&cursor={following}"
    assert len(paths) == PAGES, len(paths)
    return paths, seconds


async def walk(api: Connection, static: Connection, paths: list[str]) -> Walk:
    """Read each page once beside the static bytes; the order of the two alternates."""
    measured = Walk(pages=[], static=[])
    turns = [(api, measured.pages), (static, measured.static)]
    for path in paths:
        for connection, seconds in turns:
            begun = time.perf_counter()
            await connection.send("GET", path)
            seconds.append(time.perf_counter() - begun)
        turns.reverse()
    return measured


@attrs.frozen(kw_only=True)
class Measured:
    """Seconds of each first read, the walks of one caller, and the rate ratios of many callers."""

    first: list[float]
    walks: list[Walk]
    rate_shares: list[float]


async def pages_a_second(opened: list[Connection], paths: list[str]) -> float:
    async def read(connection: Connection, path: str) -> None:
        await connection.send("GET", path)

    begun = time.perf_counter()
    await spread(opened, CROWDED_WALKS * paths, read)
    return CROWDED_WALKS * len(paths) / (time.perf_counter() - begun)


async def measured() -> Measured:
    async with process("cluster") as cluster:
        with tempfile.TemporaryDirectory() as folder:
            kubeconfig = Path(folder) / "kubeconfig"
            kubeconfig.write_text(yaml.safe_dump(kubeconfig_of(cluster)))
            async with replica(kubeconfig, PLACE) as api:
                return await walked(api)


async def walked(api: Address) -> Measured:
    async with connections(api, CALLERS) as ours:
        paths, seconds = await first_walk(ours[0])
        size = len((await ours[0].send("GET", paths[0])).body)
        async with (
            process("static", str(size)) as url,
            connections(Address(url), CALLERS) as static,
        ):
            walks = [await walk(ours[0], static[0], paths) for _ in range(WALKS)]
            shares = [
                await pages_a_second(ours, paths) / await pages_a_second(static, paths)
                for _ in range(CROWDED_WALKS)
            ]
        return Measured(first=seconds, walks=walks, rate_shares=shares)


def rows() -> Iterator[Row]:
    found = asyncio.run(measured())
    name = f"list page of {LIMIT} at {EXISTING_UNITS:,} units"
    pages, static = [each.pages for each in found.walks], [each.static for each in found.walks]
    yield Row(name=f"{name}, p50", value=1000 * quietest(pages, 50), unit="ms")
    p50 = quietest(pages, 50) / quietest(static, 50)
    yield Row(name=f"{name} ÷ static bytes, p50", value=p50, unit="ratio", at_most=1.6)
    p99 = quietest(pages, 99) / quietest(static, 99)
    yield Row(name=f"{name} ÷ static bytes, p99", value=p99, unit="ratio", at_most=2)
    rate = f"{name} ÷ static bytes, rate of {CALLERS} callers"
    yield Row(name=rate, value=median(found.rate_shares), unit="ratio", at_least=0.6)
    encoding = 1000 * median(found.first)
    yield Row(name="the same, first read of each page, p50", value=encoding, unit="ms")


def main(arguments: list[str]) -> None:
    match arguments:
        case ["cluster"]:
            asyncio.run(run_cluster())
        case ["static", size]:
            asyncio.run(run_static(int(size)))
        case _:
            for row in rows():
                print_line(str(row))


if __name__ == "__main__":
    main(sys.argv[1:])
