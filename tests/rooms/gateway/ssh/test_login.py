"""Logins over real connections: what is accepted, what is refused, and how often."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import asyncssh
import attrs
import pytest

from gpuruntime.gateway.ssh.login import MOST_KEYS, MOST_TRIES
from gpuruntime.models.requests.tickets import Use
from gpuruntime.tickets.tokens import TokenType
from tests.eventually import eventually
from tests.rooms.gateway.ssh.ssh_world import (
    LIMITS,
    OPTIONS,
    USER_KEY,
    SshWorld,
    ssh_world,
)
from tests.rooms.gateway.visitors import NOW, ticket, unit

USER_LINE = USER_KEY.export_public_key().decode().strip()
DEMO = unit()


class Prompts(asyncssh.SSHClient):
    """A client that answers prompts with each of these, and keeps the words that it is told."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.banners: list[str] = []
        self.lost: Exception | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = exc

    def auth_banner_received(self, msg: str, *_: str) -> None:
        self.banners.append(msg)

    def password_auth_requested(self) -> str | None:
        return self.answers.pop(0) if self.answers else None

    def kbdint_auth_requested(self) -> str | None:
        return "" if self.answers else None

    def kbdint_challenge_received(  # type: ignore[override]  # only the last one is of use
        self, *request: Sequence[tuple[str, bool]]
    ) -> list[str]:
        return [self.answers.pop(0) for _ in request[-1]]


async def says_hello(world: SshWorld, **options: Any) -> bool:
    connection = await world.login(**options)
    try:
        return (await connection.run("echo hello")).stdout == "hello\n"
    finally:
        connection.close()
        await connection.wait_closed()


@pytest.mark.parametrize("method", ["password", "keyboard-interactive"])
async def test_a_ticket_is_accepted_as(tmp_path: Path, method: str) -> None:
    async with ssh_world(tmp_path) as world:
        assert await says_hello(world, preferred_auth=method)


async def test_a_listed_key_is_accepted_and_looked_up_at_each_login(tmp_path: Path) -> None:
    async with ssh_world(tmp_path, unit(sshKeys=(USER_LINE,))) as world:
        by_key: dict[str, Any] = {"client_keys": [USER_KEY], "password": None}
        assert await says_hello(world, **by_key)
        world.change(sshKeys=())
        with pytest.raises(asyncssh.PermissionDenied):
            await world.login(**by_key)
        world.change(sshKeys=(USER_LINE,))
        assert await says_hello(world, **by_key)


async def test_a_certificate_for_a_listed_key_is_refused(tmp_path: Path) -> None:
    authority = asyncssh.generate_private_key("ssh-ed25519")
    certificate = authority.generate_user_certificate(USER_KEY, "id", principals=["demo"])
    listed = (authority.export_public_key().decode().strip(),)
    async with ssh_world(tmp_path, unit(sshKeys=listed)) as world:
        with pytest.raises(asyncssh.PermissionDenied):
            await world.login(client_keys=[(USER_KEY, certificate)], password=None)


REFUSED: dict[str, tuple[str, Callable[[], str], str]] = {
    "another unit's ticket": ("other", lambda: ticket(DEMO), "for another unit"),
    "no unit of the name": ("none", lambda: ticket(unit("none")), "does not exist"),
    "no name of a unit": ("Demo; id", lambda: ticket(DEMO), "for another unit"),
    "another use": ("demo", lambda: ticket(DEMO, use=(Use.EXEC,)), "does not allow this use"),
    "an expired one": (
        "demo",
        lambda: ticket(DEMO, exp=int(NOW.timestamp())),
        "has expired",
    ),
    "an earlier unit of the name": ("demo", lambda: ticket(unit(uid="old")), "an earlier one"),
    "a revoked one": ("behind", lambda: ticket(unit("behind")), "has been revoked"),
    "a suspended unit": ("asleep", lambda: ticket(unit("asleep")), "is suspended"),
    "a browser's session": ("demo", lambda: ticket(DEMO, TokenType.SESSION), "is not valid"),
    "an entry": ("demo", lambda: ticket(DEMO, TokenType.ENTRY), "is not valid"),
    "a password": ("demo", lambda: "secret", "is not valid"),
}


@pytest.mark.parametrize(("user", "given", "words"), REFUSED.values(), ids=REFUSED)
async def test_a_refused_ticket_is_refused_in_words(
    tmp_path: Path, user: str, given: Callable[[], str], words: str
) -> None:
    units = (DEMO, unit("other"), unit("behind", generation=1), unit("asleep", suspended=True))
    client = Prompts(given())
    async with ssh_world(tmp_path, *units) as world:
        with pytest.raises((asyncssh.PermissionDenied, asyncssh.IllegalUserName)):
            await world.login(user, password=None, client_factory=lambda: client)
        assert len(world.connections) == 0
    assert words in "".join(client.banners)


async def test_nobody_logs_in_while_revocations_are_unknown(tmp_path: Path) -> None:
    async with ssh_world(tmp_path, unit(sshKeys=(USER_LINE,))) as world:
        world.age = 61.0
        with pytest.raises(asyncssh.PermissionDenied):
            await world.login()
        with pytest.raises(asyncssh.PermissionDenied):
            await world.login(client_keys=[USER_KEY], password=None)


async def test_three_wrong_tickets_end_the_connection(tmp_path: Path) -> None:
    client = Prompts(*["wrong"] * 10)
    async with ssh_world(tmp_path) as world:
        with pytest.raises(asyncssh.Error):
            await world.login(password=None, client_factory=lambda: client)
    assert len(client.answers) == 10 - MOST_TRIES


async def test_an_agent_with_many_keys_still_reaches_its_ticket(tmp_path: Path) -> None:
    keys = [asyncssh.generate_private_key("ssh-ed25519") for _ in range(MOST_KEYS)]
    async with ssh_world(tmp_path) as world:
        assert await says_hello(world, client_keys=keys)
        one_more = [*keys, asyncssh.generate_private_key("ssh-ed25519")]
        with pytest.raises(asyncssh.Error):
            await world.login(client_keys=one_more)


async def test_a_login_has_its_time(tmp_path: Path) -> None:
    options = attrs.evolve(OPTIONS, login_seconds=0.2)
    async with ssh_world(tmp_path, options=options) as world:
        reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
        async with asyncio.timeout(5):
            assert (await reader.read()).startswith(b"SSH-2.0-gpuruntime")
        writer.close()


async def test_only_so_many_may_be_logging_in_at_once(tmp_path: Path) -> None:
    async with ssh_world(tmp_path, options=attrs.evolve(OPTIONS, most_logins=2)) as world:
        waiting = [await asyncio.open_connection("127.0.0.1", world.port) for _ in range(2)]
        for reader, _ in waiting:
            await reader.readline()
        refused, other = await asyncio.open_connection("127.0.0.1", world.port)
        assert await refused.read() == b""
        for writer in (other, *(each for _, each in waiting)):
            writer.close()

        async def is_served() -> bool:
            try:
                return await says_hello(world)
            except (asyncssh.Error, OSError):
                return False

        await eventually(is_served)


async def test_the_limits_of_connections_hold(tmp_path: Path) -> None:
    client = Prompts()
    limits = attrs.evolve(LIMITS, per_ticket=1)
    async with ssh_world(tmp_path, limits=limits) as world, await world.login():
        second = await world.login(client_factory=lambda: client)
        await second.wait_closed()
    assert "1 connections are open, as many as perTicket allows" in str(client.lost)
