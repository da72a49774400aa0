"""Requests to JetStream: its API, publishes that are stored, and reads of the last message."""

import asyncio
import re
from collections.abc import Mapping
from typing import Any, Final

import attrs
import msgspec

from gpuruntime.bus.connection import Connection
from gpuruntime.bus.errors import (
    FullError,
    MissingError,
    OutcomeUnknownError,
    RefusedError,
    UnavailableError,
    WrongSequenceError,
)
from gpuruntime.bus.names import API
from gpuruntime.bus.session import Message
from gpuruntime.meter import Meter, NullMeter
from gpuruntime.models.encoding.codec import MalformedObjectError, decode_object
from gpuruntime.models.encoding.json import JsonObject

ANSWER_SECONDS: Final = 5.0
# The time limit of a publish, all its attempts included.
PUBLISH_SECONDS: Final = 10.0
PAUSE_SECONDS: Final = 0.1
MOST_IN_FLIGHT: Final = 256
# The broker accepts whole seconds only, and rejects less than one.
SHORTEST_TTL_SECONDS: Final = 1

MESSAGE_ID: Final = "Nats-Msg-Id"
TTL: Final = "Nats-TTL"
EXPECTED_SEQUENCE: Final = "Nats-Expected-Last-Subject-Sequence"
SEQUENCE: Final = "Nats-Sequence"

_NOT_FOUND: Final = 404
_FULL = frozenset({10077})
_WRONG_SEQUENCE = frozenset({10071, 10164})
_NO_MESSAGE: Final = 10037
_MISSING = frozenset({10014, _NO_MESSAGE, 10057, 10059})
_BUSY: Final = 503
_LAST_SEQUENCE = re.compile(r"wrong last sequence: (\d+)")
_encoder = msgspec.json.Encoder()


@attrs.frozen(kw_only=True, slots=True)
class Stored:
    """If `is_duplicate`, the broker knew the message id and stored nothing."""

    stream: str
    sequence: int
    is_duplicate: bool = False


@attrs.frozen(kw_only=True, slots=True)
class StoredMessage:
    subject: str
    data: bytes
    sequence: int


@attrs.frozen(kw_only=True, slots=True)
class _Got:
    """A message as the JetStream API returns it; its bytes are base64 there."""

    subject: str
    seq: int
    data: bytes = b""

    @property
    def stored(self) -> StoredMessage:
        return StoredMessage(subject=self.subject, data=self.data, sequence=self.seq)


