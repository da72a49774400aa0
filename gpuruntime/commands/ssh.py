"""SSH into a unit: OpenSSH, with this program as its way to the gateway.

The API names the gateway's host keys, so nothing is trusted on first use. The ticket goes to the
gateway with the request that carries the connection, so OpenSSH never sees it.
"""

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gpuruntime.client.errors import CutOffError, UnusableInputError
from gpuruntime.client.tunnels import PIECE_BYTES, Tunnel
from gpuruntime.commands.exit_codes import ExitCode
from gpuruntime.commands.reach import reaching
from gpuruntime.commands.session import Session
from gpuruntime.commands.standard_streams import read_some, write_all
from gpuruntime.concurrency.tasks import first_of
from gpuruntime.errors import ConfigurationError
from gpuruntime.models.views.tickets import TicketView
from gpuruntime.settings.client import ClientSettings

# A ticket from which only host keys are read.
_SHORT_SECONDS: Final = 30
_PRINTF: Final = "/usr/bin/printf"


async def ssh(session: Session) -> int:
    """Become OpenSSH; with `--stdio`, carry its connection, and with `--config`, print a host."""
    asked = session.options
    if asked.stdio:
        return await _carry(session)
    options = await _options_of(session)
    if asked.config:
        session.terminal.answer(_block_of(asked.name, options))
        return ExitCode.DONE
    program = shutil.which("ssh")
    if program is None:
        raise ConfigurationError("ssh is not found: install OpenSSH 8.5 or newer")
    flags = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    session.terminal.done_showing()
    # Our streams and signals become those of OpenSSH.
    os.execv(program, ["ssh", *flags, _host_of(asked.name), *asked.words])  # noqa: S606 - the user's own ssh
    raise AssertionError("a program that was replaced goes on")


async def _carry(session: Session) -> int:
    """Copy between OpenSSH, at the standard streams, and the gateway, until one of them ends."""
    asked, (stdin, stdout, _) = session.options, session.terminal.streams

    async def up(tunnel: Tunnel) -> None:
        while data := await read_some(stdin, PIECE_BYTES):
            await tunnel.write(data)

    async def down(tunnel: Tunnel) -> None:
        while data := await tunnel.read():
            await write_all(stdout, data)

    async with reaching(session, asked.name), session.client.ssh(asked.name) as tunnel:
        try:
            await first_of(up(tunnel), down(tunnel))
        except CutOffError as error:
            session.terminal.report(f"gpuruntime {asked.action}: {error}")
            return ExitCode.CUT_OFF
    return ExitCode.DONE


async def _options_of(session: Session) -> dict[str, str]:
    name = session.options.name
    async with reaching(session, name):
        view = await session.client.ssh_ticket(name, seconds=_SHORT_SECONDS)
    own = [sys.executable, "-m", "gpuruntime", "units", "ssh", "--stdio", name]
    command = shlex.join([*own, *_flags_of(session.settings)])
    alias = _host_of(name)
    lines = [f"{alias} {' '.join(key.split()[:2])}" for key in _host_keys_of(view)]
    keys = " ".join((_PRINTF, r"'%%s\n'", *(f"'{line}'" for line in lines)))
    return {
        "User": name,
        "ProxyCommand": command.replace("%", "%%"),
        "HostKeyAlias": alias,
        "KnownHostsCommand": keys,
        "UserKnownHostsFile": "/dev/null",
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "yes",
        "UpdateHostKeys": "no",
    }


def _host_of(unit: str) -> str:
    return f"gpuruntime-{unit}"


def _host_keys_of(view: TicketView) -> tuple[str, ...]:
    keys = view.ssh.hostKeys if view.ssh else ()
    if not keys:
        raise UnusableInputError(
            "the gateway serves no SSH: ask its operator, or install gpuruntime[local] for dev"
        )
    return keys


def _flags_of(settings: ClientSettings) -> Iterator[str]:
    """Yield the flags of a command that reaches the same API from any folder."""
    if settings.server:
        yield from ("--server", settings.server)
    for flag, path in (("--token-file", settings.token_file), ("--ca-file", settings.ca_file)):
        if path:
            yield from (flag, str(Path(path).absolute()))


def _block_of(name: str, options: dict[str, str]) -> str:
    """Return a block of OpenSSH's own configuration."""
    return "\n".join([f"Host {_host_of(name)}", *(f"  {key} {options[key]}" for key in options)])
