"""A simple model of an API server for one kind, correct except where a test scripts an answer."""

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeAlias

import attrs

from gpuruntime.models.encoding import codec
from gpuruntime.models.kubernetes.metadata import Key
from tests.rooms.kube.things import KEY, THINGS, thing

Document: TypeAlias = dict[str, Any]
Query: TypeAlias = dict[str, str]
BOOKMARK_SECONDS = 60.0
# Two times of the virtual clock are equal below this difference.
A_MOMENT = 0.001
FIRST_VERSION = 100


@attrs.frozen(kw_only=True)
class Answer:
    """An answer of chunks; a chunk that raises ConnectionResetError ends the connection."""

    chunks: AsyncIterator[bytes]
    status: int = 200
    headers: dict[str, str] = attrs.field(factory=dict)


@attrs.frozen
class Call:
    at: float
    verb: str
    query: Query

    @property
    def version(self) -> str:
        return self.query.get("resourceVersion", "")


@attrs.frozen
class Event:
    version: int
    at: float
    line: bytes


Script: TypeAlias = Callable[["ModelServer", Query], Answer]


class ModelServer:
    """The model server. Each scripted answer of a verb is used once; then answers are correct."""

    def __init__(self) -> None:
        self.version = FIRST_VERSION
        self.objects: dict[Key, Document] = {}
        self.history: list[Event] = []
        self.compacted = 0
        self.calls: list[Call] = []
        self.scripts: dict[str, deque[Script]] = {
            "list": deque(),
            "metadata": deque(),
            "watch": deque(),
        }
        self.has_bookmarks = True
        # Seconds until an event reaches a watch.
        self.lag_seconds = 0.0
        self._lists: dict[int, list[Document]] = {}
        self._news = asyncio.Event()

    def put(self, name: str, size: int = 1) -> Document:
        key = Key(KEY.namespace, name)
        before = self.objects.get(key)
        self.version += 1
        document = thing(name, size=size, version=str(self.version))
        uid = before["metadata"]["uid"] if before else f"uid-{self.version}"
        document["metadata"]["uid"] = uid
        self.objects[key] = document
        self._record("MODIFIED" if before else "ADDED", document)
        return document

    def delete(self, name: str) -> Document:
        document = self.objects.pop(Key(KEY.namespace, name))
        self.version += 1
        metadata = document["metadata"] | {"resourceVersion": str(self.version)}
        last = document | {"metadata": metadata}
        self._record("DELETED", last)
        return last

    def compact(self) -> None:
        """Expire all watches and continue tokens from before this version."""
        self.version += 1
        self.compacted = self.version

    def script(self, verb: str, *scripts: Script) -> None:
        self.scripts[verb].extend(scripts)

    def called(self, verb: str) -> list[Call]:
        return [call for call in self.calls if call.verb == verb]

    def truth(self) -> dict[Key, tuple[str, int]]:
        return {
            key: (document["metadata"]["resourceVersion"], document["spec"]["size"])
            for key, document in self.objects.items()
        }

    def answer(self, query: Query, *, is_metadata: bool = False) -> Answer:
        verb = "watch" if "watch" in query else "metadata" if is_metadata else "list"
        self.calls.append(Call(asyncio.get_running_loop().time(), verb, query))
        if self.scripts[verb]:
            return self.scripts[verb].popleft()(self, query)
        if verb == "watch":
            return self.watch(query)
        return self.page(query, kind="PartialObjectMetadata" if is_metadata else THINGS.kind)

    def note_refused(self) -> None:
        """Count a connection attempt that was refused."""
        self.calls.append(Call(asyncio.get_running_loop().time(), "refused", {}))

    def page(self, query: Query, *, kind: str = THINGS.kind) -> Answer:
        token = query.get("continue", "")
        version, start = map(int, token.split(":")) if token else (self.version, 0)
        if version < self.compacted:
            return refusal(410, "Expired", "the continue token is too old")
        objects = self._lists.setdefault(version, sorted_objects(self.objects))
        end = start + int(query.get("limit") or len(objects) + 1)
        return listing(
            objects[start:end],
            kind=kind,
            version=version,
            token=f"{version}:{end}" if end < len(objects) else "",
        )

    def watch(self, query: Query) -> Answer:
        if int(query["resourceVersion"]) < self.compacted:
            return refusal(410, "Expired", "too old resource version")
        return Answer(chunks=self.events(query))

    async def events(self, query: Query) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        told = int(query["resourceVersion"])
        ends_at = loop.time() + int(query["timeoutSeconds"])
        bookmark_at = loop.time() + BOOKMARK_SECONDS if self.has_bookmarks else math.inf
        while ends_at - loop.time() > A_MOMENT:
            news = self._news
            arrived, due_at = self._arrived(told)
            for event in arrived:
                told = event.version
                yield event.line
            if bookmark_at - loop.time() < A_MOMENT:
                bookmark_at = loop.time() + BOOKMARK_SECONDS
                # A server that was restored sends its own version, although the watch began at a
                # later one.
                reached = self.version if due_at == math.inf else told
                told = max(told, reached)
                yield bookmark(reached)
            await _wait(news, min(ends_at, bookmark_at, due_at))

    def _arrived(self, told: int) -> tuple[list[Event], float]:
        """Return the events that a watch receives now, and when the next one is due."""
        horizon = asyncio.get_running_loop().time() - self.lag_seconds
        later = [event for event in self.history if event.version > told]
        arrived = [event for event in later if event.at <= horizon + A_MOMENT]
        left = later[len(arrived) :]
        return arrived, left[0].at + self.lag_seconds if left else math.inf

    def _record(self, kind: str, document: Document) -> None:
        now = asyncio.get_running_loop().time()
        self.history.append(Event(self.version, now, event(kind, document)))
        news, self._news = self._news, asyncio.Event()
        news.set()


