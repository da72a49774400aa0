"""A real PostgreSQL beside a test: its own folder and socket, ended by its keeper.

GPURUNTIME_TEST_POSTGRES_URL names one that is there already, for the tests that leave it running.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from operator import not_
from pathlib import Path
from typing import Any
from urllib.parse import quote

import attrs

from tests.eventually import equals, eventually_blocking
from tests.proofs.real_cluster.processes import Keeper
from tests.proofs.real_cluster.product import NOWHERE

URL_VARIABLE = "GPURUNTIME_TEST_POSTGRES_URL"
USER = "gpuruntime"
PASSWORD = "p%ss/w#rd@?"
DEBIAN = Path("/usr/lib/postgresql")
PORT = 5432


class MissingDatabaseError(Exception):
    """The message is one line and names the remedy."""


@attrs.frozen(kw_only=True)
class Network:
    """Where it listens beside its socket, and whom it lets in there: a CIDR."""

    address: str
    clients: str


class Database:
    """Its data outlives a kill, and it comes back at the same place."""

    def __init__(self, keeper: Keeper, folder: Path, network: Network | None = None) -> None:
        self.folder = folder
        self._network = network
        self._keeper = keeper
        self._data = folder / "data"
        self._starts = 0
        self._is_up = False
        self._as_somebody = _without_root(folder)

    @property
    def url(self) -> str:
        """Whole, with its password."""
        secret = quote(PASSWORD, safe="")
        return f"postgresql://{USER}:{secret}@/postgres?host={self.folder}"

    def url_at(self, address: str) -> str:
        """The same for those who come over the network."""
        return f"postgresql://{USER}:{quote(PASSWORD, safe='')}@{address}:{PORT}/postgres"

    @property
    def bare_url(self) -> str:
        return f"postgresql://{USER}@/postgres?host={self.folder}"

    def make(self) -> None:
        """Faster than safe: a crash of the machine is not what is tried here."""
        password = self.folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        argv = [str(program("initdb")), "-D", str(self._data), "-U", USER, "--no-sync"]
        flags = ["-E", "UTF8", "--locale=C", "-A", "scram-sha-256", f"--pwfile={password}"]
        done = subprocess.run(
            [*self._as_somebody, *argv, *flags], cwd=self.folder, check=False, capture_output=True
        )
        assert done.returncode == 0, done.stderr.decode()
        if self._network:
            with (self._data / "pg_hba.conf").open("a") as rules:
                rules.write(f"host all all {self._network.clients} scram-sha-256\n")

    def start(self) -> None:
        """Returns at once; `wait` waits until it answers."""
        self._starts += 1
        self._is_up = True
        address = self._network.address if self._network else ""
        settings = {
            "listen_addresses": address,
            "fsync": "off",
            "dynamic_shared_memory_type": "mmap",  # in its folder, and gone with it
        }
        flags = ["-k", str(self.folder), "-p", str(PORT)]
        chosen = [word for each in settings.items() for word in ("-c", "=".join(each))]
        argv = [str(program("postgres")), "-D", str(self._data), *flags, *chosen]
        self._keeper.start(self._name, [*self._as_somebody, *argv], self._log)

    def wait(self) -> None:
        argv = [str(program("pg_isready")), "-q", "-h", str(self.folder)]
        eventually_blocking(
            lambda: subprocess.run(argv, check=False).returncode,
            equals(0),
            explain=self._tail,
        )

    def kill(self) -> None:
        """Returns when its children are gone as well: they hold what the next start needs."""
        if not self._is_up:
            return
        self._is_up = False
        self._keeper.kill(self._name)
        eventually_blocking(
            lambda: any(folder == self._data for _, folder in _working_folders()),
            not_,
        )

    def pause(self) -> None:
        """It takes connections and says nothing."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        for pid, folder in _working_folders():
            if folder == self._data:
                os.kill(pid, number)

    @property
    def _name(self) -> str:
        return f"postgres-{self._starts}"

    @property
    def _log(self) -> Path:
        return self.folder / "postgres.log"

    def _tail(self) -> str:
        return self._log.read_text()[-2000:] if self._log.exists() else "(nothing)"


@contextmanager
def database(network: Network | None = None) -> Iterator[Database]:
    """On its socket alone, if nothing else is asked for."""
    folder = Path(tempfile.mkdtemp(prefix="gpuruntime-postgres-"))
    keeper = Keeper(folder, NOWHERE)
    try:
        made = Database(keeper, folder, network)
        made.make()
        made.start()
        made.wait()
        yield made
        made.kill()
    finally:
        keeper.close()


@contextmanager
def database_url() -> Iterator[str]:
    """Of one that may be shared with others."""
    given = os.environ.get(URL_VARIABLE, "")
    if given:
        yield given
        return
    with database() as made:
        yield made.url


@asynccontextmanager
async def asking(url: str, schema: str) -> AsyncIterator[Any]:
    """A connection of the test's own, beside the product's."""
    import asyncpg  # noqa: PLC0415 - the default session is without it

    connection = await asyncpg.connect(url, server_settings={"search_path": schema})
    try:
        yield connection
    finally:
        await connection.close()


def program(name: str) -> Path:
    """On the PATH, or the newest of those that Debian keeps beside each other."""
    on_path = shutil.which(name)
    if on_path:
        return Path(on_path)
    found = sorted(DEBIAN.glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    if not found:
        raise MissingDatabaseError(
            f"no {name} of PostgreSQL on the PATH or in {DEBIAN}: install it "
            f"(apt-get install postgresql), or name a server in {URL_VARIABLE}"
        )
    return found[-1]


def _without_root(folder: Path) -> list[str]:
    """PostgreSQL refuses to be root: what it runs as instead, who then owns the folder."""
    if os.geteuid() != 0:
        return []
    names = {entry.pw_name for entry in pwd.getpwall()}
    user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    os.chown(folder, user.pw_uid, user.pw_gid)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


def _working_folders() -> Iterator[tuple[int, Path]]:
    """Of all processes: those of a server are in its data."""
    for link in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):
            yield int(link.parent.name), link.readlink()
