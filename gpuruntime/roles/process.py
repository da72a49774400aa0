"""What a role has of the process and the machine that it runs in.

Whatever differs from run to run comes from here: a run can be played again by handing in another.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from random import Random, SystemRandom
from typing import Protocol, TypeAlias

import attrs
from aiohttp import web

from gpuruntime.api.files.file_servers import Way, directly
from gpuruntime.api.http.server import ServerRunner
from gpuruntime.bus.connection import Connection, Opener
from gpuruntime.bus.names import Names
from gpuruntime.bus.session import open_session
from gpuruntime.roles.broker_options import connection_options_of, stream_options_of
from gpuruntime.roles.certificates import context_of
from gpuruntime.roles.cluster_connection import wall_clock
from gpuruntime.roles.options import connection_limits_of
from gpuruntime.roles.role import standing
from gpuruntime.serverless.broker import BrokerLink
from gpuruntime.settings.schema import Address, Settings
from gpuruntime.settings.serverless import NatsSettings
from gpuruntime.telemetry.listener import listen
from gpuruntime.telemetry.metrics import Registry


class RoleContext(Protocol):
    """What a role has around its own work; the group is for what lives as long as the role."""

    def __call__(
        self,
        settings: Settings,
        registry: Registry,
        *,
        not_ready: Callable[[], str],
        facts: Callable[[], Mapping[str, object]],
    ) -> AbstractAsyncContextManager[asyncio.TaskGroup]: ...


# Serves while entered, and tells the address.
Serving: TypeAlias = Callable[[web.Application, Settings], AbstractAsyncContextManager[str]]


def own_identity() -> str:
    """Of one process alone, a restarted one included."""
    return f"{socket.gethostname()}-{os.getpid()}-{SystemRandom().randbytes(4).hex()}"


@asynccontextmanager
async def over_http(app: web.Application, settings: Settings) -> AsyncIterator[str]:
    """Requests in hand have the grace to end."""
    address, grace = settings.listen, settings.shutdownGrace
    limits = connection_limits_of(settings)
    rng = Random()  # noqa: S311 - ids, not secrets
    runner = ServerRunner(app, rng=rng, limits=limits, shutdown_timeout=grace)
    async with context_of(settings.tls) as tls:
        await runner.setup()
        try:
            port = await listen(
                runner, host=address.host, port=address.port, purpose="listen", tls=tls
            )
            scheme = "https" if tls else "http"
            yield f"{scheme}://{Address(address.host or '127.0.0.1', port)}"
        finally:
            await runner.cleanup()


@attrs.frozen(kw_only=True, slots=True)
class Process:
    """Its chance is for jitter and spreading, not for secrets."""

    identity: str = attrs.field(factory=own_identity)
    now: Callable[[], datetime] = wall_clock
    rng: Random = attrs.field(factory=Random)
    standing: RoleContext = standing
    serving: Serving = over_http
    way: Way = directly
    opener: Opener = open_session


def queue_of(nats: NatsSettings, process: Process, registry: Registry, *, role: str) -> BrokerLink:
    """Return the invocation queue of a role that owns its streams; off without a broker."""
    options = connection_options_of(nats, name=f"{role} {process.identity}")
    return BrokerLink(
        Connection(options, rng=process.rng, meter=registry, opener=process.opener),
        Names(nats.subjectPrefix),
        rng=process.rng,
        streams=stream_options_of(nats),
        is_on=bool(nats.url),
        meter=registry,
    )
