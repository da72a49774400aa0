"""Requests that most resources share: one object by name, and pages of objects."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final, TypeVar

from gpuruntime.client.errors import UnreadableAnswerError
from gpuruntime.client.messages import (
    Page,
    Reply,
    Request,
    demand_success,
    encoded,
    page_of,
    reply_of,
)
from gpuruntime.client.retries import Repeat
from gpuruntime.client.transport import Transport
from gpuruntime.models.encoding.json import JsonObject

ModelT = TypeVar("ModelT")

PAGE_ITEMS: Final = 500
_NO_QUERY: Final[Mapping[str, object]] = {}


class ResourceCalls:
    """The requests that the verbs of every resource consist of."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    async def read(
        self, path: str, model: type[ModelT], query: Mapping[str, object] = _NO_QUERY
    ) -> Reply[ModelT]:
        answer = await self.transport.exchange(Request(method="GET", path=path, query=query))
        return reply_of(answer, model)

    async def page(
        self, path: str, model: type[ModelT], query: Mapping[str, object] = _NO_QUERY
    ) -> Page[ModelT]:
        answer = await self.transport.exchange(Request(method="GET", path=path, query=query))
        return page_of(answer, model)

    async def post(
        self,
        path: str,
        model: type[ModelT],
        document: JsonObject | None = None,
        *,
        repeat: Repeat,
        timeout_seconds: float | None = None,
    ) -> Reply[ModelT]:
        request = Request(
            method="POST",
            path=path,
            body=None if document is None else encoded(document),
            repeat=repeat,
            timeout_seconds=timeout_seconds,
        )
        return reply_of(await self.transport.exchange(request), model)

    async def put(
        self, path: str, model: type[ModelT], document: JsonObject, *, if_match: str = ""
    ) -> Reply[ModelT]:
        """Change an object; an uncertain outcome is not retried, as others may have changed it
        since.
        """
        request = Request(
            method="PUT",
            path=path,
            body=encoded(document),
            headers={"If-Match": if_match} if if_match else {},
            repeat=Repeat.UNDONE,
        )
        return reply_of(await self.transport.exchange(request), model)

    async def delete(self, path: str, query: Mapping[str, object] = _NO_QUERY) -> None:
        """Delete an object; an uncertain outcome is not retried, as its name may be a new
        object's.
        """
        request = Request(method="DELETE", path=path, query=query, repeat=Repeat.UNDONE)
        demand_success(await self.transport.exchange(request))


async def every(
    fetch: Callable[[str], Awaitable[Page[ModelT]]], cursor: str = ""
) -> AsyncIterator[ModelT]:
    """Yield the items of all pages; objects created or deleted meanwhile shift no other.

    Raise UnreadableAnswerError if a cursor comes twice.
    """
    seen = {cursor}
    while True:
        page = await fetch(cursor)
        for item in page.items:
            yield item
        cursor = page.next
        if not cursor:
            return
        if cursor in seen:
            raise UnreadableAnswerError("the server's pages repeat a cursor")
        seen.add(cursor)
