"""What the configuration says of the broker, as the bus gets it."""

from gpuruntime.bus.streams import StreamOptions
from gpuruntime.roles.broker_options import stream_options_of
from gpuruntime.settings.serverless import NatsSettings, StreamSettings


def test_streams_are_made_as_the_configuration_has_them() -> None:
    chosen = StreamSettings(
        replicas=3, mostQueued=7, mostQueuedPerFunction=5, mostQueuedSize="2Mi"
    )
    assert stream_options_of(NatsSettings(streams=chosen)) == StreamOptions(
        replicas=3,
        most_queued=7,
        most_queued_per_function=5,
        most_queued_bytes=2 * 1024 * 1024,
    )


def test_without_a_choice_they_are_as_the_bus_makes_them() -> None:
    assert stream_options_of(NatsSettings()) == StreamOptions()
