"""An SSH server over a container of this machine, with units that a test may change."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

import asyncssh
import attrs

from gpuruntime.gateway.connections import ConnectionOptions, Connections
from gpuruntime.gateway.gate import Gate
from gpuruntime.gateway.ssh.container import PIECE_BYTES, Container, ContainerError, Stream
from gpuruntime.gateway.ssh.server import SshContext, SshServer
from gpuruntime.gateway.ssh.unit_connection import SshOptions
from gpuruntime.gateway.units import GATEWAY_INDEXES, Units
from gpuruntime.gateway.wake import WakeOptions, Waker
from gpuruntime.informer.store import Store, Tables
from gpuruntime.meter import NullMeter
from gpuruntime.models.kinds.units import GPUUnit
from tests.rooms.gateway.ssh.local_container import LocalContainer
from tests.rooms.gateway.visitors import NAMESPACE, NOW, RING, ticket, unit

HOST_KEY: Final = asyncssh.generate_private_key("ssh-ed25519")
USER_KEY: Final = asyncssh.generate_private_key("ssh-ed25519")
LIMITS: Final = ConnectionOptions(
    all=64, per_unit=32, per_ticket=32, exec_per_unit=16, grace_seconds=5, ends_unknown=False
)
# A login that is refused at its end waits no longer than this.
HOLD_SECONDS: Final = 2.0
OPTIONS: Final = SshOptions(
    login_seconds=10,
    most_logins=64,
    idle_seconds=3600,
    longest_seconds=86_400,
    window_bytes=512 * 1024,
    has_files=True,
    prefers_sftp_server=True,
)


class LocalReach:
    """Ports of this machine, which stand for those of the unit; `dialled` has each."""

    def __init__(self, container: LocalContainer) -> None:
        self.container: Container = container
        self.dialled: list[int] = []

    @asynccontextmanager
    async def dial(self, port: int) -> AsyncIterator[Stream]:
        self.dialled.append(port)
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError as error:
            raise ContainerError(f"nothing answers at port {port}") from error
        try:
            yield _TcpStream(reader, writer)
        finally:
            writer.close()


class _TcpStream:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._ended = asyncio.Event()

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def end(self) -> None:
        self._writer.write_eof()
        self._ended.set()

    async def output(self) -> AsyncIterator[bytes]:
        while data := await self._reader.read(PIECE_BYTES):
            yield data
        yield b""
        await self._ended.wait()


@attrs.define
class SshWorld:
    """`home` is the unit's, and `age` the seconds for which the watch has been silent."""

    home: Path
    container: LocalContainer
    reach: LocalReach
    connections: Connections
    port: int
    tables: Tables[GPUUnit]
    waker: Waker
    age: float = 0.0

    def put(self, new: GPUUnit) -> None:
        """Change a unit as an event of the watch does."""
        old = self.tables.put(new.metadata.key, new)
        self.connections.unit_changed(new.metadata.key, old, new)
        self.waker.unit_changed(new.metadata.key, old, new)

    def delete(self, name: str = "demo") -> None:
        old = self.tables.objects.pop(unit(name).metadata.key)
        self.connections.unit_changed(old.metadata.key, old, None)

    def change(self, name: str = "demo", **access: Any) -> None:
        self.put(unit(name, **access))

    async def login(self, user: str = "demo", **options: Any) -> asyncssh.SSHClientConnection:
        """Log in with the unit's ticket, unless the options say otherwise."""
        usual = {
            "client_keys": None,
            "password": ticket(unit(user)),
            "preferred_auth": "publickey,keyboard-interactive,password",
        }
        return await asyncssh.connect(
            "127.0.0.1",
            self.port,
            username=user,
            known_hosts=([HOST_KEY.convert_to_public()], [], []),
            config=None,
            agent_path=None,
            **usual | options,
        )


@asynccontextmanager
async def ssh_world(
    home: Path,
    *units: GPUUnit,
    limits: ConnectionOptions = LIMITS,
    options: SshOptions = OPTIONS,
    container: LocalContainer | None = None,
    api: str = "",
) -> AsyncIterator[SshWorld]:
    """Serve SSH; a unit that is resumed by its callers is asked for at `api`."""
    tables = Tables(GATEWAY_INDEXES)
    for each in units or (unit(),):
        tables.put(each.metadata.key, each)
    local = container or LocalContainer(home)
    reach = LocalReach(local)
    connections = Connections(
        limits, now=lambda: NOW, watch_age=lambda: world.age, meter=NullMeter()
    )
    gate = Gate(
        Units(Store(tables), NAMESPACE),
        lambda: RING,
        now=lambda: NOW,
        watch_age=lambda: world.age,
    )
    waker = Waker(
        gate,
        lambda: RING,
        WakeOptions(api=api, hold_seconds=HOLD_SECONDS),
        now=lambda: NOW,
        rng=Random(0),
        meter=NullMeter(),
    )
    context = SshContext(
        gate=gate,
        waker=waker,
        connections=connections,
        reach_of=lambda _: reach,
        meter=NullMeter(),
        now=lambda: NOW,
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        port = listener.getsockname()[1]
        world = SshWorld(home, local, reach, connections, port, tables, waker)
        serving = asyncio.create_task(SshServer(context, options, HOST_KEY).run(listener))
        try:
            yield world
        finally:
            serving.cancel()
            await asyncio.wait((serving,))
