"""A single connection to the broker, from open to close; it never reconnects.

Contract: a request in flight fails at the moment the connection ends. Nothing is kept for a later
connection.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

import attrs
import nats.errors
import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription as NatsSubscription

from gpuruntime.bus.credentials import ConnectionOptions, credentials, without_login
from gpuruntime.bus.errors import (
    BadNameError,
    OutcomeUnknownError,
    TooLargeError,
    UnavailableError,
)

log = structlog.get_logger()


@attrs.frozen(slots=True)
class Message:
    """A received message. `status` is not 0 if the broker itself answers instead."""

    subject: str
    data: bytes
    reply: str = ""
    headers: dict[str, str] = attrs.field(factory=dict)
    status: int = 0
    description: str = ""


Receive = Callable[[Message], None]
NO_RESPONDERS: Final = 503
CLOSE_SECONDS: Final = 1.0
# The first release with a TTL per message that also accounts for expired messages itself.
OLDEST_SERVER: Final = (2, 12)
_STATUS: Final = "Status"
_DESCRIPTION: Final = "Description"


async def open_session(
    options: ConnectionOptions, *, client: Callable[[], "Reader"] | None = None
) -> "Session":
    """Open a session, or raise UnavailableError for any reason. Tests supply the client."""
    secrets = credentials(options)
    session = Session(client() if client else Reader(), options)
    try:
        with kept_cancellation():
            async with asyncio.timeout(options.connect_seconds):
                await session.start(secrets)
    except TimeoutError as error:
        await session.close()
        raise UnavailableError(f"{session.where}: no answer in time") from error
    except (nats.errors.Error, OSError) as error:
        await session.close()
        reason = session.last_error or str(error) or type(error).__name__
        raise UnavailableError(f"{session.where}: {reason}") from error
    except (UnavailableError, asyncio.CancelledError):
        await session.close()
        raise
    return session


class Reader(Client):
    """The library's client, extended to report when its read loop ends.

    The library may still call itself connected then.
    """

    def __init__(self) -> None:
        super().__init__()
        self.at_end: Callable[[], None] = lambda: None

    async def _send_ping(self, future: "asyncio.Future[bool] | None" = None) -> None:
        """Send the PING after all pending commands. In nats-py it overtakes them.

        Its PONG would confirm an UNSUB and messages that the broker has not received yet.
        """
        self._pongs.append(future or asyncio.get_running_loop().create_future())
        await self._send_command(b"PING\r\n")
        await self._flush_pending()

    async def _process_pong(self) -> None:
        """Ignore a PONG whose flush has timed out. Otherwise nats-py ends its read loop."""
        if self._pongs and self._pongs[0].done():
            self._pongs[0] = asyncio.get_running_loop().create_future()
        await super()._process_pong()

    async def _read_loop(self) -> None:
        """End the connection whenever the read loop ends, and do so before it is closed."""
        try:
            await super()._read_loop()
        finally:
            self.at_end()
        await self._process_op_err(nats.errors.UnexpectedEOF())

    async def _close(self, status: int, do_cbs: bool = True) -> None:
        """Close even if pending data cannot be sent any more."""
        try:
            await super()._close(status, do_cbs)
        except OSError:
            self._status = Client.DISCONNECTED
            await super()._close(status, do_cbs)


class Subscription:
    def __init__(self, inner: NatsSubscription) -> None:
        self._inner = inner

    async def close(self) -> None:
        """Unsubscribe, after receiving everything that the broker has sent so far."""
        # An ended connection has ended its subscriptions; a silent broker sends nothing more.
        with kept_cancellation(), suppress(TimeoutError, OSError, nats.errors.Error):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._inner.drain()  # type: ignore[no-untyped-call]  # the library is untyped


class Session:
    def __init__(self, client: Reader, options: ConnectionOptions) -> None:
        self.ended = asyncio.Event()
        self.last_error = ""
        self._client = client
        client.at_end = self._end
        self._options = options
        self._waiting: dict[str, asyncio.Future[Message]] = {}
        self._at_end: set[Callable[[], None]] = set()
        self._inbox = ""
        self._count = 0

    @property
    def where(self) -> str:
        """Return the address without user and password."""
        return without_login(self._options.url)

    async def start(self, secrets: Mapping[str, Any]) -> None:
        options = self._options
        await self._client.connect(
            servers=options.url.split(","),
            name=options.name,
            error_cb=self._on_error,
            allow_reconnect=False,
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=int(options.connect_seconds) or 1,
            ping_interval=options.ping_seconds,  # type: ignore[arg-type]  # passed to sleep
            max_outstanding_pings=2,
            inbox_prefix=options.inbox_prefix,
            **secrets,
        )
        version = self._client.connected_server_version
        if (version.major, version.minor) < OLDEST_SERVER:
            raise UnavailableError(
                f"{self.where}: server {version.major}.{version.minor} is too old: "
                f"install {'.'.join(map(str, OLDEST_SERVER))} or later"
            )
        self._inbox = self._client.new_inbox()
        await self.subscribe(f"{self._inbox}.*", self._on_answer)

    async def close(self) -> None:
        """Close within a time limit.

        A transport whose TLS failed never reports that it is closed.
        """
        with kept_cancellation(), suppress(TimeoutError, OSError, nats.errors.Error):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._client.close()

    def new_inbox(self) -> str:
        return self._client.new_inbox()

    def at_end(self, callback: Callable[[], None]) -> None:
        self._at_end.add(callback)

    def forget(self, callback: Callable[[], None]) -> None:
        self._at_end.discard(callback)

    async def publish(
        self,
        subject: str,
        data: bytes,
        *,
        reply: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Hand the message to the socket. This does not mean that the broker has received it."""
        try:
            with kept_cancellation():
                await self._client.publish(
                    subject, data, reply=reply, headers=dict(headers) if headers else None
                )
        except nats.errors.MaxPayloadError as error:
            raise TooLargeError(
                f"{subject}: {len(data)} bytes are more than the broker's max_payload"
            ) from error
        except nats.errors.BadSubjectError as error:
            raise BadNameError(f"{subject[:200]!r} is not a valid subject") from error
        except (nats.errors.Error, OSError) as error:
            raise UnavailableError(f"{self.where}: {_reason(error)}") from error

    async def request(
        self,
        subject: str,
        data: bytes,
        *,
        within_seconds: float,
        headers: Mapping[str, str] | None = None,
    ) -> Message:
        self._count += 1
        token = str(self._count)
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[token] = answer
        try:
            if self.ended.is_set():
                raise UnavailableError(f"{self.where}: the connection has ended")
            await self.publish(subject, data, reply=f"{self._inbox}.{token}", headers=headers)
            async with asyncio.timeout(within_seconds):
                message = await answer
        except TimeoutError as error:
            raise OutcomeUnknownError(
                f"{subject}: no answer within {within_seconds:g} s"
            ) from error
        finally:
            del self._waiting[token]
            answer.cancel()
        if message.status == NO_RESPONDERS:
            raise UnavailableError(f"{subject}: no responder")
        return message

    async def subscribe(self, subject: str, receive: Receive) -> Subscription:
        """Call `receive` for each message, in order; it must not block."""

        async def relay(message: Msg) -> None:
            receive(_message_of(message))

        try:
            with kept_cancellation():
                return Subscription(await self._client.subscribe(subject, cb=relay))
        except (nats.errors.Error, OSError) as error:
            raise UnavailableError(f"{subject}: {_reason(error)}") from error

    def _on_answer(self, message: Message) -> None:
        waiting = self._waiting.get(message.subject.rpartition(".")[2])
        if waiting is not None and not waiting.done():
            waiting.set_result(message)

    async def _on_error(self, error: Exception) -> None:
        """Keep the error: while connecting, the last one is the reported reason."""
        self.last_error = _reason(error)
        if self._inbox:
            log.warning("broker error", where=self.where, error=self.last_error)

    def _end(self) -> None:
        """Fail all pending requests and run the callbacks. This may be called more than once."""
        self.ended.set()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(
                    OutcomeUnknownError(f"{self.where}: the connection ended before the answer")
                )
        for callback in list(self._at_end):
            callback()


def _message_of(message: Msg) -> Message:
    headers = message.headers
    if not headers:
        return Message(message.subject, message.data, message.reply)
    status = headers.get(_STATUS, "")
    return Message(
        message.subject,
        message.data,
        message.reply,
        {str(name): value for name, value in headers.items()},
        int(status) if status.isdigit() else 0,
        headers.get(_DESCRIPTION, "").strip(),
    )


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__


@contextmanager
def kept_cancellation() -> Iterator[None]:
    """Raise CancelledError at the end of the block if the task was cancelled within it.

    Before Python 3.12, `asyncio.wait_for` may lose a cancellation. It returns normally if its
    result arrives at the same moment.
    """
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    try:
        yield
    finally:
        if task.cancelling() > before:
            raise asyncio.CancelledError
