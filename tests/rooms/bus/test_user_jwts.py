"""Users created on demand, on a real broker that did not know them before."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest

from gpuruntime.bus.connection import Connection
from gpuruntime.bus.errors import BusError, UnavailableError
from gpuruntime.bus.jetstream import JetStream
from gpuruntime.bus.names import Names, worker_rights
from gpuruntime.bus.provisioning import declare_consumer, declare_stream
from gpuruntime.bus.session import Message
from gpuruntime.bus.streams import consumer_declaration, declarations
from gpuruntime.bus.user_jwts import Mint, SigningOptions
from tests.eventually import equals, eventually
from tests.options import configured
from tests.rooms.bus.broker import SMALL, Broker, broker, connection
from tests.rooms.bus.identities import Identity, operated

NAMES = Names("runtime")
MINE, THEIRS = "mine", "theirs"
NOW = datetime(2025, 1, 1, tzinfo=UTC)
SIGNER = Identity("account")
ACCOUNT = Identity("account", signing_keys=(SIGNER,))
SHORT_SECONDS = 0.2


def mint(folder: Path, *, seed: str = "", now: datetime | None = None, **options: Any) -> Mint:
    file = folder / "signer.nk"
    file.write_text(seed or SIGNER.seed)
    chosen = configured(
        SigningOptions, seed_file=str(file), **{"account": ACCOUNT.public, **options}
    )
    return Mint(chosen, NAMES, now=lambda: now or datetime.now(UTC), entropy=Random(1).randbytes)


def claims_in(text: str) -> dict[str, Any]:
    token = text.splitlines()[1]
    body = token.split(".")[1]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return claims


def test_a_user_has_exactly_the_rights_that_its_function_needs(tmp_path: Path) -> None:
    made = mint(tmp_path, now=NOW, lifetime_seconds=3600.0).worker(MINE, "mine-w-1")
    claims = claims_in(made.text)
    rights = worker_rights(NAMES, MINE)
    assert made.expires_at == NOW + timedelta(hours=1)
    assert (claims["exp"], claims["iat"]) == (made.expires_at.timestamp(), NOW.timestamp())
    assert (claims["name"], claims["iss"]) == ("mine-w-1", SIGNER.public)
    assert claims["nats"] == {
        "type": "user",
        "version": 2,
        "issuer_account": ACCOUNT.public,
        "pub": {"allow": list(rights.publish)},
        "sub": {"allow": list(rights.subscribe)},
        **dict.fromkeys(("subs", "data", "payload"), -1),
    }


def test_each_user_has_its_own_key(tmp_path: Path) -> None:
    made = mint(tmp_path)
    texts = [made.worker(MINE, "mine-w-1").text for _ in range(2)]
    assert len({claims_in(text)["sub"] for text in texts}) == 2
    assert "SEED" not in repr(made.worker(MINE, "mine-w-1"))


def test_credentials_are_for_one_purpose(tmp_path: Path) -> None:
    first = mint(tmp_path).purpose(MINE)
    assert mint(tmp_path, lifetime_seconds=1.0).purpose(MINE) == first
    others = {
        mint(tmp_path).purpose(THEIRS),
        mint(tmp_path, account="").purpose(MINE),
        mint(tmp_path, seed=Identity("account").seed).purpose(MINE),
    }
    assert len({first, *others}) == 4


@pytest.mark.parametrize(
    ("seed", "fault"),
    [
        (" ", "is empty"),
        ("SAX", "invalid"),
        ("ü", "invalid"),
        (Identity("user").seed, "not an account seed: an account seed begins with SA"),
    ],
    ids=["blank", "short", "foreign", "a user's"],
)
def test_an_invalid_signing_seed_is_named(tmp_path: Path, seed: str, fault: str) -> None:
    with pytest.raises(UnavailableError, match=fault):
        mint(tmp_path, seed=seed).worker(MINE, "mine-w-1")


@attrs.frozen
class Land:
    """A broker with two functions, each with an invocation, a record and other messages."""

    started: Broker
    folder: Path

    @asynccontextmanager
    async def owner(self) -> AsyncIterator[Connection]:
        file = self.folder / "owner.creds"
        file.write_text(ACCOUNT.credentials_of(Identity("user")))
        async with connection(self.started.url, credentials_file=str(file)) as made:
            yield made

    @asynccontextmanager
    async def worker(self, function: str, **options: Any) -> AsyncIterator[Connection]:
        file = self.folder / f"{function}.creds"
        file.write_text(mint(self.folder, **options).worker(function, f"{function}-w-1").text)
        inbox = NAMES.inbox(function)
        async with connection(
            self.started.url, credentials_file=str(file), inbox_prefix=inbox
        ) as made:
            yield made


@pytest.fixture(scope="module")
def started() -> Iterator[Broker]:
    with broker(*operated(ACCOUNT)) as running:
        yield running


@pytest.fixture
async def land(started: Broker, tmp_path: Path) -> Land:
    found = Land(started, tmp_path)
    async with found.owner() as owner:
        jetstream = JetStream(owner)
        for declaration in declarations(NAMES, SMALL):
            await declare_stream(jetstream, declaration)
        for function in (MINE, THEIRS):
            wanted = consumer_declaration(NAMES, function, ack_wait_seconds=30)
            await declare_consumer(jetstream, NAMES.invocations, wanted)
            for subject in (NAMES.invoke(function), *written(function)):
                await jetstream.publish(subject, b"{}", message_id=subject)
    return found


def written(function: str) -> tuple[str, ...]:
    """Return the subjects that a worker of the function writes to."""
    return (
        NAMES.state(function, "1"),
        NAMES.dead_letter(function, "dl-1"),
        NAMES.body(function, "1", series=1, attempt=1, part=0),
    )


async def stored(jetstream: JetStream) -> dict[str, int]:
    """Return how many messages each stream has, and how many are unacknowledged."""
    told = {}
    for stream in (NAMES.invocations, NAMES.states, NAMES.dead_letters, NAMES.bodies):
        info: Any = await jetstream.call(f"STREAM.INFO.{stream}")
        told[stream] = info["state"]["last_seq"]
    for function in (MINE, THEIRS):
        info = await jetstream.call(f"CONSUMER.INFO.{NAMES.invocations}.{function}")
        told[function] = info["num_ack_pending"]
    return told


async def test_a_worker_works_with_the_rights_it_was_given(land: Land) -> None:
    heard: list[Message] = []
    async with land.owner() as owner, land.worker(MINE) as worker:
        own, session = JetStream(worker), worker.session
        for subject in written(MINE):
            await own.publish(subject, b"{}", message_id=f"{subject} again")
        assert await own.last(NAMES.states, NAMES.state(MINE, "1")) is not None
        inbox = session.new_inbox()
        await session.subscribe(inbox, heard.append)
        await session.publish(NAMES.next_invocation(MINE), b'{"batch": 1}', reply=inbox)
        await eventually(lambda: heard)
        assert heard[0].subject == NAMES.invoke(MINE)
        assert (await stored(JetStream(owner)))[MINE] == 1
        await worker.request(heard[0].reply, b"+ACK", within_seconds=2.0)
        assert (await stored(JetStream(owner)))[MINE] == 0
        control = NAMES.control(MINE, "mine-w-1")
        async with worker.listening(control, heard.append):
            # The broker answers only after it has registered the listener.
            await own.last(NAMES.states, NAMES.state(MINE, "1"))
            await owner.publish(control, b"{}")
            await eventually(lambda: heard[-1].subject, equals(control))


async def test_a_worker_cannot_change_another_functions_messages(land: Land) -> None:
    api = "$JS.API"
    stream, filtered = NAMES.invocations, NAMES.invoke(MINE)
    forbidden = (
        NAMES.invoke(MINE),
        NAMES.invoke(THEIRS),
        *written(THEIRS),
        NAMES.beat(THEIRS, "theirs-w-1"),
        NAMES.control(MINE, "mine-w-1"),
        NAMES.next_invocation(THEIRS),
        f"{api}.DIRECT.GET.{NAMES.states}.{NAMES.state(THEIRS, '1')}",
        f"{api}.DIRECT.GET.{NAMES.states}",
        f"{api}.STREAM.MSG.GET.{NAMES.states}",
        *(
            f"{api}.{verb}.{each}"
            for each in (stream, NAMES.states, NAMES.dead_letters, NAMES.bodies)
            for verb in ("STREAM.INFO", "STREAM.PURGE", "STREAM.DELETE", "STREAM.MSG.DELETE")
        ),
        *(f"{api}.CONSUMER.{verb}.{stream}.{THEIRS}" for verb in ("INFO", "DELETE", "UNPIN")),
        f"{api}.CONSUMER.CREATE.{stream}.spy.{filtered}",
        f"$JS.ACK.{stream}.{THEIRS}.1.1.1.1.1",
    )
    async with land.owner() as owner, land.worker(MINE) as worker:
        before = await stored(JetStream(owner))
        for subject in forbidden:
            with pytest.raises(BusError):
                await worker.request(subject, b"{}", within_seconds=SHORT_SECONDS)
        assert await stored(JetStream(owner)) == before


async def test_a_worker_receives_no_messages_of_another_function(land: Land) -> None:
    heard: list[Message] = []
    overheard = (
        NAMES.changed(THEIRS, "1"),
        NAMES.control(THEIRS, "theirs-w-1"),
        NAMES.beat(THEIRS, "theirs-w-1"),
        f"{NAMES.inbox(THEIRS)}.1",
        NAMES.wake(THEIRS),
    )
    for subject in (*overheard, "_INBOX.>", f"{NAMES.prefix}.>", ">"):
        async with (
            land.owner() as owner,
            land.worker(MINE) as worker,
            worker.listening(subject, heard.append),
        ):
            for each in overheard:
                await owner.publish(each, b"{}")
            await asyncio.sleep(SHORT_SECONDS / 4)
    assert heard == []


async def test_expired_credentials_are_rejected(land: Land) -> None:
    async with land.worker(MINE, now=NOW, lifetime_seconds=60.0) as worker:
        assert worker.problem != ""


async def test_a_user_that_another_account_signed_is_rejected(land: Land) -> None:
    async with land.worker(MINE, seed=Identity("account").seed) as worker:
        assert worker.problem != ""
