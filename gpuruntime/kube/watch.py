"""A watch window: the changes of a collection after a version, until the window ends.

The server ends a window in order; otherwise it ends with an error of this room. Either way the
next window continues from the last version received. The order of versions is not promised: the
store decides which objects are news.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from enum import StrEnum
from random import Random
from typing import Generic, TypeVar

import attrs
import msgspec

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.kube.answers import (
    Call,
    Status,
    TypeMeta,
    api_error,
    demand_kind,
    error_of,
    kind_of,
    status_of,
)
from gpuruntime.kube.client import accept_of, collection_path
from gpuruntime.kube.errors import (
    KubeError,
    MalformedAnswerError,
    OutcomeUnknownError,
    SilentWatchError,
    UnreachableError,
)
from gpuruntime.kube.transport import Request, Response, StreamResponse, Transport
from gpuruntime.models.encoding import codec
from gpuruntime.models.kubernetes.metadata import KubernetesObject, PartialObject
from gpuruntime.models.kubernetes.resources import Resource

ObjectT = TypeVar("ObjectT", bound=KubernetesObject)

# The shortest and the longest window that a client asks for.
WINDOW_SECONDS = (300, 600)
# The server sends a bookmark about every minute: a longer silence means a dead connection.
IDLE_LIMIT_SECONDS = 75.0
# How much longer than requested the server may keep the window open.
OVERTIME_SECONDS = 30.0
GONE_REASONS = frozenset({"Expired", "Gone"})


class ChangeType(StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@attrs.frozen(kw_only=True, slots=True)
class Change(Generic[ObjectT]):
    """A change of an object. A deletion carries the last state, at the version of the deletion."""

    type: ChangeType
    object: ObjectT


@attrs.frozen(kw_only=True, slots=True)
class Bookmark:
    """All changes up to this version have been sent; empty if the server named no version."""

    resource_version: str = ""


@attrs.frozen(kw_only=True, slots=True)
class Selection:
    """The wanted objects of a kind; an empty member selects all."""

    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""


EVERYTHING = Selection()


@attrs.frozen(kw_only=True, slots=True)
class _Envelope:
    type: str = ""
    object: msgspec.Raw = msgspec.Raw()


@attrs.frozen(kw_only=True, slots=True)
class _TypedEnvelope:
    object: TypeMeta


class Lines:
    """Split chunks into whole lines. A byte is copied twice, however many chunks a line takes."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the finished lines. The rest after the last newline waits for the next chunk."""
        first, *others = chunk.split(b"\n")
        self._pieces.append(first)
        if not others:
            return []
        lines = [b"".join(self._pieces), *others]
        self._pieces = [lines.pop()]
        return [line for line in lines if line and not line.isspace()]


@asynccontextmanager
async def open_window(
    transport: Transport,
    resource: Resource[ObjectT],
    resource_version: str,
    *,
    rng: Random,
    selection: Selection = EVERYTHING,
    window_seconds: tuple[int, int] = WINDOW_SECONDS,
) -> AsyncIterator[AsyncIterator[Change[ObjectT] | Bookmark]]:
    """Open a window. The context is entered once the server has accepted the watch."""
    call = Call("watch", str(resource), selection.namespace)
    seconds = rng.randint(*window_seconds)
    request = _request(resource, resource_version, selection, seconds)
    async with AsyncExitStack() as stack:
        try:
            response = await stack.enter_async_context(transport.stream(request))
        except (UnreachableError, OutcomeUnknownError) as error:
            raise UnreachableError(f"{call}: {error}") from error
        ends_at = loop_time() + seconds + OVERTIME_SECONDS
        chunks = await stack.enter_async_context(aclosing(_chunks(response, call, ends_at)))
        if response.status != 200:
            raise await _refusal(response, chunks, call)
        yield await stack.enter_async_context(aclosing(_events(chunks, resource, call)))


