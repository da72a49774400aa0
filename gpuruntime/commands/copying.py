"""Copies between this machine and a unit, by programs of its image: `sh`, `cat`, `mv`, `tar`.

A file or a folder gets its name once all of it has arrived, here as well as in the unit.
"""

import os
import re
import secrets
import stat
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Final

import attrs

from gpuruntime.client.errors import LostAnswerError, UnitRefusedError, UnusableInputError
from gpuruntime.client.processes import Process
from gpuruntime.commands.archive import Unpacker, Write, pack, send_exactly
from gpuruntime.commands.files import beside
from gpuruntime.commands.reach import reaching
from gpuruntime.commands.session import Session
from gpuruntime.concurrency.clock import loop_time
from gpuruntime.concurrency.tasks import task_group
from gpuruntime.errors import ConfigurationError

_REMOTE: Final = re.compile(r"([a-z0-9](?:[a-z0-9-]*[a-z0-9])?):(.*)", re.DOTALL)
_KIND: Final = re.compile(rb"d|f (?:([0-7]{1,6}) ([0-9]{1,18}))?")
_LONGEST_LINE: Final = 256
_WORDS_BYTES: Final = 4096
_SHOW_SECONDS: Final = 0.2
_MEGABYTE: Final = 1_000_000
_MODES: Final = 0o777
_DEFAULT_MODE: Final = 0o644
# Paths begin with / or ./, so that no program takes one for an option.
_FETCH: Final = """
fail() { echo "$1" >&2; exit 1; }
if [ -d "$1" ]; then
  [ "$2" = r ] || fail "$1 is a folder: copy it with -r"
  command -v tar >/dev/null || fail 'folders need tar, which the image does not have'
  cd "$1" || exit 1
  echo d
  exec tar -cf - .
fi
[ -e "$1" ] || fail "$1 does not exist"
[ -f "$1" ] || fail "$1 is no file and no folder"
echo "f $(stat -L -c '%a %s' "$1" 2>/dev/null)"
exec cat "$1"
"""
_BEGIN: Final = """
fail() { echo "$1" >&2; exit 1; }
to=$1
if [ -d "$to" ] && [ "$2" ]; then to=${to%/}/$2; fi
part=${to%/*}/.gpuruntime-$$
umask 077
trap 'rm -rf "$part"' EXIT
trap 'exit 1' HUP INT TERM
"""
_STORE_FILE: Final = f"""{_BEGIN}
if [ -e "$to" ] && [ ! -f "$to" ]; then fail "$to is there, and is no file"; fi
cat >"$part" || exit 1
[ "$(wc -c <"$part")" -eq "$4" ] || fail 'the file did not arrive whole'
chmod "$3" "$part" && mv -f "$part" "$to"
"""
_STORE_FOLDER: Final = f"""{_BEGIN}
merge() {{
  for from in "$1"/* "$1"/.[!.]* "$1"/..?*; do
    [ -e "$from" ] || [ -L "$from" ] || continue
    into=$2/${{from##*/}}
    if [ -d "$into" ]; then
      [ -d "$from" ] && [ ! -L "$from" ] || fail "$into is there, and is a folder"
      (merge "$from" "$into") || exit 1
    else
      mv -f "$from" "$into" || exit 1
    fi
  done
}}
command -v tar >/dev/null || fail 'folders need tar, which the image does not have'
if [ -e "$to" ] && [ ! -d "$to" ]; then fail "$to is there, and is no folder"; fi
mkdir "$part" || exit 1
tar -xpf - -C "$part" || exit 1
[ -f "$part/$3" ] || fail 'the folder did not arrive whole'
rm -f "$part/$3"
trap '' HUP
if [ -d "$to" ]; then merge "$part" "${{to%/}}"; else mv "$part" "$to"; fi
"""


