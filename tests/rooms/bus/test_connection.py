import asyncio
import socket
import struct
from operator import not_
from pathlib import Path
from typing import Any, cast

import attrs
import nats.errors
import pytest

from gpuruntime.bus.connection import Connection
from gpuruntime.bus.credentials import ConnectionOptions
from gpuruntime.bus.errors import (
    BadNameError,
    OutcomeUnknownError,
    TooLargeError,
    UnavailableError,
)
from gpuruntime.bus.session import Message, Receive, Session
from tests.eventually import equals, eventually
from tests.rooms.bus.broker import Broker, broker, connection
from tests.rooms.bus.identities import Identity, operated
from tests.rooms.kube.servers import Authority

NOBODY = "nats://127.0.0.1:1"


async def connects(url: str, **options: Any) -> str:
    """Return the reason why it cannot connect, or ""."""
    async with connection(url, **options) as made:
        return made.problem


async def until_connected(made: Connection) -> None:
    async with asyncio.timeout(10):
        await made.connected()


async def test_without_a_broker_it_reports_why_and_keeps_trying() -> None:
    async with connection(NOBODY) as made:
        assert not made.is_connected
        assert "127.0.0.1:1" in made.problem
        with pytest.raises(UnavailableError, match="broker not reachable"):
            await made.publish("a", b"")


async def test_it_reconnects_after_a_kill_and_listeners_receive_again(own: Broker) -> None:
    heard: asyncio.Queue[Message] = asyncio.Queue()
    async with connection(own.url) as made, made.listening("a", heard.put_nowait):
        own.kill()
        await eventually(lambda: made.is_connected, not_)
        assert made.problem
        own.start()
        await until_connected(made)
        await made.publish("a", b"again")
        async with asyncio.timeout(5):
            assert (await heard.get()).data == b"again"


async def test_a_request_in_flight_fails_when_the_connection_ends(own: Broker) -> None:
    loop = asyncio.get_running_loop()
    async with connection(own.url) as made, made.listening("quiet", lambda _: None):
        loop.call_later(0.1, own.kill)
        started = loop.time()
        with pytest.raises(OutcomeUnknownError):
            await made.request("quiet", b"", within_seconds=30)
        assert loop.time() - started < 5


async def test_a_request_without_an_answer_differs_from_one_without_a_responder(
    shared: Broker,
) -> None:
    async with connection(shared.url) as made, made.listening("quiet", lambda _: None):
        with pytest.raises(OutcomeUnknownError, match="no answer within"):
            await made.request("quiet", b"", within_seconds=0.05)
        with pytest.raises(UnavailableError, match="no responder"):
            await made.request("nobody", b"", within_seconds=5)


async def test_a_message_above_the_limit_and_a_subject_with_a_line_break_are_refused(
    shared: Broker,
) -> None:
    async with connection(shared.url) as made:
        with pytest.raises(TooLargeError, match="3000000 bytes"):
            await made.publish("a", b"x" * 3_000_000)
        with pytest.raises(BadNameError):
            await made.publish("a\r\nPUB b 0\r\n", b"")
        assert made.is_connected


async def test_a_removed_listener_receives_nothing_more(shared: Broker) -> None:
    heard: list[bytes] = []
    async with connection(shared.url) as made:
        async with made.listening("a", lambda message: heard.append(message.data)):
            await made.publish("a", b"1")
        await made.publish("a", b"2")
        await made.session.request("$JS.API.INFO", b"", within_seconds=5)
        assert heard == [b"1"]


async def test_an_answer_after_the_callers_timeout_ends_nothing(own: Broker) -> None:
    async with connection(own.url) as made:
        session = made.session
        own.pause()
        with pytest.raises(nats.errors.TimeoutError):
            await session._client.flush(timeout=1)
        own.resume()
        await session._client.flush(timeout=5)
        assert made.session is session


async def test_a_session_that_has_stopped_reading_is_replaced(shared: Broker) -> None:
    async with connection(shared.url) as made:
        session = made.session

        async def fail(data: bytes) -> None:
            raise KeyError(data)

        session._client._ps.parse = fail  # type: ignore[method-assign,assignment]  # as a defect of it would
        with pytest.raises(OutcomeUnknownError):
            await made.request("$JS.API.INFO", b"", within_seconds=5)
        await until_connected(made)
        assert made.session is not session


async def test_a_session_that_is_reset_with_pending_data_is_replaced() -> None:
    """Its close fails at the pending data, unless the session closes it again."""
    there: list[asyncio.StreamWriter] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there.append(writer)
        writer.write(b'INFO {"version":"2.12.0","max_payload":1000}\r\n')
        await reader.readuntil(b"PING\r\n")
        writer.write(b"PONG\r\n")

    async with await asyncio.start_server(connected, "127.0.0.1", 0) as server:
        url = f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with connection(url) as made:
            session = made.session
            await session._client._send_command(b"PING\r\n")
            reset(there[0])
            await eventually(lambda: len(there) > 1)
            await until_connected(made)
            assert made.session is not session
        for writer in there:
            writer.close()


