"""The process and the machine as a role sees them.

All that differs between runs comes from here, so another Process can replay a run.
"""

import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from random import Random, SystemRandom
from typing import TypeAlias

import attrs
from aiohttp import web

from gpuruntime.api.http.server import ServerRunner
from gpuruntime.bus.connection import Connection, Opener
from gpuruntime.bus.names import Names
from gpuruntime.bus.session import open_session
from gpuruntime.reconcilers.activity.reader import (
    Fetching,
    ListReplicas,
    fetching_over_http,
)
from gpuruntime.relay.service_addresses import AddressMapping, same_address
from gpuruntime.roles.broker_options import connection_options_of, stream_options_of
from gpuruntime.roles.certificates import context_of
from gpuruntime.roles.cluster_connection import wall_clock
from gpuruntime.roles.options import connection_limits_of
from gpuruntime.roles.role import RoleContext, role_context
from gpuruntime.serverless.broker import BrokerLink
from gpuruntime.settings.schema import Settings
from gpuruntime.settings.serverless import NatsSettings
from gpuruntime.settings.values import Address
from gpuruntime.telemetry.listener import listen
from gpuruntime.telemetry.metrics import Registry

# A context that serves the application and yields its address.
# Serves the application; the number bounds a request's head in bytes.
Serving: TypeAlias = Callable[[web.Application, Settings, int], AbstractAsyncContextManager[str]]


def own_identity() -> str:
    """Return an identity that no other process has, not even this one restarted."""
    return f"{socket.gethostname()}-{os.getpid()}-{SystemRandom().randbytes(4).hex()}"


@asynccontextmanager
async def over_http(
    app: web.Application, settings: Settings, head_bytes: int
) -> AsyncIterator[str]:
    """Serve over HTTP. At the end, requests in progress have the grace to end."""
    address, grace = settings.listen, settings.shutdownGrace
    limits = connection_limits_of(settings, head_bytes=head_bytes)
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
    """The context of a process. `rng` is for jitter and spreading, not for secrets.

    `gateways` lists the gateway's replicas where they are no Pods.
    """

    identity: str = attrs.field(factory=own_identity)
    now: Callable[[], datetime] = wall_clock
    rng: Random = attrs.field(factory=Random)
    role_context: RoleContext = role_context
    serving: Serving = over_http
    map_address: AddressMapping = same_address
    opener: Opener = open_session
    fetching: Fetching = fetching_over_http
    gateways: ListReplicas | None = None


def queue_of(nats: NatsSettings, process: Process, registry: Registry) -> BrokerLink:
    """Return the queue for a role that owns the streams; it is off if no broker is configured."""
    options = connection_options_of(nats, name=f"{registry.role} {process.identity}")
    return BrokerLink(
        Connection(options, rng=process.rng, meter=registry, opener=process.opener),
        Names(nats.subjectPrefix),
        rng=process.rng,
        streams=stream_options_of(nats),
        is_on=bool(nats.url),
        meter=registry,
    )
