"""How a request reaches an API server: one Protocol, over HTTP or inside this process."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import attrs

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"


@attrs.frozen(kw_only=True, slots=True)
class Request:
    """The path is already quoted; the query is not.

    The fence has been asked once; a transport that waits before it sends asks it again.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    content_type: str = JSON
    accept: str = JSON
    timeout_seconds: float = 30.0
    fence: Callable[[], None] | None = None


@attrs.frozen(kw_only=True, slots=True)
class Response:
    """Header names are lower case."""

    status: int
    headers: Mapping[str, str] = attrs.field(factory=dict)
    body: bytes = b""


class StreamResponse(Protocol):
    """An answer whose body comes bit by bit; chunk borders mean nothing."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    def chunks(self) -> AsyncIterator[bytes]:
        """Ends when the server ends the body; raises UnreachableError when the connection dies."""
        ...


class Transport(Protocol):
    """Any HTTP status is an answer, not an error: the client above tells what it means.

    Raises UnreachableError when the request surely did not reach the server, and
    OutcomeUnknownError when it may have: a lost answer, or a deadline that passed.
    """

    async def request(self, request: Request) -> Response: ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        """The request's timeout bounds the time to the response's head, not its body."""
        ...
