"""Create missing streams and consumers, and leave existing ones as their operator set them.

Only their owners call this; workers configure nothing. An operator's changes stay, unless the
protocol cannot work with them. Then the role reports it instead of losing messages. Only keys that
no operator has a reason to set are updated.
"""

from typing import Final

import structlog

from gpuruntime.bus.errors import (
    MissingError,
    OutcomeUnknownError,
    RefusedError,
    UnfitError,
)
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
    await _update(jetstream, declaration, _config_of(found))
    _compare(f"stream {name}", declaration, found)


async def _update(jetstream: JetStream, declaration: Declaration, config: JsonObject) -> None:
    """Set the keys that are ours alone; go on if this login may not, because few need them."""
    keys = declaration.updated.intersection(differences(declaration, config))
    if not keys:
        return
    ours = {key: declaration.config[key] for key in sorted(keys)}
    try:
        await jetstream.call(f"STREAM.UPDATE.{declaration.name}", {**config, **ours})
    except (RefusedError, OutcomeUnknownError) as error:
        log.warning("stream not updated", stream=declaration.name, reason=str(error), **ours)
    else:
        log.info("stream updated", stream=declaration.name, **ours)


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
    differing = differences(declaration, _config_of(found))
    unfit = sorted(declaration.required.intersection(differing))
    if unfit:
        wanted = ", ".join(f"{key}: {declaration.config[key]}" for key in unfit)
        raise UnfitError(f"{what} cannot be used as it is: set {wanted}")
    if differing:
        log.info("operator's settings kept", what=what, keys=sorted(differing))


def _config_of(found: JsonObject) -> JsonObject:
    config = found.get("config")
    return config if isinstance(config, dict) else {}