def reset(writer: asyncio.StreamWriter) -> None:
    """Reset the connection, as the kernel does for a killed process with unread bytes."""
    connected = writer.get_extra_info("socket")
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def test_a_token_is_read_from_its_file_for_every_session(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("wrong\n")
    with broker('authorization { token: "right" }') as started:
        async with connection(started.url, token_file=str(secret)) as made:
            # A broker may close so fast that its error is lost; the next attempt receives it.
            await eventually(lambda: "uthorization" in made.problem)
            secret.write_text("right\n")
            await until_connected(made)


async def test_a_user_connects_with_the_password_of_its_file(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("open sesame")
    with broker('authorization { user: "ali", password: "open sesame" }') as started:
        options = {"user": "ali", "password_file": str(secret)}
        assert await connects(started.url, **options) == ""
        assert await connects(started.url, user="ali") != ""


async def test_an_nkey_connects_and_a_broken_one_is_named(tmp_path: Path) -> None:
    user = Identity("user")
    secret = tmp_path / "user.nk"
    secret.write_text(user.seed)
    with broker(f"authorization {{ users: [{{ nkey: {user.public} }}] }}") as started:
        assert await connects(started.url, nkey_file=str(secret)) == ""
        secret.write_text("SUNOSEED")
        assert "user.nk: invalid nkey seed" in await connects(started.url, nkey_file=str(secret))


@pytest.mark.parametrize(
    ("option", "text", "problem"),
    [
        ("token_file", None, "cannot read"),
        ("token_file", " \n", "is empty"),
        ("credentials_file", "nothing", "has no user JWT and seed"),
        ("ca_file", "nothing", "cannot use the TLS files"),
    ],
)
async def test_an_invalid_secret_is_named_and_may_be_repaired(
    tmp_path: Path, option: str, text: str | None, problem: str
) -> None:
    path = tmp_path / "secret"
    if text is not None:
        path.write_text(text)
    told = await connects(NOBODY, **{option: str(path)})
    assert problem in told
    assert str(path) in told


async def test_a_client_certificate_is_sent_to_a_broker_that_requires_one(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path)
    server, client = authority.issue("server", host="localhost"), authority.issue("client")
    ours = authority.certificate.file
    tls = (
        f'tls {{ cert_file: "{server.file}", key_file: "{server.key}",'
        f' ca_file: "{ours}", verify: true }}'
    )
    with broker(tls) as started:
        url = started.url.replace("127.0.0.1", "localhost")
        showing = {"certificate_file": str(client.file), "key_file": str(client.key)}
        assert await connects(url, ca_file=str(ours), **showing) == ""
        assert await connects(url, ca_file=str(ours)) != ""
        assert await connects(url, **showing) != ""


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"INFO {\r\n", None])
async def test_a_listener_that_is_not_a_broker_is_tried_again(said: bytes | None) -> None:
    tries: list[asyncio.StreamWriter] = []

    async def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tries.append(writer)
        if said is not None:
            writer.write(said)
            writer.close()

    async with await asyncio.start_server(connected, "127.0.0.1", 0) as server:
        url = f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with connection(url, connect_seconds=0.2) as made:
            assert made.problem
            assert not made.is_connected
            await eventually(lambda: len(tries) > 1)
        for writer in tries:
            writer.close()


async def test_a_server_that_is_too_old_is_named_with_the_remedy() -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"version":"2.9.25","max_payload":1000}\r\n')
        await reader.readuntil(b"PING\r\n")
        writer.write(b"PONG\r\n")
        await reader.read()
        writer.close()

    async with await asyncio.start_server(connected, "127.0.0.1", 0) as server:
        told = await connects(f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    assert "server 2.9 is too old: install 2.12 or later" in told


async def test_a_user_connects_with_a_credentials_file(tmp_path: Path) -> None:
    account, user = Identity("account"), Identity("user")
    file = tmp_path / "user.creds"
    file.write_text(account.credentials_of(user))
    with broker(*operated(account)) as started:
        assert await connects(started.url, credentials_file=str(file)) == ""
        assert await connects(started.url) != ""
        file.write_text(file.read_text().replace(user.seed, Identity("user").seed))
        assert await connects(started.url, credentials_file=str(file)) != ""


async def test_the_end_of_a_tls_connection_is_noticed(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = authority.issue("server", host="localhost")
    tls = f'tls {{ cert_file: "{server.file}", key_file: "{server.key}" }}'
    with broker(tls) as started:
        url = started.url.replace("127.0.0.1", "localhost")
        async with connection(url, ca_file=str(authority.certificate.file)) as made:
            assert made.is_connected
            started.kill()
            await eventually(lambda: made.is_connected, not_)
            started.start()
            await until_connected(made)


async def test_a_connection_to_a_silent_broker_is_ended(own: Broker) -> None:
    async with connection(own.url, ping_seconds=0.1) as made:
        own.pause()
        await eventually(lambda: made.is_connected, not_)
        own.resume()
        await until_connected(made)


async def test_an_address_is_reported_without_its_password() -> None:
    told = await connects("nats://ali:sesame@127.0.0.1:1")
    assert "127.0.0.1:1" in told
    assert "sesame" not in told


class SlowSession:
    """A session that lets other tasks run while it subscribes, as with many listeners."""

    where = "nowhere"

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.heard: list[str] = []
        self.let_go: list[str] = []

    async def subscribe(self, subject: str, _: Receive) -> "Heard":
        await asyncio.sleep(1)
        self.heard.append(subject)
        return Heard(self, subject)

    async def close(self) -> None:
        self.ended.set()


@attrs.frozen
class Heard:
    session: SlowSession
    subject: str

    async def close(self) -> None:
        self.session.let_go.append(self.subject)


@pytest.mark.looptime
async def test_listeners_that_arrive_or_leave_while_others_subscribe_are_served() -> None:
    sessions = [SlowSession(), SlowSession()]
    opened = iter(sessions)

    async def opener(_: ConnectionOptions) -> Session:
        return cast(Session, next(opened))

    async with connection(NOBODY, opener=opener) as made, made.listening("stays", print):
        async with made.listening("leaves", print):
            sessions[0].ended.set()
            await eventually(lambda: sessions[1].heard, equals(["stays"]))
        async with made.listening("comes", print):
            await until_connected(made)
            assert sorted({*sessions[1].heard} - {*sessions[1].let_go}) == ["comes", "stays"]
