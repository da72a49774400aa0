"""SSH of the gateway role, if a host key is configured and the extra is installed."""

from __future__ import annotations

import asyncio
import importlib.util
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Final

from gpuruntime.errors import ConfigurationError
from gpuruntime.roles.reloaded_file import read_file
from gpuruntime.roles.ssh_host_key import PUBLIC, public_host_keys
from gpuruntime.settings.gateway import SftpMode
from gpuruntime.settings.options import options_of
from gpuruntime.settings.schema import Settings
from gpuruntime.settings.values import Address

if TYPE_CHECKING:
    from pathlib import Path

    from gpuruntime.gateway.app import GatewayContext, UnitHandler
    from gpuruntime.gateway.containers.port_dialer import PortDialer
    from gpuruntime.gateway.ssh.server import SshServer
    from gpuruntime.gateway.ssh.unit_connection import SshOptions

HOST_KEY: Final = "SSH host key"
# What a caller may send on a channel in advance, and so what one that is not read holds.
WINDOW_BYTES: Final = 512 * 1024
# A replica's connections that have not logged in yet.
MOST_LOGINS: Final = 128
_BACKLOG: Final = 128


def has_ssh() -> bool:
    """Return whether the extra is installed."""
    return importlib.util.find_spec("asyncssh") is not None


def demand_ssh(settings: Settings) -> None:
    """Raise ConfigurationError if SSH is configured and cannot be served."""
    given = settings.gateway.ssh
    if not given.hostKeyFile:
        return
    if not has_ssh():
        raise ConfigurationError(
            "gateway.ssh.hostKeyFile: SSH needs asyncssh: install gpuruntime[ssh], or empty it"
        )
    if not settings.gateway.exec:
        raise ConfigurationError(
            "gateway.ssh.hostKeyFile: SSH runs programs in units, and gateway.exec is false"
        )
    _demand_key(given.hostKeyFile)


def ssh_server(
    settings: Settings, context: GatewayContext, dialer: PortDialer, now: Callable[[], datetime]
) -> SshServer | None:
    """Return the server, or None without a host key."""
    path = settings.gateway.ssh.hostKeyFile
    if not path:
        return None
    # The extra is needed from here on.
    from gpuruntime.gateway.ssh.host_key import host_key_in  # noqa: PLC0415
    from gpuruntime.gateway.ssh.pod_reach import PodReach  # noqa: PLC0415
    from gpuruntime.gateway.ssh.server import SshContext, SshServer  # noqa: PLC0415

    ssh_context = SshContext(
        gate=context.gate,
        waker=context.waker,
        connections=context.connections,
        reach_of=lambda unit: PodReach(context.client, dialer, unit),
        meter=context.meter,
        now=now,
    )
    key = host_key_in(read_file(path, HOST_KEY))
    return SshServer(ssh_context, ssh_options_of(settings), key)


def ssh_verb(context: GatewayContext, server: SshServer) -> UnitHandler:
    """Return the handler of SSH within WebSockets."""
    from gpuruntime.gateway.ssh.web_socket import SshVerb  # noqa: PLC0415 - the extra

    return SshVerb(context.waker, context.connections, server).serve


def write_host_key_once(path: Path) -> None:
    """Write a host key with its public half, unless there is one."""
    from gpuruntime.gateway.ssh.host_key import write_host_key  # noqa: PLC0415 - the extra

    if not path.exists():
        write_host_key(path)


def ssh_options_of(settings: Settings) -> SshOptions:
    from gpuruntime.gateway.ssh.unit_connection import SshOptions  # noqa: PLC0415 - the extra

    given, times = settings.gateway.ssh, settings.gateway.time
    return options_of(
        SshOptions,
        login_seconds=times.handshake,
        most_logins=MOST_LOGINS,
        idle_seconds=times.execIdle,
        longest_seconds=times.longest,
        window_bytes=WINDOW_BYTES,
        has_files=given.sftp is not SftpMode.OFF,
        prefers_sftp_server=given.sftp is SftpMode.AUTO,
    )


@asynccontextmanager
async def serving_ssh(settings: Settings, server: SshServer | None) -> AsyncIterator[str]:
    """Serve SSH at its own address while the context is open, and yield it; it may be empty."""
    given = settings.gateway.ssh.listen
    if server is None or given is None:
        yield ""
        return
    with _listening(given) as listener:
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(server.run(listener), name="ssh")
            try:
                yield str(Address(given.host, listener.getsockname()[1]))
            finally:
                serving.cancel()


@contextmanager
def _listening(address: Address) -> Iterator[socket.socket]:
    """Listen, without blocking. Raise ConfigurationError if the address is taken."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        listener = socket.create_server(
            (address.host, address.port), family=family, backlog=_BACKLOG
        )
    except OSError as error:
        raise ConfigurationError(f"gateway.ssh.listen {address}: {error.strerror}") from error
    with listener:
        listener.setblocking(False)
        yield listener


def _demand_key(path: str) -> None:
    """Raise ConfigurationError unless the file has a key, and the api's public half is its."""
    from gpuruntime.gateway.ssh.host_key import (  # noqa: PLC0415 - the extra
        host_key_in,
        public_line_of,
    )

    try:
        ours = public_line_of(host_key_in(read_file(path, HOST_KEY)))
    except ValueError as error:
        raise ConfigurationError(f"{HOST_KEY} {path}: {error}") from error
    if ours not in public_host_keys(path):
        raise ConfigurationError(f"{HOST_KEY} {path}{PUBLIC} is of another key: write it again")
