"""The operations listener of a role: liveness, readiness and metrics."""

import asyncio
import errno
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from gpuruntime.errors import ConfigurationError
from gpuruntime.telemetry.metrics import Registry

# A collector that scrapes every minute keeps its connection; an idle one is closed.
IDLE_SECONDS = 75.0
HEADERS = {"Server": "gpuruntime", "X-Content-Type-Options": "nosniff"}
# Connections that wait for accept. Another one is dropped, and its caller retries for a second.
BACKLOG = 1024
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@asynccontextmanager
async def operations_listener(
    *,
    host: str,
    port: int,
    registry: Registry,
    not_ready: Callable[[], str],
    drain: Callable[[], Awaitable[None]] | None = None,
) -> AsyncIterator[int]:
    """Serve until the block ends, and yield the port. `not_ready` returns a reason, or nothing.

    GET /drain answers when `drain` has ended, because a Pod's preStop hook can only send GET.
    """

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        reason = not_ready()
        return web.Response(status=503 if reason else 200, text=f"{reason or 'ok'}\n")

    async def metrics(_: web.Request) -> web.Response:
        families = []
        for family in registry.families():
            families.append(family)
            await asyncio.sleep(0)
        return web.Response(body=b"".join(families), headers={"Content-Type": METRICS_TYPE})

    app = web.Application()
    app.on_response_prepare.append(_replace_headers)
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", metrics)
    if drain is not None:
        app.router.add_get("/drain", _draining(drain), allow_head=False)
    runner = web.AppRunner(
        app,
        access_log=None,
        handle_signals=False,
        shutdown_timeout=1.0,
        keepalive_timeout=IDLE_SECONDS,
    )
    await runner.setup()
    try:
        yield await listen(runner, host=host, port=port, purpose="operations.listen")
    finally:
        await runner.cleanup()


async def _replace_headers(_: web.Request, response: web.StreamResponse) -> None:
    """Replace the Server header, which would disclose versions."""
    response.headers.update(HEADERS)


def _draining(
    drain: Callable[[], Awaitable[None]],
) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def drained(_: web.Request) -> web.Response:
        await drain()
        return web.Response(text="ok\n")

    return drained


async def listen(
    runner: web.AppRunner,
    *,
    host: str,
    port: int,
    purpose: str,
    tls: ssl.SSLContext | None = None,
) -> int:
    """Listen, and return the port, which the caller needs to know if it asked for port 0."""
    site = web.TCPSite(runner, host or None, port, ssl_context=tls, backlog=BACKLOG)
    try:
        await site.start()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            reason = f"{host}:{port} is in use: end what listens there, or choose another address"
        else:
            reason = f"cannot listen on {host}:{port}: {error.strerror}; choose another address"
        raise ConfigurationError(f"{purpose}: {reason}") from error
    return int(runner.addresses[0][1])
