"""Sockets with short paths: the kernel takes 107 bytes, and a test's own folder is longer."""

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import aiohttp

from gpuruntime.framework.server import Handler, Server, serving
from gpuruntime.models.kinds.functions import Framework


@contextmanager
def framework() -> Iterator[Framework]:
    with tempfile.TemporaryDirectory(prefix="fw-") as folder:
        yield Framework(socketPath=str(Path(folder, "made", "framework.sock")))


@asynccontextmanager
async def client(path: str) -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.UnixConnector(path=path)
    async with aiohttp.ClientSession("http://framework", connector=connector) as session:
        yield session


@asynccontextmanager
async def serving_to(handler: Handler) -> AsyncIterator[tuple[Server, aiohttp.ClientSession]]:
    with framework() as where:
        async with serving(handler, where) as server, client(where.socketPath) as session:
            yield server, session
