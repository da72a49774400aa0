"""The Protocol by which a request reaches an API server, over HTTP or inside this process."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import attrs

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
# For built-in kinds only.
STRATEGIC_PATCH = "application/strategic-merge-patch+json"


@attrs.frozen(kw_only=True, slots=True)
class Request:
    """A request whose path is already quoted and whose query is not.

    The client has called the fence once. A transport that waits before sending calls it again.
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
    """A whole response; header names are looked up in lower case."""

    status: int
    headers: Mapping[str, str] = attrs.field(factory=dict)
    body: bytes = b""


class StreamResponse(Protocol):
    """A response whose body arrives in chunks; their borders mean nothing."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield until the server ends the body. Raise UnreachableError if the connection dies."""
        ...


class Socket(Protocol):
    """An open WebSocket with one reader and any number of senders.

    At most about 512 KiB wait in each direction: a slow reader makes the peer wait.
    """

    @property
    def status(self) -> int: ...

    async def send(self, message: bytes) -> None:
        """Send a message, and wait while too many are on their way. Raise UnreachableError."""
        ...

    async def receive(self) -> bytes | None:
        """Return the next message, or None once the peer has closed the WebSocket.

        Raise UnreachableError if the connection dies, and MalformedAnswerError for a message that
        no API server sends. Then no other message comes.
        """
        ...


class Transport(Protocol):
    """A transport returns any HTTP status as an answer; the client turns it into an error.

    It raises UnreachableError if the request certainly did not reach the server. It raises
    OutcomeUnknownError if the request may have arrived: a lost answer, or a passed deadline.
    """

    async def request(self, request: Request) -> Response: ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        """Open a stream. The request's timeout bounds the response's head, not its body."""
        ...

    def socket(
        self, request: Request, protocol: str
    ) -> AbstractAsyncContextManager[Socket | Response]:
        """Open a WebSocket that speaks the sub-protocol, or yield the server's refusal.

        The request's timeout bounds the opening. The end of the block closes the WebSocket at
        once. Raise MalformedAnswerError if the server opens another one than this.
        """
        ...
