"""The broker's configuration as options of the bus."""

from gpuruntime.bus.streams import StreamOptions
from gpuruntime.roles.broker_options import stream_options_of
from gpuruntime.settings.serverless import NatsSettings, StreamSettings


def test_stream_options_follow_the_configuration() -> None:
    chosen = StreamSettings(
        replicas=3, mostQueued=7, mostQueuedPerFunction=5, mostQueuedSize="2Mi"
    )
    assert stream_options_of(NatsSettings(streams=chosen)) == StreamOptions(
        replicas=3,
        most_queued=7,
        most_queued_per_function=5,
        most_queued_bytes=2 * 1024 * 1024,
    )
