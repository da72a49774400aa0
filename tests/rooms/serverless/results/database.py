"""A real PostgreSQL for tests: its own folder and socket, ended by its fixture.

GPURUNTIME_TEST_POSTGRES_URL names an existing server, for tests that leave it running.
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
    """PostgreSQL is missing; the message is one line and names the remedy."""


@attrs.frozen(kw_only=True)
class Network:
    """An address beside the socket, and the CIDR of the clients that may connect there."""

    address: str
    clients: str


class Database:
    """A server whose data outlives a kill; it restarts at the same address."""

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
        """Return the whole URL, with its password."""
        secret = quote(PASSWORD, safe="")
        return f"postgresql://{USER}:{secret}@/postgres?host={self.folder}"

    def url_at(self, address: str) -> str:
        """Return the same URL for clients on the network."""
        return f"postgresql://{USER}:{quote(PASSWORD, safe='')}@{address}:{PORT}/postgres"

    @property
    def bare_url(self) -> str:
        return f"postgresql://{USER}@/postgres?host={self.folder}"

    def make(self) -> None:
        """Create the data folder, fast rather than safe: no machine crash is tested here."""
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
        """Start the server and return at once; `wait` waits until it answers."""
        self._starts += 1
        self._is_up = True
        address = self._network.address if self._network else ""
        settings = {
            "listen_addresses": address,
            "fsync": "off",
            "dynamic_shared_memory_type": "mmap",  # in its folder, deleted with it
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
        """Kill the server and its children, which hold what the next start needs."""
        if not self._is_up:
            return
        self._is_up = False
        self._keeper.kill(self._name)
        eventually_blocking(
            lambda: any(folder == self._data for _, folder in _working_folders()),
            not_,
        )

    def pause(self) -> None:
        """Suspend the server: it accepts connections and does not answer."""
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
    """Run a server, on its socket alone unless an address is given."""
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
    """Yield a server that may be shared with other tests."""
    given = os.environ.get(URL_VARIABLE, "")
    if given:
        yield given
        return
    with database() as made:
        yield made.url


@asynccontextmanager
async def asking(url: str, schema: str) -> AsyncIterator[Any]:
    """Open the test's own connection, beside the product's."""
    import asyncpg  # noqa: PLC0415 - the default session is without it

    connection = await asyncpg.connect(url, server_settings={"search_path": schema})
    try:
        yield connection
    finally:
        await connection.close()


def program(name: str) -> Path:
    """Return the program from the PATH, or from the newest of Debian's versions."""
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
    """Return the user to run as, since PostgreSQL refuses root; it owns the folder."""
    if os.geteuid() != 0:
        return []
    names = {entry.pw_name for entry in pwd.getpwall()}
    user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    os.chown(folder, user.pw_uid, user.pw_gid)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


def _working_folders() -> Iterator[tuple[int, Path]]:
    """Return the server's processes: those whose working folder is its data."""
    for link in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):
            yield int(link.parent.name), link.readlink()