class JetStream:
    def __init__(
        self,
        connection: Connection,
        *,
        most_in_flight: int = MOST_IN_FLIGHT,
        meter: Meter = NullMeter(),
    ) -> None:
        self._connection = connection
        self._in_flight = asyncio.Semaphore(most_in_flight)
        self._meter = meter

    async def call(self, verb: str, body: JsonObject | None = None) -> JsonObject:
        """Send one request to the JetStream API; `verb` is its subject after the prefix."""
        data = _encoder.encode(body) if body is not None else b""
        answer = await self._connection.request(
            f"{API}.{verb}", data, within_seconds=ANSWER_SECONDS
        )
        return _answer_of(answer, verb)

    async def publish(
        self,
        subject: str,
        data: bytes,
        *,
        message_id: str = "",
        expected_sequence: int | None = None,
        ttl_seconds: float | None = None,
        within_seconds: float = PUBLISH_SECONDS,
    ) -> Stored:
        """Publish, and retry after lost answers and lost connections.

        A message id or an expected sequence makes the retry safe. Without either, the message may
        be stored twice. Waiting for other publishes in flight counts against `within_seconds`.
        """
        headers = _headers(message_id, expected_sequence, ttl_seconds)
        return await self._publish(subject, data, headers, within_seconds)

    async def last(self, stream: str, subject: str) -> StoredMessage | None:
        """Return the last message of the subject from any replica, or None.

        A replica that lags answers with an older message.
        """
        try:
            answer = await self._connection.request(
                f"{API}.DIRECT.GET.{stream}.{subject}", b"", within_seconds=ANSWER_SECONDS
            )
        except OutcomeUnknownError as error:
            raise UnavailableError(str(error)) from error
        if answer.status == _NOT_FOUND:
            return None
        sequence = answer.headers.get(SEQUENCE, "")
        if answer.status or not sequence.isdigit():
            raise RefusedError(
                f"{stream} {subject}: {answer.status} {answer.description}", answer.status
            )
        return StoredMessage(subject=subject, data=answer.data, sequence=int(sequence))

    async def latest(self, stream: str, subject: str) -> StoredMessage | None:
        """Return the last message from the stream's leader, which has every acknowledged write."""
        return await self._get(stream, {"last_by_subj": subject})

    async def following(
        self, stream: str, subjects: str, *, after: int = 0
    ) -> StoredMessage | None:
        """Return the first message after that sequence whose subject matches, or None."""
        return await self._get(stream, {"seq": after + 1, "next_by_subj": subjects})

    async def delete(self, stream: str, sequence: int) -> None:
        """Delete the message, or raise MissingError if it is already gone."""
        await self.call(f"STREAM.MSG.DELETE.{stream}", {"seq": sequence, "no_erase": True})

    async def _get(self, stream: str, asked: JsonObject) -> StoredMessage | None:
        try:
            answer = await self.call(f"STREAM.MSG.GET.{stream}", asked)
        except OutcomeUnknownError as error:
            raise UnavailableError(str(error)) from error
        except MissingError as error:
            if error.code == _NO_MESSAGE:
                return None
            raise
        try:
            return msgspec.convert(answer.get("message"), _Got).stored
        except msgspec.ValidationError as error:
            raise UnavailableError(f"{stream}: not a JetStream answer") from error

    async def _publish(
        self, subject: str, data: bytes, headers: Mapping[str, str], within_seconds: float
    ) -> Stored:
        may_be_stored = is_asked = False
        problem = "too many publishes in flight"
        try:
            async with asyncio.timeout(within_seconds), self._in_flight:
                while True:
                    try:
                        is_asked, problem = True, "no answer"
                        return await self._publish_once(subject, data, headers)
                    except OutcomeUnknownError as error:
                        may_be_stored, problem = True, str(error)
                    except UnavailableError as error:
                        is_asked, problem = False, str(error)
                    self._meter.count("bus_publishes_retried_total")
                    await asyncio.sleep(PAUSE_SECONDS)
                    await self._connection.connected()
        except TimeoutError as error:
            kind = OutcomeUnknownError if may_be_stored or is_asked else UnavailableError
            raise kind(f"{subject}: not stored in {within_seconds:g} s: {problem}") from error

    async def _publish_once(self, subject: str, data: bytes, headers: Mapping[str, str]) -> Stored:
        message = await self._connection.request(
            subject, data, within_seconds=ANSWER_SECONDS, headers=headers
        )
        answer = _answer_of(message, subject)
        stream, sequence = answer.get("stream"), answer.get("seq")
        if not isinstance(stream, str) or not isinstance(sequence, int):
            raise OutcomeUnknownError(f"{subject}: not a JetStream answer")
        return Stored(
            stream=stream, sequence=sequence, is_duplicate=answer.get("duplicate") is True
        )


def _headers(
    message_id: str, expected_sequence: int | None, ttl_seconds: float | None
) -> dict[str, str]:
    headers = {}
    if message_id:
        headers[MESSAGE_ID] = message_id
    if expected_sequence is not None:
        headers[EXPECTED_SEQUENCE] = str(expected_sequence)
    if ttl_seconds is not None:
        headers[TTL] = f"{max(int(ttl_seconds), SHORTEST_TTL_SECONDS)}s"
    return headers


def _answer_of(message: Message, what: str) -> JsonObject:
    try:
        answer = decode_object(message.data)
    except MalformedObjectError as error:
        raise OutcomeUnknownError(f"{what}: not a JetStream answer") from error
    failure = answer.get("error")
    if isinstance(failure, dict):
        raise _failure(what, failure)
    return answer


def _failure(what: str, error: dict[str, Any]) -> Exception:
    text = str(error.get("description", "no reason given"))
    code = error.get("err_code", 0)
    message = f"{what}: {text} ({code})"
    if code in _WRONG_SEQUENCE:
        last = _LAST_SEQUENCE.search(text)
        return WrongSequenceError(message, code, int(last[1]) if last else None)
    if code in _FULL:
        return FullError(message, code)
    if code in _MISSING:
        return MissingError(message, code)
    if error.get("code") == _BUSY:
        return UnavailableError(message)
    return RefusedError(message, code)
