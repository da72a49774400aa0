"""Raw calls over one Transport: JSON in and out with status and headers, waits with deadlines."""

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
        """The body of a success, and of no other one when a status is given."""
        assert 200 <= self.status < 300, f"{self.status}: {self.body}"
        assert status in {None, self.status}
        document: Document = self.body
        return document

    @property
    def refusal(self) -> tuple[int, str]:
        """The code and reason of a Status, whose own code must be the answer's."""
        assert self.body["kind"] == "Status", self.body
        assert self.body["code"] == self.status
        assert self.body["status"] == "Failure"
        return self.status, self.body.get("reason", "")

    @property
    def causes(self) -> set[tuple[str, str]]:
        """Which field and why, of each fault of a 422: the sentences may differ."""
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
    """The events of one open watch, one by one."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self._lines: list[bytes] = [b""]

    async def next(self) -> Event | None:
        """None when the server has ended the watch."""
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

    async def told(self, count: int) -> list[tuple[str, str]]:
        """The types and names of the next events."""
        return [(event.type, event.name) for event in await self.take(count)]


class Api:
    """One server under test: raw calls for what it answers, the typed client for how we read it.

    After `forget_history` every earlier version is one that the server no longer has. Waits give
    up after `deadline_seconds`: the controllers of a real cluster back off and resync. They run
    from the start; those of an embedded one a test has to run.
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
        """A body of bytes goes out as it is."""
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
        """A new Pod: in a new namespace it is refused until the service account is there."""
        answer = await self.until(
            lambda: self.post(path, body),
            lambda seen: seen.status != 403 or "serviceaccount" not in seen.body["message"],
        )
        return answer.ok(201)

    async def until(self, look: Callable[[], Awaitable[T]], is_done: Callable[[T], object]) -> T:
        """The first look that is done: controllers take their time, on any server."""
        return await eventually(
            look, is_done, within_seconds=self.deadline_seconds, poll_seconds=POLL_SECONDS
        )

    async def settled(self, path: str, is_done: Callable[[Document], object]) -> Document:
        """The object at this path, as soon as it exists and is as wanted."""

        async def look() -> Answer:
            return await self.get(path)

        answer = await self.until(look, lambda seen: seen.status == 200 and is_done(seen.body))
        return answer.ok()

    async def gone(self, path: str) -> None:
        async def look() -> Answer:
            return await self.get(path)

        await self.until(look, lambda seen: seen.status == 404)


def _decoded(body: bytes) -> Any:
    """By its look: the real server sends its OpenAPI index as plain text."""
    return json.loads(body) if body[:1] in {b"{", b"["} else body


def _query(members: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Kubernetes writes true in lower case; `continue_` stands for the keyword."""
    return tuple(
        (name.rstrip("_"), str(value).lower() if isinstance(value, bool) else str(value))
        for name, value in members.items()
    )
