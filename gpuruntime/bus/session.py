"""One connection to the broker from its start to its end; it never reconnects.

Contract: a request that is under way when the connection ends fails at that moment, and nothing
is kept back to be sent on a later connection.
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
    """`status` is 0 but for what the broker itself says instead of a message."""

    subject: str
    data: bytes
    reply: str = ""
    headers: dict[str, str] = attrs.field(factory=dict)
    status: int = 0
    description: str = ""


Receive = Callable[[Message], None]
NO_RESPONDERS: Final = 503
CLOSE_SECONDS: Final = 1.0
# The first that keeps a message no longer than each says, and counts such ends on its own.
OLDEST_SERVER: Final = (2, 12)
_STATUS: Final = "Status"
_DESCRIPTION: Final = "Description"


async def open_session(
    options: ConnectionOptions, *, client: Callable[[], "Reader"] | None = None
) -> "Session":
    """Raises UnavailableError, whatever the reason. A given client is one of its own kind."""
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
    """The library's client, whose reading can end while it goes on calling itself connected."""

    def __init__(self) -> None:
        super().__init__()
        self.at_end: Callable[[], None] = lambda: None

    async def _process_pong(self) -> None:
        """One that answers a flush which has given up meanwhile ends the reading otherwise."""
        if self._pongs and self._pongs[0].done():
            self._pongs[0] = asyncio.get_running_loop().create_future()
        await super()._process_pong()

    async def _read_loop(self) -> None:
        """However the reading ends, the connection ends with it, before it is closed."""
        try:
            await super()._read_loop()
        finally:
            self.at_end()
        await self._process_op_err(nats.errors.UnexpectedEOF())

    async def _close(self, status: int, do_cbs: bool = True) -> None:
        """One that breaks off at what cannot be sent any more goes on without it."""
        try:
            await super()._close(status, do_cbs)
        except OSError:
            self._status = Client.DISCONNECTED
            await super()._close(status, do_cbs)


class Subscription:
    def __init__(self, inner: NatsSubscription) -> None:
        self._inner = inner

    async def close(self) -> None:
        """What the broker has sent by now is still received before this returns."""
        # With its connection it is gone anyway, and a broker that is silent sends nothing.
        with kept_cancellation(), suppress(TimeoutError, OSError, nats.errors.Error):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._inner.drain()  # type: ignore[no-untyped-call]  # the library's own


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
        """Without the user and password that an address may hold."""
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
            ping_interval=options.ping_seconds,  # type: ignore[arg-type]  # it only sleeps so long
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
        """Not for ever: a transport whose TLS failed never tells that it is closed."""
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
        """Hands it to the socket, which promises nothing yet."""
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
            raise BadNameError(f"{subject[:200]!r} is no subject") from error
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
            raise UnavailableError(f"{subject}: nobody there answers")
        return message

    async def subscribe(self, subject: str, receive: Receive) -> Subscription:
        """`receive` runs between two awaits; messages come to it in order."""

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
        """While it connects, the last one is the reason that is told."""
        self.last_error = _reason(error)
        if self._inbox:
            log.warning("broker says", where=self.where, error=self.last_error)

    def _end(self) -> None:
        """Once or more often: the first tells everybody."""
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
    """What is cancelled in the block ends as cancelled, whatever the block makes of it.

    The library waits by `asyncio.wait_for`, which before Python 3.12 answers as if nothing had
    happened when what it waits for is there in the moment of the cancellation.
    """
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    try:
        yield
    finally:
        if task.cancelling() > before:
            raise asyncio.CancelledError
