"""A file server for tests: it sends scripted bytes, and records everything that it receives."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from gpuruntime.api.auth.authentication import Guard
from gpuruntime.api.files.limits import FileLimits
from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds.storages import GPU_STORAGES, accessor_name
from gpuruntime.models.kubernetes.network import Service as NetworkService
from tests.rooms.api.service import FILE_LIMITS, Service, service
from tests.rooms.operations.cluster import INSTANCE, Cluster

FILES = "/api/v1/gpu-storages/models/files"
PATIENT_SECONDS = 300
READY = {
    "type": "AccessorReady",
    "status": "True",
    "reason": "AccessorServing",
    "message": "the files are served",
    "lastTransitionTime": "2025-01-01T00:00:00Z",
}

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Upstream:
    """`requests` holds the received heads, `bodies` what followed, and `ends` how each ended."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []
        self.script: Script = saying(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        self.port = 0
        self.open = 0
        self.most_open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            self.requests.append(await reader.readuntil(b"\r\n\r\n"))
            await self.script(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            self.open -= 1

    @property
    def head(self) -> dict[str, str]:
        """The headers of the last request, in lower case."""
        lines = self.requests[-1].decode().split("\r\n")[1:-2]
        return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}

    @property
    def line(self) -> str:
        return self.requests[-1].decode().partition("\r\n")[0]


def saying(*parts: bytes, then: Script | None = None) -> Script:
    """Send all parts at once, then run `then` or close the connection."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
        if then:
            await then(reader, writer)

    return script


def answer(status: str, *headers: bytes, body: bytes = b"") -> bytes:
    lines = (f"HTTP/1.1 {status}".encode(), b"Content-Length: %d" % len(body), *headers)
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


async def until_closed(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    while await reader.read(65_536):
        pass


def add_storage(
    api: Service,
    cluster: Cluster,
    port: int,
    *,
    name: str = "models",
    enabled: bool = True,
    writable: bool = True,
) -> None:
    """Add a storage whose accessor is ready at this port of the machine."""
    body = {
        "apiVersion": GPU_STORAGES.api_version,
        "kind": GPU_STORAGES.kind,
        "metadata": {"name": name},
        "spec": {"size": "1Gi", "accessor": {"enabled": enabled, "writable": writable}},
    }
    made = cluster.call("POST", GPU_STORAGES.path(namespace=INSTANCE), body)
    set_condition(cluster, name)
    put_service(api, port, owner=made["metadata"]["uid"], name=name)


def set_condition(cluster: Cluster, name: str = "models", **changes: str) -> None:
    path = GPU_STORAGES.path(namespace=INSTANCE, name=name, subresource="status")
    cluster.call("PATCH", path, {"status": {"conditions": [{**READY, **changes}]}})


def put_service(
    api: Service, port: int, *, owner: str, name: str = "models", address: str = "127.0.0.1"
) -> None:
    """Put the Service into the store, as an informer would."""
    reference: JsonObject = {"kind": "GPUStorage", "uid": owner, "controller": True}
    metadata: JsonObject = {
        "name": accessor_name(name),
        "namespace": INSTANCE,
        "uid": f"service-{name}",
        "resourceVersion": "1",
        "ownerReferences": [reference],
    }
    spec: JsonObject = {"clusterIP": address, "ports": [{"port": port}]}
    made = codec.decode(codec.encode({"metadata": metadata, "spec": spec}), NetworkService)
    api.services.put(made.metadata.key, made)


@asynccontextmanager
async def listening(upstream: Upstream) -> AsyncIterator[int]:
    server = await asyncio.start_server(upstream.serve, "127.0.0.1", 0)
    upstream.port = server.sockets[0].getsockname()[1]
    async with server:
        yield upstream.port


@asynccontextmanager
async def filing(
    cluster: Cluster | None = None,
    *,
    limits: FileLimits = FILE_LIMITS,
    enabled: bool = True,
    writable: bool = True,
    guard: Guard | None = None,
) -> AsyncIterator[tuple[Service, Upstream]]:
    """Yield the API and the upstream, which has the files of the storage `models`."""
    cluster, upstream = cluster or Cluster(), Upstream()
    async with (
        listening(upstream) as port,
        service(cluster, files=limits, guard=guard) as api,
    ):
        add_storage(api, cluster, port, enabled=enabled, writable=writable)
        yield api, upstream


async def send(api: Service, *parts: bytes) -> bytes:
    """Send the parts; return all bytes until the API closes or is silent for a while."""
    assert api.client.port
    reader, writer = await asyncio.open_connection("127.0.0.1", api.client.port)
    received = b""
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
        async with asyncio.timeout(PATIENT_SECONDS):
            while data := await reader.read(65_536):
                received += data
        return received
    except ConnectionResetError:
        return received + CUT
    finally:
        writer.close()


# Appended to an answer that was cut off.
CUT = b"<cut>"


def request(
    method: str = "GET",
    path: str = "/a.bin",
    *headers: bytes,
    body: bytes = b"",
    root: str = FILES,
) -> bytes:
    lines = [f"{method} {root}{path} HTTP/1.1".encode(), b"Host: here", b"Connection: close"]
    return b"\r\n".join((*lines, *headers)) + b"\r\n\r\n" + body
