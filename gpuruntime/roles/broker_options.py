"""The options of a broker connection and of its streams, from the configuration."""

from gpuruntime.bus.credentials import ConnectionOptions
from gpuruntime.bus.streams import StreamOptions
from gpuruntime.errors import ConfigurationError
from gpuruntime.settings.options import options_of
from gpuruntime.settings.serverless import NatsSettings


def demand_broker(nats: NatsSettings) -> None:
    """Raise ConfigurationError if no broker is configured."""
    if not nats.url:
        raise ConfigurationError("nats.url is empty: set the URL of the broker")


def connection_options_of(
    nats: NatsSettings, *, name: str, inbox_prefix: str = "_INBOX"
) -> ConnectionOptions:
    """Return the connection's options. The broker lists the connection by `name`."""
    return options_of(ConnectionOptions, nats, name=name, inbox_prefix=inbox_prefix)


def stream_options_of(nats: NatsSettings) -> StreamOptions:
    return options_of(StreamOptions, nats.streams)