@attrs.frozen(slots=True)
class Remote:
    """A path in a unit; one that does not begin with a slash is below its working folder."""

    unit: str
    path: str

    @property
    def name(self) -> str:
        """Return its last part, or nothing if that stands for a folder itself."""
        last = self.path.rstrip("/").rpartition("/")[2]
        return "" if last in (".", "..") else last

    @property
    def operand(self) -> str:
        """Return the path as a script may use it."""
        path = self.path.rstrip("/") or self.path[:1]
        return path if path.startswith("/") else f"./{path}"


async def copy(session: Session) -> None:
    asked = session.options
    source, target = _place_of(asked.source), _place_of(asked.target)
    match source, target:
        case Path(), Remote():
            await _Copy(session, target.unit).store(source, target)
        case Remote(), Path():
            await _Copy(session, source.unit).fetch(source, target)
        case _:
            raise UnusableInputError(
                "one of the two has to be in a unit, such as demo:path; "
                "a local name with a colon begins with ./"
            )


def _place_of(text: str) -> Path | Remote:
    found = _REMOTE.fullmatch(text)
    return Remote(found[1], found[2]) if found else Path(text)


class _Copy:
    """A copy from or to one unit."""

    def __init__(self, session: Session, unit: str) -> None:
        self._session = session
        self._unit = unit
        self._tell = session.terminal.report
        self._is_recursive = session.options.recursive

    async def store(self, source: Path, target: Remote) -> None:
        with _local_errors(source):
            about, name = _known_of(source)
            # `demo:` alone is its working folder, into which the file goes.
            wanted = target.operand if target.path else "./."
            if stat.S_ISDIR(about.st_mode):
                self._demand_recursive(source)
                marker = f".gpuruntime-{secrets.token_hex(8)}"
                async with self._script(_STORE_FOLDER, wanted, name, marker) as script:
                    meter = _Meter(self._session, str(source))
                    await script.feed(lambda write: pack(source, marker, write, self._tell), meter)
                return
            if not stat.S_ISREG(about.st_mode):
                raise ConfigurationError(f"{source}: is no file and no folder")
            if target.path.endswith("/"):
                wanted = f"{wanted}/{name}"
            with source.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                mode = f"{about.st_mode & _MODES:o}"
                async with self._script(_STORE_FILE, wanted, name, mode, str(size)) as script:
                    meter = _Meter(self._session, str(source), size)
                    await script.feed(lambda write: send_exactly(file, size, write), meter)

    async def fetch(self, source: Remote, target: Path) -> None:
        target = _inside(target, source.name)
        with _local_errors(target):
            flag = "r" if self._is_recursive else ""
            path = source.operand if source.path else "./."
            async with self._script(_FETCH, path, flag) as script:
                kind = await script.line()
                meter = _Meter(self._session, f"{source.unit}:{source.path}")
                if kind == b"d":
                    with _beside_folder(target) as folder:
                        async with aclosing(script.pieces(meter)) as pieces:
                            await Unpacker(folder, self._tell).unpack(pieces)
                        script.demand_success()
                    return
                found = _KIND.fullmatch(kind)
                if found is None:
                    raise UnitRefusedError(f"unit {self._unit} sends no file: is its sh one?")
                meter.size = int(found[2]) if found[2] else None
                mode = int(found[1], 8) & _MODES if found[1] else _DEFAULT_MODE
                with beside(target, mode=mode) as file:
                    async for piece in script.pieces(meter):
                        file.write(piece)
                    script.demand_success()

    def _demand_recursive(self, source: Path) -> None:
        if not self._is_recursive:
            raise UnusableInputError(f"{source} is a folder: copy it with -r")

    @asynccontextmanager
    async def _script(self, text: str, *parameters: str) -> AsyncIterator["_Script"]:
        command = ("sh", "-c", text, "gpuruntime-cp", *parameters)
        async with (
            reaching(self._session, self._unit),
            self._session.client.exec(self._unit, command) as process,
        ):
            script = _Script(process, self._unit)
            async with aclosing(script.output):
                yield script
        self._session.terminal.done_showing()


