"""Hostile input of SSH callers, drawn by a seed: each function tries one piece of its kind."""

import base64
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any, Final

import asyncssh
import attrs

from gpuruntime.gateway.ssh.sessions import FAILED
from gpuruntime.models.requests.tickets import Use
from gpuruntime.tickets.tokens import TokenType
from tests.rooms.gateway.ssh.ssh_world import SshWorld
from tests.rooms.gateway.test_mutated_tickets import mutated
from tests.rooms.gateway.visitors import ticket, unit

DEMO: Final = unit()
PASSWORD: Final = ticket(DEMO, use=(Use.SSH,))
OTHERS: Final = (
    ticket(DEMO, use=(Use.EXEC, Use.HTTP, Use.FORWARD)),
    ticket(unit("other")),
    *(ticket(DEMO, kind) for kind in TokenType if kind is not TokenType.TICKET),
)
# A shell that takes one of the words for its own creates this file.
CANARY: Final = "taken-for-a-command"
WORDS: Final = (
    f"$(touch {CANARY})", f"`touch {CANARY}`", f"; touch {CANARY};", f"\ntouch {CANARY}\n",
    f"'; touch {CANARY}; '", f'"; touch {CANARY}; "', "-rf", "--", "-", "-delete", "*", "%s%n",
    "a\nb", "it's", '"', "\\", "~root", "\x1b[2J", "é" * 99, " ", "x" * 255,
)  # fmt: skip
HOSTS: Final = (
    "10.96.0.1", "kubernetes.default.svc", "169.254.169.254", "127.0.0.1.example.com", "0.0.0.0",
    "0x7f.1", "2130706433", "127.1", "::ffff:10.0.0.1", "a" * 4096, "local\nhost", "other",
)  # fmt: skip
SIZES: Final = (0, 1, 80, 65_535, 65_536, 10**6, 2**31, 2**32 - 1)
REFUSED: Final = "refused"
SERVED: Final = "served"
FAILING: Final = "failing"
ENDED: Final = "ended"
_DENIED: Final = (asyncssh.PermissionDenied, asyncssh.IllegalUserName)


@attrs.frozen(kw_only=True)
class Attack:
    """A piece of hostile input at a world, with a good login beside it."""

    rng: Random
    world: SshWorld
    connection: asyncssh.SSHClientConnection

    async def log_in(self, user: str = "demo", **options: object) -> str:
        """Return whether the login is served; it runs nothing."""
        try:
            connection = await self.world.login(user, **options)
        except _DENIED:
            return REFUSED
        connection.close()
        await connection.wait_closed()
        return SERVED

    def text(self) -> str:
        """Return one of the words, or random characters without a slash or a zero."""
        if self.rng.random() < 0.5:
            return self.rng.choice(WORDS)
        drawn = (chr(self.rng.choice((self.rng.randrange(1, 127), 0x2603))) for _ in range(40))
        return "".join(drawn).replace("/", "_")


async def passwords(at: Attack) -> str:
    given = at.rng.choice((mutated(PASSWORD, at.rng), at.rng.choice(OTHERS), at.text()))
    return SERVED if given == PASSWORD else await at.log_in(password=given)


async def users(at: Attack) -> str:
    # OpenSSH and asyncssh send no control characters in a name.
    text = "".join(each for each in at.text() if each.isprintable())
    name = at.rng.choice((text, "Demo", "demo ", "demo\u00ad;", "de mo", "other", "x" * 255))
    return await at.log_in(name, password=PASSWORD)


async def keys(at: Attack) -> str:
    """Offer a key whose line the unit lists, though the line is no sound key."""
    name, key = at.rng.choice(tuple(KEYS.items()))
    offered: object = (key, CERTIFICATE) if name == "a certificate" else key
    return await at.log_in(client_keys=[offered], password=None)


async def environment(at: Attack) -> str:
    name = at.rng.choice(("LD_PRELOAD", "PATH", "BASH_ENV", "ENV", "IFS", "LC_X=Y", at.text()))
    value = f"given-by-a-caller {at.rng.choice((at.text(), 'x' * 100_000))}"
    ended = await at.connection.run("env", env={name: value, "LANG": at.text()}, encoding=None)
    assert ended.exit_status == 0, ended
    output = ended.stdout or b""
    assert isinstance(output, bytes)
    assert b"given-by-a-caller" not in output
    return SERVED


async def sizes(at: Attack) -> str:
    columns, rows = at.rng.choice(SIZES), at.rng.choice(SIZES)
    process = await at.connection.create_process(
        "read x; stty size", term_type="xterm", term_size=(columns, rows)
    )
    process.change_terminal_size(at.rng.choice(SIZES), at.rng.choice(SIZES))
    process.stdin.write("\n")
    ended = await process.wait()
    assert ended.exit_status == 0, ended
    return SERVED


