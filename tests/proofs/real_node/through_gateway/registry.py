"""An image registry at the loopback that demands a login; containerd takes plain HTTP there."""

import json
import tarfile
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web


@asynccontextmanager
async def registry(archive: Path, username: str, password: str) -> AsyncIterator[str]:
    """Yield the address of a registry that has the archive's image under any name and tag."""
    contents = _contents(archive)
    [manifest] = json.loads(contents["index.json"])["manifests"]
    login = f"Basic {b64encode(f'{username}:{password}'.encode()).decode()}"

    async def serve(request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != login:
            return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="images"'})
        _, kind, reference = request.path.rsplit("/", 2)
        is_tag = kind == "manifests" and ":" not in reference
        digest = manifest["digest"] if is_tag else reference
        headers = {"Docker-Content-Digest": digest}
        if kind == "manifests":
            headers["Content-Type"] = manifest["mediaType"]
        return web.Response(body=contents[f"blobs/{digest.replace(':', '/')}"], headers=headers)

    app = web.Application()
    app.router.add_get("/v2/{path:.*}", serve)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def _contents(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as packed:
        files = ((member.name, packed.extractfile(member)) for member in packed)
        return {name: file.read() for name, file in files if file}