async def _wait(news: asyncio.Event, until: float) -> None:
    try:
        async with asyncio.timeout_at(until if until < math.inf else None):
            await news.wait()
    except TimeoutError:
        pass


def sorted_objects(objects: dict[Key, Document]) -> list[Document]:
    return [objects[key] for key in sorted(objects)]


def event(kind: str, document: Any) -> bytes:
    return codec.encode({"type": kind, "object": document}) + b"\n"


def bookmark(version: int) -> bytes:
    return event("BOOKMARK", {"kind": "Thing", "metadata": {"resourceVersion": str(version)}})


def error_event(code: int, reason: str) -> bytes:
    return event("ERROR", {"kind": "Status", "status": "Failure", "code": code, "reason": reason})


def listing(
    items: list[Document], *, version: int, kind: str = "Thing", token: str = ""
) -> Answer:
    metadata = {"resourceVersion": str(version)} | ({"continue": token} if token else {})
    body: Document = {
        "kind": f"{kind}List",
        "apiVersion": "v1",
        "metadata": metadata,
        "items": items,
    }
    return whole(codec.encode(body))


def refusal(code: int, reason: str, message: str = "", **headers: str) -> Answer:
    body: Document = {"kind": "Status", "status": "Failure", "code": code, "reason": reason}
    return whole(codec.encode(body | {"message": message}), status=code, headers=headers)


def whole(body: bytes, *, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    return Answer(chunks=pieces(body), status=status, headers=headers or {})


async def pieces(*chunks: bytes, then_reset: bool = False) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
    if then_reset:
        raise ConnectionResetError


async def silence() -> AsyncIterator[bytes]:
    await asyncio.Event().wait()
    yield b""


def refuse(code: int, reason: str, message: str = "", **headers: str) -> Script:
    return lambda _server, _query: refusal(code, reason, message, **headers)


def say(*chunks: bytes, then_reset: bool = False) -> Script:
    """Script a stream of these chunks only."""
    return lambda _server, _query: Answer(chunks=pieces(*chunks, then_reset=then_reset))


def hang() -> Script:
    """Script a stream that stays open and sends nothing."""
    return lambda _server, _query: Answer(chunks=silence())


def say_then_go_on(*chunks: bytes) -> Script:
    """Script a stream that begins with these chunks and continues as a correct watch."""

    async def stream(server: ModelServer, query: Query) -> AsyncIterator[bytes]:
        async for chunk in pieces(*chunks):
            yield chunk
        async for chunk in server.events(query):
            yield chunk

    return lambda server, query: Answer(chunks=stream(server, query))
