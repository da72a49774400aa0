"""Raw calls over a transport: JSON with status and headers, and waits with deadlines."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import attrs

from gpuruntime.embedded.cluster import EmbeddedCluster
from gpuruntime.kube.client import Client
from gpuruntime.kube.transport import JSON, MERGE_PATCH, Request, Transport
from tests.eventually import eventually

Document = dict[str, Any]
T = TypeVar("T")

STRATEGIC_PATCH = "application/strategic-merge-patch+json"
EVENT_SECONDS = 20.0
POLL_SECONDS = 0.02


@attrs.frozen(kw_only=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: Any

    def ok(self, status: int | None = None) -> Document:
        """Return the body of a successful answer; with `status`, of exactly this status."""
        assert 200 <= self.status < 300, f"{self.status}: {self.body}"
        assert status in {None, self.status}
        document: Document = self.body
        return document

    @property
    def refusal(self) -> tuple[int, str]:
        """Return code and reason of a Status, after checking that its code equals the answer's."""
        assert self.body["kind"] == "Status", self.body
        assert self.body["code"] == self.status
        assert self.body["status"] == "Failure"
        return self.status, self.body.get("reason", "")

    @property
    def causes(self) -> set[tuple[str, str]]:
        """Return field and reason of each fault of a 422; messages may differ between servers."""
        assert self.refusal == (422, "Invalid"), self.body
        return {(one["field"], one["reason"]) for one in self.body["details"]["causes"]}


@attrs.frozen(kw_only=True)
class Event:
    type: str
    object: Document

    @property
    def name(self) -> str:
        return str(self.object["metadata"]["name"])


class Watch:
    """The events of one open watch."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self._lines: list[bytes] = [b""]

    async def next(self) -> Event | None:
        """Return the next event, or None if the server has ended the watch."""
        async with asyncio.timeout(EVENT_SECONDS):
            while len(self._lines) == 1:
                chunk = await anext(self._chunks, None)
                if chunk is None:
                    assert self._lines == [b""], "the watch ended in the middle of a line"
                    return None
                self._lines[-1:] = (self._lines[-1] + chunk).split(b"\n")
        event = json.loads(self._lines.pop(0))
        return Event(type=event["type"], object=event["object"])

    async def take(self, count: int) -> list[Event]:
        events = [await self.next() for _ in range(count)]
        return [event for event in events if event]

    async def summaries(self, count: int) -> list[tuple[str, str]]:
        """Return the types and names of the next events."""
        return [(event.type, event.name) for event in await self.take(count)]


class Api:
    """A server under test: raw calls show its answers, and the typed client how we read them.

    After `forget_history` the server has compacted all earlier versions. Waits end after
    `deadline_seconds`, because controllers of a real cluster back off and resync. They run from
    the start; those of an embedded cluster only run with the fixture `controllers`.
    """

    def __init__(
        self,
        transport: Transport,
        forget_history: Callable[[], Awaitable[None]],
        *,
        deadline_seconds: float,
        embedded: EmbeddedCluster | None = None,
    ) -> None:
        self.transport = transport
        self.client = Client(transport)
        self.forget_history = forget_history
        self.deadline_seconds = deadline_seconds
        self.embedded = embedded

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = JSON,
        accept: str = JSON,
        **query: Any,
    ) -> Answer:
        """Send a request; a body of bytes is sent unchanged."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        request = Request(
            method=method,
            path=path,
            query=_query(query),
            body=data,
            content_type=content_type,
            accept=accept,
        )
        response = await self.transport.request(request)
        return Answer(
            status=response.status, headers=response.headers, body=_decoded(response.body)
        )

    async def get(self, path: str, *, accept: str = JSON, **query: Any) -> Answer:
        return await self.call("GET", path, accept=accept, **query)

    async def post(self, path: str, body: object, **query: Any) -> Answer:
        return await self.call("POST", path, body, **query)

    async def put(self, path: str, body: object, **query: Any) -> Answer:
        return await self.call("PUT", path, body, **query)

    async def patch(
        self, path: str, body: object, *, content_type: str = MERGE_PATCH, **query: Any
    ) -> Answer:
        return await self.call("PATCH", path, body, content_type=content_type, **query)

    async def delete(self, path: str, body: object = None, **query: Any) -> Answer:
        return await self.call("DELETE", path, body, **query)

    @asynccontextmanager
    async def watch(self, path: str, *, accept: str = JSON, **query: Any) -> AsyncIterator[Watch]:
        asked = {"watch": True, "timeoutSeconds": 60, **query}
        request = Request(method="GET", path=path, query=_query(asked), accept=accept)
        async with self.transport.stream(request) as stream:
            assert stream.status == 200, stream.status
            yield Watch(stream.chunks())

    async def admit(self, path: str, body: Document) -> Document:
        """Create a Pod; a new namespace refuses it until its service account exists."""
        answer = await self.until(
            lambda: self.post(path, body),
            lambda seen: seen.status != 403 or "serviceaccount" not in seen.body["message"],
        )
        return answer.ok(201)

    async def until(self, look: Callable[[], Awaitable[T]], is_done: Callable[[T], object]) -> T:
        """Return the first value that is done: controllers take their time on any server."""
        return await eventually(
            look, is_done, within_seconds=self.deadline_seconds, poll_seconds=POLL_SECONDS
        )

    async def settled(self, path: str, is_done: Callable[[Document], object]) -> Document:
        """Return the object at this path once it exists and is done."""

        async def look() -> Answer:
            return await self.get(path)

        answer = await self.until(look, lambda seen: seen.status == 200 and is_done(seen.body))
        return answer.ok()

    async def gone(self, path: str) -> None:
        async def look() -> Answer:
            return await self.get(path)

        await self.until(look, lambda seen: seen.status == 404)


def _decoded(body: bytes) -> Any:
    """Decode by the first byte: the real server sends its OpenAPI index as plain text."""
    return json.loads(body) if body[:1] in {b"{", b"["} else body


def _query(members: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Write booleans in lower case; `continue_` stands for the keyword."""
    return tuple(
        (name.rstrip("_"), str(value).lower() if isinstance(value, bool) else str(value))
        for name, value in members.items()
    )
