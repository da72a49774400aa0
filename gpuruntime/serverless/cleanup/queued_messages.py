"""Takes the message of an invocation that has ended out of its queue, where it can be found."""

import base64
import binascii
from contextlib import suppress

from gpuruntime.bus.errors import BusError, MalformedMessageError
from gpuruntime.bus.jetstream import JetStream
from gpuruntime.bus.messages import Invocation, Record, read
from gpuruntime.bus.names import Names


async def discard_message(jetstream: JetStream, names: Names, ended: Record) -> None:
    """Best effort: one that stays falls at the worker, and its time there ends with its life.

    The record of a running invocation names its message. A stream that was made anew has given
    that number to another one, so that it is looked at first.
    """
    if not ended.sequence:
        return
    with suppress(BusError):
        told = await jetstream.call(f"STREAM.MSG.GET.{names.invocations}", {"seq": ended.sequence})
        if _is_of(told.get("message"), names, ended):
            await jetstream.delete(names.invocations, ended.sequence)


def _is_of(message: object, names: Names, ended: Record) -> bool:
    if not isinstance(message, dict):
        return False
    if message.get("subject") != names.invoke(ended.serverlessRequestID):
        return False
    try:
        invocation = read(base64.b64decode(str(message.get("data", ""))), Invocation)
    except (MalformedMessageError, binascii.Error):
        return False
    return invocation.invocationID == ended.invocationID and invocation.series == ended.series