class _Script:
    """A script that runs in the unit, and what it says."""

    def __init__(self, process: Process, unit: str) -> None:
        self._process = process
        self._unit = unit
        self._words = b""
        self._held = b""
        self.output = process.output()

    async def feed(self, send: Callable[[Write], Awaitable[None]], meter: "_Meter") -> None:
        """Let `send` write the input, and wait for the script. Raise UnitRefusedError."""

        async def write(piece: bytes) -> None:
            await self._process.write(piece)
            meter.count(piece)

        async def give() -> None:
            with suppress(LostAnswerError):  # the output says why the script takes no more
                await send(write)
                await self._process.end_input()

        async with task_group() as group:
            giving = group.create_task(give())
            while await self._next():
                pass
            giving.cancel()
        self.demand_success()

    async def line(self) -> bytes:
        """Return the first line of the output, without its end."""
        await self._process.end_input()
        head = b""
        while b"\n" not in head and len(head) <= _LONGEST_LINE:
            piece = await self._next()
            if not piece:
                self.demand_success()
                break
            head += piece
        line, _, self._held = head.partition(b"\n")
        return line

    async def pieces(self, meter: "_Meter") -> AsyncGenerator[bytes, None]:
        held, self._held = self._held, b""
        while held or (held := await self._next()):
            meter.count(held)
            yield held
            held = b""

    def demand_success(self) -> None:
        if self._process.exit_code:
            words = self._words.decode(errors="replace").strip()
            words = words or f"exit code {self._process.exit_code}"
            raise UnitRefusedError(f"unit {self._unit}: {words}")

    async def _next(self) -> bytes:
        """Return the next output, or nothing once the script has ended."""
        async for each in self.output:
            if not each.is_error:
                return each.data
            self._words = (self._words + each.data)[-_WORDS_BYTES:]
        return b""


class _Meter:
    """Shows how far a copy is, on a terminal alone."""

    def __init__(self, session: Session, what: str, size: int | None = None) -> None:
        self.size = size
        self._terminal = session.terminal
        self._what = what
        self._done = 0
        self._shows_at = 0.0

    def count(self, piece: bytes) -> None:
        self._done += len(piece)
        if loop_time() < self._shows_at and self._done != self.size:
            return
        self._shows_at = loop_time() + _SHOW_SECONDS
        share = f", {self._done / self.size:.0%}" if self.size else ""
        self._terminal.show_only(f"{self._what}: {self._done / _MEGABYTE:.1f} MB{share}")


def _known_of(source: Path) -> tuple[os.stat_result, str]:
    """Return what is known of a local file or folder, and its own name."""
    return source.stat(), source.resolve().name


def _inside(target: Path, name: str) -> Path:
    return target / name if name and target.is_dir() else target


@contextmanager
def _beside_folder(target: Path) -> Iterator[Path]:
    """Yield an empty folder, whose content gets into `target` if all goes well."""
    place = target.resolve() if target.is_dir() else target.absolute().parent
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=place) as outer:
        folder = Path(outer) / "content"
        folder.mkdir()
        yield folder
        _merge(folder, target)


def _merge(source: Path, target: Path) -> None:
    """Move the content of a folder of ours into another one, which may not exist."""
    if not target.exists():
        source.replace(target)
        return
    for each in sorted(source.iterdir()):
        there = target / each.name
        is_folder = each.is_dir() and not each.is_symlink()
        if is_folder and there.is_symlink():
            raise ConfigurationError(f"{there}: is a link, which is not followed")
        if is_folder and there.is_dir():
            _merge(each, there)
        elif there.is_dir() and not there.is_symlink():
            raise ConfigurationError(f"{there}: is a folder")
        else:
            each.replace(there)


@contextmanager
def _local_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigurationError(f"{error.filename or path}: {error.strerror}") from error