COMMANDS: Final = (
    "true " + "x" * 131_072,
    "true " + "x " * 200_000,
    "true \0 false",
    "true " + " ".join(str(each) for each in range(65)),
    "true '",
    "\udcff".encode("utf-8", "surrogateescape").decode("latin-1"),
)


async def commands(at: Attack) -> str:
    """Run a command on a connection of its own, which one that is too large ends."""
    async with await at.world.login() as connection:
        try:
            ended = await connection.run(at.rng.choice(COMMANDS))
        except asyncssh.ProtocolError:
            return ENDED
    # A program that cannot be run says so, and a shell rejects what it cannot read.
    if ended.exit_status == FAILED:
        return REFUSED
    assert ended.exit_status is not None
    return SERVED if ended.exit_status == 0 else FAILING


async def signals(at: Attack) -> str:
    process = await at.connection.create_process("cat")
    process.send_signal(
        at.rng.choice((at.text(), f"TERM; touch {CANARY}", "-1", "9 1", "x" * 9999))
    )
    process.stdin.write_eof()
    ended = await process.wait()
    assert ended.exit_status == 0, ended
    return SERVED


async def subsystems(at: Attack) -> str:
    name = at.rng.choice((at.text(), "sftp ", "SFTP", "netconf", "x" * 9999))
    try:
        await at.connection.create_session(asyncssh.SSHClientSession, subsystem=name)
    except asyncssh.ChannelOpenError:
        return REFUSED
    return SERVED


async def hosts(at: Attack) -> str:
    try:
        await at.connection.open_connection(at.rng.choice(HOSTS), at.rng.choice((22, 443, 6443)))
    except asyncssh.ChannelOpenError:
        return REFUSED
    return SERVED


async def files(at: Attack) -> str:
    """Write, read, rename and remove a file of a hostile name, in the unit's home."""
    name = at.text().strip(".") or "x"
    content = at.rng.randbytes(at.rng.choice((0, 1, 5000)))
    async with at.connection.start_sftp_client() as client:
        try:
            async with client.open(name, "wb") as file:
                await file.write(content)
        except asyncssh.SFTPError:
            return REFUSED
        async with client.open(name, "rb") as file:
            read: Any = await file.read()
            assert read == content
        await client.posix_rename(name, "renamed")
        await client.posix_rename("renamed", name)
        await client.remove(name)
    return SERVED


def _line_of(key: asyncssh.SSHKey) -> str:
    return key.export_public_key().decode().strip()


_SIGNED: Final = asyncssh.generate_private_key("ssh-ed25519")
_AUTHORITY: Final = asyncssh.generate_private_key("ssh-ed25519")
CERTIFICATE: Final = _AUTHORITY.generate_user_certificate(_SIGNED, "id", principals=["demo"])
KEYS: Final[Mapping[str, asyncssh.SSHKey]] = {
    "a forced command": asyncssh.generate_private_key("ssh-ed25519"),
    "an address": asyncssh.generate_private_key("ecdsa-sha2-nistp256"),
    "DSA": asyncssh.generate_private_key("ssh-dss"),
    "a short RSA key": asyncssh.generate_private_key("ssh-rsa", key_size=1024),
    "a certificate": _SIGNED,
    "an authority": _AUTHORITY,
}
# Lines of the unit, as an object that reached the cluster past the API may have them.
LINES: Final = (
    f'command="touch {CANARY}" {_line_of(KEYS["a forced command"])}',
    f'from="127.0.0.1" {_line_of(KEYS["an address"])}',
    _line_of(KEYS["DSA"]),
    _line_of(KEYS["a short RSA key"]),
    CERTIFICATE.export_certificate().decode().strip(),
    f"cert-authority {_line_of(_AUTHORITY)}",
    f"ssh-ed25519 {base64.b64encode(b'no key').decode()}",
)

Kind = Callable[[Attack], Awaitable[str]]
# The outcomes that each kind of input may have.
KINDS: Final[Mapping[Kind, frozenset[str]]] = {
    passwords: frozenset({REFUSED}),
    users: frozenset({REFUSED}),
    keys: frozenset({REFUSED}),
    environment: frozenset({SERVED}),
    sizes: frozenset({SERVED}),
    commands: frozenset({SERVED, REFUSED, FAILING, ENDED}),
    signals: frozenset({SERVED}),
    subsystems: frozenset({REFUSED}),
    hosts: frozenset({REFUSED}),
    files: frozenset({SERVED, REFUSED}),
}
