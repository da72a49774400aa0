"""Calls and health checks of the user's container over its unix socket.

Whatever the container does, a call ends with an outcome and no later than its deadline. Each call
opens its own connection. The container could close a reused one just as a call is sent, and the
worker could not know whether the call was received.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp
import attrs
import msgspec

from gpuruntime.bus.messages import NULL, VERSION, Invocation
from gpuruntime.models.encoding.codec import MalformedObjectError, decode
from gpuruntime.models.kinds.invocations import FailureClass, FunctionError
from gpuruntime.worker.options import WorkerOptions
from gpuruntime.worker.outcomes import Answer, Failure, NotCalled, Outcome, words_of

HEALTH_SECONDS: Final = 2.0
# The longest text of the framework that is kept, in characters; of a traceback, the end is kept.
MOST_WORDS: Final = 500
MOST_TRACEBACK: Final = 2_048
# This much is read of an answer that is not 200, for the error that it may carry.
MOST_REFUSAL_BYTES: Final = 64 * 1024
# The limit of headers and other members that stay in the record, wherever the body is stored.
MOST_HEAD_BYTES: Final = 64 * 1024
_OK: Final = 200
_JSON: Final = "application/json"
# Status codes that may change on a retry of the same call.
_PASSING = frozenset({408, 425, 429})
_STATUSES = range(100, 600)
_encoder = msgspec.json.Encoder()


@attrs.frozen(kw_only=True, slots=True)
class Call:
    """The body of a call, as the contract defines it."""

    version: str = VERSION
    invocationID: str
    serverlessRequestID: str
    workerName: str
    workerNamespace: str
    mode: str
    attempt: int
    contentType: str
    headers: dict[str, str]
    attributes: dict[str, str]
    payload: msgspec.Raw
    timeoutSeconds: float


@attrs.frozen(kw_only=True, slots=True)
class ReportedError:
    """An error as received, in which null means the same as an absent member."""

    type: str | None = None
    message: str | None = None
    traceback: str | None = None


@attrs.frozen(kw_only=True, slots=True)
class FrameworkAnswer:
    """An answer as received, in which null means the same as an absent member.

    Every member may be null. So no null forces the decoding that removes all nulls, which would
    also remove the caller's nulls in the body.
    """

    statusCode: int | None = None
    contentType: str | None = None
    headers: dict[str, str | None] | None = None
    body: msgspec.Raw = NULL
    error: str | ReportedError | None = None


@asynccontextmanager
async def framework(options: WorkerOptions) -> AsyncIterator["Framework"]:
    connector = aiohttp.UnixConnector(path=options.framework.socketPath, force_close=True, limit=0)
    async with aiohttp.ClientSession(
        "http://framework",
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        auto_decompress=False,
    ) as session:
        yield Framework(session, options)


class Framework:
    def __init__(self, session: aiohttp.ClientSession, options: WorkerOptions) -> None:
        self._session = session
        self._options = options

    async def problem(self) -> str:
        """Return why it cannot take calls; empty if it reports that it can."""
        try:
            async with (
                asyncio.timeout(HEALTH_SECONDS),
                self._session.get(
                    self._options.framework.healthPath, allow_redirects=False
                ) as got,
            ):
                return "" if got.status == _OK else f"health status {got.status}"
        except TimeoutError:
            return f"no answer about its health within {HEALTH_SECONDS:g} s"
        except (aiohttp.ClientError, OSError) as error:
            return _words(error)

    async def call(
        self, invocation: Invocation, *, attempt: int, within_seconds: float
    ) -> Outcome:
        body = _encoder.encode(self._body(invocation, attempt, within_seconds))
        try:
            async with asyncio.timeout(within_seconds):
                return await self._call(body)
        except TimeoutError:
            error = f"no answer within {within_seconds:.0f} s"
            return Failure(cause=FailureClass.FRAMEWORK_TIMEOUT, error=error)
        except aiohttp.ClientConnectorError as error:
            return NotCalled(f"the framework cannot be reached: {_words(error)}")
        except (aiohttp.ClientError, OSError) as error:
            return _failure(f"the connection to the framework failed: {_words(error)}")

    def _body(self, invocation: Invocation, attempt: int, within_seconds: float) -> Call:
        return Call(
            invocationID=invocation.invocationID,
            serverlessRequestID=invocation.serverlessRequestID,
            workerName=self._options.name,
            workerNamespace=self._options.namespace,
            mode=invocation.mode.value,
            attempt=attempt,
            contentType=invocation.contentType,
            headers=invocation.headers,
            attributes=invocation.attributes,
            payload=invocation.payload,
            timeoutSeconds=within_seconds,
        )

    async def _call(self, body: bytes) -> Outcome:
        async with self._session.post(
            self._options.framework.invokePath,
            data=body,
            headers={"Content-Type": _JSON},
            allow_redirects=False,
        ) as response:
            if response.status != _OK:
                return await self._refused(response)
            if response.content_type != _JSON:
                return _failure(f"an answer of the type {response.content_type[:MOST_WORDS]}")
            data = await _read(response, self._options.most_answer_bytes)
        if data is None:
            limit = self._options.most_answer_bytes
            return _failure(f"an answer of more than {limit} bytes")
        return _answer_of(data)

    async def _refused(self, response: aiohttp.ClientResponse) -> Failure:
        """Return the failure, with the error that the answer carries or else its text."""
        status = response.status
        data = await _read(response, MOST_REFUSAL_BYTES) or b""
        raised = _error_in(data)
        said = words_of(raised) or " ".join(data.decode(errors="replace").split())
        error = f"the framework answered {status}{': ' if said else ''}{said}"
        is_final = 400 <= status < 500 and status not in _PASSING
        return attrs.evolve(_failure(error[:MOST_WORDS], is_final=is_final), raised=raised)


async def _read(response: aiohttp.ClientResponse, most_bytes: int) -> bytes | None:
    """Return the answer, or None if it exceeds the limit; read no further than that."""
    data = bytearray()
    async for chunk in response.content.iter_any():
        data += chunk
        if len(data) > most_bytes:
            return None
    return bytes(data)


def _error_in(data: bytes) -> FunctionError | None:
    try:
        return _function_error(decode(data, FrameworkAnswer).error)
    except MalformedObjectError:
        return None


def _answer_of(data: bytes) -> Outcome:
    try:
        told = decode(data, FrameworkAnswer)
    except MalformedObjectError as error:
        return _failure(f"a malformed answer: {_words(error)}")
    if len(data) - len(bytes(told.body)) > MOST_HEAD_BYTES:
        return _failure(f"an answer with more than {MOST_HEAD_BYTES} bytes beside its body")
    if told.statusCode is not None and told.statusCode not in _STATUSES:
        return _failure(f"an answer with the status {told.statusCode}")
    return _as_answer(told)


def _as_answer(told: FrameworkAnswer) -> Answer:
    headers = told.headers or {}
    given: dict[str, Any] = {
        "statusCode": told.statusCode,
        "contentType": told.contentType,
        "headers": {name: value for name, value in headers.items() if value is not None},
        "body": told.body,
        "error": _function_error(told.error),
    }
    return Answer(**{name: value for name, value in given.items() if value is not None})


def _function_error(told: str | ReportedError | None) -> FunctionError | None:
    """Return the error within its limits, or None if the framework reported none."""
    if isinstance(told, str):
        told = ReportedError(message=told)
    if told is None or not (told.type or told.message or told.traceback):
        return None
    return FunctionError(
        type=(told.type or "")[:MOST_WORDS],
        message=(told.message or "")[:MOST_WORDS],
        traceback=(told.traceback or "")[-MOST_TRACEBACK:],
    )


def _failure(error: str, *, is_final: bool = False) -> Failure:
    return Failure(cause=FailureClass.FRAMEWORK_ERROR, error=error, is_final=is_final)


def _words(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:MOST_WORDS]
