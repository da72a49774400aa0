"""The broker's part of the configuration as the options of a connection."""

from gpuruntime.bus.credentials import ConnectionOptions
from gpuruntime.serverless_settings import NatsSettings


def connection_options_of(
    nats: NatsSettings, *, name: str, inbox_prefix: str = "_INBOX"
) -> ConnectionOptions:
    """`name` is what the broker's own listings show."""
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
