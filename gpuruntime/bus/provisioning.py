"""Create missing streams and consumers, and leave existing ones alone.

Only their owners call this; workers configure nothing. An operator's changes stay, unless the
protocol cannot work with them. Then the role reports it instead of losing messages.
"""

from typing import Final

import structlog

from gpuruntime.bus.errors import MissingError, RefusedError, UnfitError
from gpuruntime.bus.jetstream import JetStream
from gpuruntime.bus.streams import Declaration, differences
from gpuruntime.models.encoding.json import JsonObject

log = structlog.get_logger()

# Error codes of a stream or consumer that exists already, perhaps with other settings.
_STREAM_EXISTS: Final = 10058
_CONSUMER_EXISTS: Final = 10148


async def declare_stream(jetstream: JetStream, declaration: Declaration) -> None:
    name = declaration.name
    try:
        found = await jetstream.call(f"STREAM.INFO.{name}")
    except MissingError:
        try:
            await jetstream.call(f"STREAM.CREATE.{name}", declaration.config)
        except RefusedError as error:
            if error.code != _STREAM_EXISTS:
                raise
            found = await jetstream.call(f"STREAM.INFO.{name}")
        else:
            log.info("stream created", stream=name)
            return
    _compare(f"stream {name}", declaration, found)


async def declare_consumer(jetstream: JetStream, stream: str, declaration: Declaration) -> None:
    """Create the consumer; this takes one request if it is missing or as declared."""
    name, config = declaration.name, declaration.config
    try:
        await jetstream.call(
            f"CONSUMER.CREATE.{stream}.{name}.{config['filter_subject']}",
            {"stream_name": stream, "config": config, "action": "create"},
        )
    except RefusedError as error:
        if error.code != _CONSUMER_EXISTS:
            raise
        found = await jetstream.call(f"CONSUMER.INFO.{stream}.{name}")
        _compare(f"consumer {stream}/{name}", declaration, found)


def _compare(what: str, declaration: Declaration, found: JsonObject) -> None:
    config = found.get("config")
    standing = config if isinstance(config, dict) else {}
    differing = differences(declaration, standing)
    unfit = sorted(declaration.required.intersection(differing))
    if unfit:
        wanted = ", ".join(f"{key}: {declaration.config[key]}" for key in unfit)
        raise UnfitError(f"{what} cannot be used as it is: set {wanted}")
    if differing:
        log.info("operator's settings kept", what=what, keys=sorted(differing))
