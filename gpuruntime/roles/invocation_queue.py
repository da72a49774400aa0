"""The queue of invocations as a role that owns its streams has it."""

from gpuruntime.bus.connection import Connection
from gpuruntime.bus.names import Names
from gpuruntime.roles.broker_options import connection_options_of, stream_options_of
from gpuruntime.roles.process import Process
from gpuruntime.serverless.broker import BrokerLink
from gpuruntime.settings.serverless import NatsSettings
from gpuruntime.telemetry.metrics import Registry


def queue_of(nats: NatsSettings, process: Process, registry: Registry, *, role: str) -> BrokerLink:
    """Off where no broker is configured."""
    options = connection_options_of(nats, name=f"{role} {process.identity}")
    return BrokerLink(
        Connection(options, rng=process.rng, meter=registry, opener=process.opener),
        Names(nats.subjectPrefix),
        rng=process.rng,
        streams=stream_options_of(nats),
        is_on=bool(nats.url),
        meter=registry,
    )
