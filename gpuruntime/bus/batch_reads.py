"""Many stored messages for one request, in the order in which they were stored."""

import asyncio
from datetime import datetime
from typing import Final

import attrs
import msgspec

from gpuruntime.bus.connection import Connection
from gpuruntime.bus.errors import RefusedError, UnavailableError
from gpuruntime.bus.jetstream import ANSWER_SECONDS, SEQUENCE, StoredMessage
from gpuruntime.bus.names import API
from gpuruntime.bus.session import NO_RESPONDERS, Message
from gpuruntime.models.encoding.json import JsonObject

_SUBJECT: Final = "Nats-Subject"
_LEFT: Final = "Nats-Num-Pending"
_END: Final = 204
_NOT_FOUND: Final = 404
_encoder = msgspec.json.Encoder()


@attrs.frozen(kw_only=True, slots=True)
class Batch:
    """`left` is the number of further messages that match, after the last one of this batch."""

    messages: tuple[StoredMessage, ...] = ()
    left: int = 0


async def read_batch(
    connection: Connection,
    stream: str,
    subjects: str,
    *,
    after: int | datetime,
    most: int,
    most_bytes: int,
) -> Batch:
    """Return the next messages after the sequence `after`, at least one if there is any.

    If `after` is a moment, return those stored at or after it. A single message may exceed
    `most_bytes`. Any replica may answer; if it lags, the newest messages are missing.
    """
    session = connection.session
    answers: asyncio.Queue[Message | None] = asyncio.Queue()

    def end() -> None:
        answers.put_nowait(None)

    asked = {
        **_start(after),
        "next_by_subj": subjects,
        "batch": most,
        "max_bytes": most_bytes,
    }
    inbox = session.new_inbox()
    session.at_end(end)
    subscription = await session.subscribe(inbox, answers.put_nowait)
    try:
        await session.publish(f"{API}.DIRECT.GET.{stream}", _encoder.encode(asked), reply=inbox)
        async with asyncio.timeout(ANSWER_SECONDS):
            return await _gather(stream, answers)
    except TimeoutError as error:
        raise UnavailableError(f"{stream}: no answer within {ANSWER_SECONDS:g} s") from error
    finally:
        session.forget(end)
        await subscription.close()


def _start(after: int | datetime) -> JsonObject:
    if isinstance(after, datetime):
        return {"start_time": after.isoformat()}
    return {"seq": after + 1}


async def _gather(stream: str, answers: asyncio.Queue[Message | None]) -> Batch:
    found: list[StoredMessage] = []
    while True:
        answer = await answers.get()
        if answer is None or answer.status == NO_RESPONDERS:
            raise UnavailableError(f"{stream}: no responder")
        if answer.status == _NOT_FOUND:
            return Batch()
        left = answer.headers.get(_LEFT, "")
        if answer.status == _END:
            return Batch(messages=tuple(found), left=int(left) if left.isdigit() else 0)
        if answer.status:
            raise RefusedError(f"{stream}: {answer.status} {answer.description}", answer.status)
        found.append(
            StoredMessage(
                subject=answer.headers[_SUBJECT],
                data=answer.data,
                sequence=int(answer.headers[SEQUENCE]),
            )
        )
