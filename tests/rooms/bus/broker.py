"""A real broker for tests: its own port on loopback and its own folder, ended by its fixture."""

import asyncio
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import attrs

from gpuruntime.bus.connection import Connection, Opener
from gpuruntime.bus.credentials import ConnectionOptions
from gpuruntime.bus.jetstream import JetStream
from gpuruntime.bus.names import Names
from gpuruntime.bus.provisioning import declare_consumer, declare_stream
from gpuruntime.bus.records import Records
from gpuruntime.bus.session import open_session
from gpuruntime.bus.streams import StreamOptions, consumer_declaration, declarations
from tests.eventually import equals, eventually, eventually_blocking
from tests.options import configured
from tests.proofs.real_cluster.processes import Keeper
from tests.proofs.real_cluster.product import NOWHERE

FUNCTION = "echo"
LOOPBACK = "127.0.0.1"
# Tests share a broker and differ in their prefixes.
SMALL = configured(StreamOptions, most_queued_bytes=16 * 1024 * 1024)


class Broker:
    """A broker whose data outlives a kill; it restarts on the same port."""

    def __init__(
        self, keeper: Keeper, folder: Path, lines: Sequence[str] = (), address: str = LOOPBACK
    ) -> None:
        self.folder = folder
        self._address = address
        self._keeper = keeper
        self._lines = lines
        self._port = -1
        self._pid = 0
        self._starts = 0

    @property
    def url(self) -> str:
        return f"nats://{self._address}:{self._port}"

    def start(self) -> None:
        self._starts += 1
        config = self.folder / "broker.conf"
        config.write_text("\n".join(self._configuration()))
        argv = [program(), "-c", str(config), "--ports_file_dir", str(self.folder)]
        self._pid = self._keeper.start(self._name, argv, self.folder / "broker.log")
        ports = self.folder / f"nats-server_{self._pid}.ports"
        told = eventually_blocking(lambda: _read(ports), explain=self._tail)
        self._port = int(told["nats"][0].rpartition(":")[2])

    def kill(self) -> None:
        self._keeper.kill(self._name)

    def pause(self) -> None:
        """Suspend the process and return once it is stopped, since the signal takes time."""
        os.kill(self._pid, signal.SIGSTOP)
        stat = Path(f"/proc/{self._pid}/stat")
        eventually_blocking(lambda: stat.read_text().rpartition(")")[2].split()[0], equals("T"))

    def resume(self) -> None:
        os.kill(self._pid, signal.SIGCONT)

    @property
    def _name(self) -> str:
        return f"broker-{self._starts}"

    def _configuration(self) -> Iterator[str]:
        yield f'listen: "{self._address}:{self._port}"'
        yield "max_payload: 2MB"
        yield f'jetstream {{ store_dir: "{self.folder}/data" }}'
        yield from self._lines

    def _tail(self) -> str:
        log = self.folder / "broker.log"
        return log.read_text()[-2000:] if log.exists() else "(nothing)"


@contextmanager
def broker(*lines: str, address: str = LOOPBACK) -> Iterator[Broker]:
    """Start the broker with further lines of configuration."""
    folder = Path(tempfile.mkdtemp(prefix="gpuruntime-broker-"))
    keeper = Keeper(folder, NOWHERE)
    try:
        started = Broker(keeper, folder, lines, address)
        started.start()
        yield started
    finally:
        keeper.close()


@asynccontextmanager
async def connection(
    url: str, *, opener: Opener = open_session, **options: Any
) -> AsyncIterator[Connection]:
    """Yield the connection after its first attempt, whether that succeeded or not."""
    chosen = configured(ConnectionOptions, url=url, name="test", **options)
    made = Connection(chosen, rng=Random(1), opener=opener)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(made.run())
        async with asyncio.timeout(10):
            await first_end(made)
        yield made
        running.cancel()


async def first_end(made: Connection) -> None:
    """Wait for the result of the first attempt: a session, or a reason why there is none."""
    before = made.problem
    await eventually(lambda: made.problem != before)


@attrs.frozen(slots=True)
class Bus:
    """Declare all streams, and the consumer of one function."""

    url: str
    connection: Connection
    jetstream: JetStream
    names: Names
    records: Records


@asynccontextmanager
async def bus(
    url: str,
    prefix: str,
    *,
    ack_wait_seconds: float = 30.0,
    opener: Opener = open_session,
) -> AsyncIterator[Bus]:
    names = Names(prefix)
    async with connection(url, opener=opener) as connected:
        jetstream = JetStream(connected)
        for declaration in declarations(names, SMALL):
            await declare_stream(jetstream, declaration)
        consumer = consumer_declaration(names, FUNCTION, ack_wait_seconds=ack_wait_seconds)
        await declare_consumer(jetstream, names.invocations, consumer)
        yield Bus(url, connected, jetstream, names, Records(jetstream, names, rng=Random(2)))


def program() -> str:
    beside = Path(sys.executable).with_name("nats-server")
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    assert found, "no nats-server: install the extra `local`"
    return found


def _read(path: Path) -> dict[str, list[str]]:
    """Return the content, or nothing while the file is still being written."""
    try:
        told: dict[str, list[str]] = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return told
