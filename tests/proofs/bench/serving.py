"""Runs the Pod server beside a bench and connects the product's own transport to it."""

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import yaml

from gpuruntime.kube.connect.sources import Kubeconfig
from gpuruntime.kube.http import HttpTransport, connect


@asynccontextmanager
async def pod_server(*, pods: int, events: int = 0, rate: float = 0.0) -> AsyncIterator[str]:
    """Gives the URL; the process ends with the block."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.proofs.bench.pod_server",
        str(pods),
        str(events),
        str(rate),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        port = (await process.stdout.readline()).decode().strip()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        await process.wait()


@asynccontextmanager
async def transport_to(url: str) -> AsyncIterator[HttpTransport]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kubeconfig"
        path.write_text(yaml.safe_dump(kubeconfig_of(url)), encoding="utf-8")
        transport = await connect(Kubeconfig(str(path)), now=lambda: datetime.now(UTC))
        try:
            yield transport
        finally:
            await transport.close()


def kubeconfig_of(url: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bench",
        "clusters": [{"name": "bench", "cluster": {"server": url}}],
        "users": [{"name": "bench", "user": {"token": "bench"}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
    }
