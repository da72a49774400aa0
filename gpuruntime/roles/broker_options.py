"""The options of a broker connection and of its streams, from the configuration."""

from gpuruntime.bus.credentials import ConnectionOptions
from gpuruntime.bus.streams import StreamOptions
from gpuruntime.errors import ConfigurationError
from gpuruntime.settings.serverless import NatsSettings


def demand_broker(nats: NatsSettings) -> None:
    """Raise ConfigurationError if no broker is configured."""
    if not nats.url:
        raise ConfigurationError("nats.url is empty: set the URL of the broker")


def connection_options_of(
    nats: NatsSettings, *, name: str, inbox_prefix: str = "_INBOX"
) -> ConnectionOptions:
    """Return the connection's options. The broker lists the connection by `name`."""
    return ConnectionOptions(
        url=nats.url,
        name=name,
        inbox_prefix=inbox_prefix,
        token_file=nats.tokenFile,
        user=nats.user,
        password_file=nats.passwordFile,
        nkey_file=nats.nkeyFile,
        credentials_file=nats.credentialsFile,
        ca_file=nats.caFile,
        certificate_file=nats.certificateFile,
        key_file=nats.keyFile,
    )


def stream_options_of(nats: NatsSettings) -> StreamOptions:
    given = nats.streams
    return StreamOptions(
        replicas=given.replicas,
        most_queued=given.mostQueued,
        most_queued_per_function=given.mostQueuedPerFunction,
        most_queued_bytes=given.most_queued_bytes,
    )