def _request(
    resource: Resource[ObjectT], resource_version: str, selection: Selection, seconds: int
) -> Request:
    query = {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": resource_version,
        "timeoutSeconds": str(seconds),
        "labelSelector": selection.label_selector,
        "fieldSelector": selection.field_selector,
    }
    return Request(
        method="GET",
        path=collection_path(resource, selection.namespace),
        query=tuple((name, value) for name, value in query.items() if value),
        accept=accept_of(resource),
    )


async def _chunks(
    response: StreamResponse, call: Call, ends_at: float
) -> AsyncGenerator[bytes, None]:
    """Yield until the body ends or the server overruns the window's time."""
    chunks = response.chunks()
    until = ends_at
    try:
        while True:
            until = min(loop_time() + IDLE_LIMIT_SECONDS, ends_at)
            async with asyncio.timeout_at(until):
                chunk = await anext(chunks, None)
            if chunk is None:
                return
            yield chunk
    except TimeoutError as error:
        if until < ends_at:
            raise SilentWatchError(f"{call}: silent for {IDLE_LIMIT_SECONDS:g} s") from error
    except (UnreachableError, OutcomeUnknownError) as error:
        raise UnreachableError(f"{call}: {error}") from error
    finally:
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()


async def _refusal(
    response: StreamResponse, chunks: AsyncIterator[bytes], call: Call
) -> KubeError:
    body = b"".join([chunk async for chunk in chunks])
    return error_of(Response(status=response.status, headers=response.headers, body=body), call)


async def _events(
    chunks: AsyncIterator[bytes], resource: Resource[ObjectT], call: Call
) -> AsyncGenerator[Change[ObjectT] | Bookmark, None]:
    decoder = _ChangeDecoder(resource, call)
    lines = Lines()
    async for chunk in chunks:
        for line in lines.feed(chunk):
            event = decoder.event_of(line)
            if event is not None:
                yield event


class _ChangeDecoder(Generic[ObjectT]):
    """_ChangeDecoder decodes a change in one pass, and other lines in a second one."""

    def __init__(self, resource: Resource[ObjectT], call: Call) -> None:
        self._model: type[Change[ObjectT]] = Change[resource.type]  # type: ignore[name-defined]  # known only now
        self._kind = kind_of(resource)
        # API servers write the kind first, and built-in kinds before their version.
        self._usual_start = re.compile(
            rb'{"type":"[A-Z]+","object":{(?:"apiVersion":"[^"\\]*",)?"kind":"%s"'
            % re.escape(self._kind.encode())
        )
        self._call = call

    def event_of(self, line: bytes) -> Change[ObjectT] | Bookmark | None:
        """Return the event, or None for an unknown type. Raise a KubeError for another kind."""
        try:
            change = codec.decode(line, self._model)
        except codec.MalformedObjectError as error:
            return _other_event_of(line, self._call, error)
        if not self._usual_start.match(line):
            found = codec.decode(line, _TypedEnvelope).object.kind
            demand_kind(found, self._kind, self._call)
        return change


def _other_event_of(line: bytes, call: Call, fault: codec.MalformedObjectError) -> Bookmark | None:
    try:
        envelope = codec.decode(line, _Envelope)
    except codec.MalformedObjectError as error:
        raise MalformedAnswerError(
            f"{call}: a line is not an event ({error}); check that the address is the API server's"
        ) from error
    if envelope.type == "BOOKMARK":
        return _bookmark_of(envelope.object)
    if envelope.type == "ERROR":
        raise _error_in(bytes(envelope.object), call)
    if envelope.type in ChangeType.__members__:
        raise MalformedAnswerError(f"{call}: {fault}") from fault
    return None


def _bookmark_of(raw: msgspec.Raw) -> Bookmark:
    try:
        metadata = codec.decode(bytes(raw), PartialObject).metadata
    except codec.MalformedObjectError:
        return Bookmark()
    return Bookmark(resource_version=metadata.resourceVersion)


def _error_in(body: bytes, call: Call) -> KubeError:
    """Return the error of an ERROR event: 500 without a usable code, 410 by the reason alone."""
    status = status_of(body) or Status(message=body[:300].decode(errors="replace"))
    code = 410 if status.reason in GONE_REASONS else status.code
    return api_error(call, attrs.evolve(status, code=code if code >= 400 else 500))
