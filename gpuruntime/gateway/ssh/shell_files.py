"""Files of a container over its `sh`, `stat`, `readlink`, `dd`, `cat` and `find`.

Paths are parameters of scripts and never text within them, so nothing is quoted. No path begins
with a hyphen, so that no program takes one for an option.
"""

import asyncio
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

import attrs

from gpuruntime.errors import GpuRuntimeError
from gpuruntime.gateway.ssh.container import Container, ContainerError, Program

# A command that only looks at names; one that hangs is on a storage that does not answer.
SCRIPT_SECONDS: Final = 60.0
# A folder of 100,000 files has about this; its listing is held until it is read.
LARGEST_LISTING: Final = 16 * 1024 * 1024
LARGEST_PATH: Final = 4096  # PATH_MAX of Linux
_WORDS_BYTES: Final = 1024
_LONGEST_QUOTE: Final = 80
# SFTP's paths are relative to the home, as those of any SSH server.
BEGINNING: Final = "export LC_ALL=C; cd 2>/dev/null; "
_FIELDS: Final = "%f %u %g %s %X %Y"
# One attempt for each record, and each part ends at another character: linear for any output.
_LISTED: Final = re.compile(rb"([0-9a-f]+ \d+ \d+ \d+ -?\d+ -?\d+) \./([^/]*)/\n")
_SPACE: Final = re.compile(rb"(\d{1,20})" + rb" (\d{1,20})" * 6 + rb"\n?")
_MISSING_PROGRAM: Final = (126, 127)


class Fault(StrEnum):
    """The kinds of faults that callers of files tell apart."""

    MISSING = "no such file"
    DENIED = "permission denied"
    EXISTS = "file exists"
    OTHER = "failure"


# Words of the programs of GNU, of busybox, and of the shells themselves.
_FAULTS: Final = (
    (Fault.MISSING, re.compile(r"no such file|nonexistent", re.IGNORECASE)),
    (Fault.DENIED, re.compile(r"permission denied|not permitted", re.IGNORECASE)),
    (Fault.EXISTS, re.compile(r"file exists|cannot overwrite existing", re.IGNORECASE)),
)


class FileError(GpuRuntimeError):
    """The container refused; the message has its own words."""

    def __init__(self, fault: Fault, message: str) -> None:
        super().__init__(message)
        self.fault = fault


@attrs.frozen(kw_only=True, slots=True)
class Attributes:
    """The attributes of a file; times are Unix seconds, and the mode has the type."""

    mode: int
    user: int
    group: int
    size: int
    accessed_at: int
    modified_at: int


@attrs.frozen(kw_only=True, slots=True)
class Change:
    """New attributes of a file; None leaves one as it is."""

    size: int | None = None
    permissions: int | None = None
    owner: tuple[int, int] | None = None
    accessed_at: int | None = None
    modified_at: int | None = None


@attrs.frozen(kw_only=True, slots=True)
class OpenMode:
    """How a file is opened for writing; `permissions` are those of a new file."""

    creates: bool = False
    truncates: bool = False
    is_exclusive: bool = False
    permissions: int | None = None


@attrs.frozen(slots=True)
class Listing:
    """A folder's names as a script printed them. They are read one by one, as callers ask."""

    output: bytes

    def __iter__(self) -> Iterator[tuple[bytes, Attributes]]:
        """Yield each name with its attributes. Raise FileError for output that is no listing."""
        place = 0
        while place < len(self.output):
            found = _LISTED.match(self.output, place)
            if found is None:
                words = self.output[place : place + _LONGEST_QUOTE].decode(errors="replace")
                raise FileError(Fault.OTHER, f"the image's find or stat says {words!r}")
            yield found[2], _attributes_of(found[1])
            place = found.end()


class ShellFiles:
    def __init__(self, container: Container) -> None:
        self._container = container

    async def attributes(self, path: bytes, *, follows: bool) -> Attributes:
        script = f"stat {'-L ' if follows else ''}-c '{_FIELDS}' \"$1\""
        return _attributes_of(await self._run(script, path))

    async def listing(self, path: bytes) -> "Listing":
        """Return the names in a folder with their attributes; files may vanish meanwhile."""
        script = (
            f'{_PRESENT}cd "$1" || exit 2; find . -mindepth 1 -maxdepth 1 '
            f"-exec stat -c '{_FIELDS} %n/' {{}} +; c=$?; [ $c -le 1 ] || exit $c; "
            # A file that has vanished is the only fault of `find` that leaves the folder readable.
            "[ -r . ] || exit 2"
        )
        return Listing(await self._run(script, path))

    async def real_path(self, path: bytes) -> bytes:
        """Return the absolute path without links; its last name need not exist."""
        script = (
            'readlink -f "$1" 2>/dev/null || '
            '{ p=${1%/*}; cd "${p:-/}" && p=$(pwd -P) && printf "%s/%s\\n" "${p%/}" "${1##*/}"; }'
        )
        return (await self._run(script, path)).removesuffix(b"\n")

    async def read_link(self, path: bytes) -> bytes:
        return (await self._run(f'{_PRESENT}readlink "$1"', path)).removesuffix(b"\n")

    async def make_link(self, target: bytes, path: bytes) -> None:
        """Create a symbolic link; its target is any text."""
        await self._run(f'{_ABSENT}ln -s -- "$2" "$1"', path, texts=(target,))

    async def make_hard_link(self, existing: bytes, path: bytes) -> None:
        await self._run(f'{_ABSENT}ln "$2" "$1"', path, existing)

    async def make_folder(self, path: bytes, permissions: int | None) -> None:
        script = 'mkdir "$1"' if permissions is None else f'mkdir -m "{_MASKED}" "$1"'
        await self._run(script, path, texts=(_octal(permissions),))

    async def remove_folder(self, path: bytes) -> None:
        await self._run('rmdir "$1"', path)

    async def remove(self, path: bytes) -> None:
        await self._run('rm "$1"', path)

    async def rename(self, old: bytes, new: bytes, *, replaces: bool) -> None:
        """Rename; without `replaces`, a new name that exists is a fault."""
        script = _REPLACE if replaces else f'{_ABSENT}mv "$2" "$1"'
        await self._run(script, new, old)

    async def change(self, path: bytes, change: Change) -> None:
        texts: list[bytes] = []
        commands: list[str] = []
        for command, text in _commands_of(change):
            texts.append(text.encode())
            commands.append(command.replace("$N", f"${{{len(texts) + 1}}}"))
        if commands:
            await self._run(" && ".join(commands), path, texts=tuple(texts))

    async def free_space(self, path: bytes) -> tuple[int, ...]:
        """Return block size, blocks, free and available ones, files, free ones, longest name."""
        output = await self._run("stat -f -c '%S %b %f %a %c %d %l' \"$1\"", path)
        found = _SPACE.fullmatch(output)
        if found is None:
            words = output[:_LONGEST_QUOTE].decode(errors="replace")
            raise FileError(Fault.OTHER, f"the image's stat says {words!r}")
        return tuple(map(int, found.groups()))

    async def check_readable(self, path: bytes) -> None:
        await self._run(f'{_NO_FOLDER}: < "$1"', path)

    async def prepare(self, path: bytes, mode: OpenMode) -> None:
        """Create, empty or only check a file that is to be written."""
        await self._run(_NO_FOLDER + _prepare(mode), path, texts=(_octal(mode.permissions),))

    async def _run(self, script: str, *paths: bytes, texts: tuple[bytes, ...] = ()) -> bytes:
        """Return the output of a script whose parameters are the paths, then the texts."""
        program = Program(arguments=shell_command(script, *map(operand, paths), *texts))
        output, words = bytearray(), b""
        try:
            async with (
                asyncio.timeout(SCRIPT_SECONDS),
                self._container.execute(program) as execution,
            ):
                async for each in execution.output():
                    if each.is_error:
                        words = (words + each.data)[:_WORDS_BYTES]
                    elif len(output) <= LARGEST_LISTING:
                        output += each.data
        except ContainerError as error:
            raise FileError(Fault.OTHER, str(error)) from error
        except TimeoutError as error:
            raise FileError(Fault.OTHER, f"no answer within {SCRIPT_SECONDS:g} s") from error
        if execution.exit_code != 0:
            raise error_of(execution.exit_code, words)
        if len(output) > LARGEST_LISTING:
            raise FileError(Fault.OTHER, "the folder is too large to be listed")
        return bytes(output)


def operand(path: bytes) -> bytes:
    """Return the path as no program takes it for an option. Raise FileError."""
    if b"\0" in path or len(path) > LARGEST_PATH:
        raise FileError(Fault.OTHER, f"no path has NUL or more than {LARGEST_PATH} bytes")
    return path if path.startswith(b"/") else b"./" + path


def shell_command(script: str, *parameters: bytes) -> tuple[str, ...]:
    """Return a command whose script has the parameters as $1 and so on.

    Arguments are UTF-8 on their way to the container. So other bytes are written in octal, behind
    which an `x` keeps the shell from removing newlines.
    """
    try:
        return ("sh", "-c", BEGINNING + script, "sh", *(each.decode() for each in parameters))
    except UnicodeDecodeError:
        octal = ["".join(f"\\{byte:03o}" for byte in each) for each in parameters]
        decoded = "".join(
            f"p{number}=$(printf '{each}x') && p{number}=${{p{number}%x}}; "
            for number, each in enumerate(octal)
        )
        listed = " ".join(f'"$p{number}"' for number in range(len(octal)))
        return ("sh", "-c", f"export LC_ALL=C; {decoded}set -- {listed}; {BEGINNING}{script}")


def error_of(code: int | None, words: bytes) -> FileError:
    """Return the fault that a program ended with."""
    text = " ".join(words.decode(errors="replace").split()) or f"exit code {code}"
    if code in _MISSING_PROGRAM:
        return FileError(Fault.OTHER, f"the image lacks a program: {text}")
    fault = next((fault for fault, pattern in _FAULTS if pattern.search(text)), Fault.OTHER)
    return FileError(fault, text)


def _attributes_of(fields: bytes) -> Attributes:
    try:
        mode, user, group, size, accessed_at, modified_at = fields.split()
        return Attributes(
            mode=int(mode, 16),
            user=int(user),
            group=int(group),
            size=int(size),
            accessed_at=int(accessed_at),
            modified_at=int(modified_at),
        )
    except ValueError as error:
        words = f"the image's stat says {fields[:_LONGEST_QUOTE].decode(errors='replace')}"
        raise FileError(Fault.OTHER, words) from error


def _octal(permissions: int | None) -> bytes:
    return b"" if permissions is None else f"0{permissions & 0o7777:o}".encode()


def _prepare(mode: OpenMode) -> str:
    if mode.creates and mode.is_exclusive:
        opening = 'set -C; : > "$1" || exit; set +C'
    elif mode.truncates:
        opening = ': > "$1" || exit'
    else:
        opening = ': >> "$1" || exit'
    if not mode.creates:
        return _PRESENT + opening
    permissions = f'; [ -z "$new" ] || [ -z "$2" ] || chmod "{_MASKED}" "$1"'
    return f'new=; [ -e "$1" ] || new=1; {opening}{permissions}'


def _commands_of(change: Change) -> Iterator[tuple[str, str]]:
    if change.size is not None:
        yield f'{_PRESENT}dd of="$1" bs=1 seek="$N" count=0 </dev/null', str(change.size)
    if change.owner is not None:
        yield 'chown "$N" "$1"', ":".join(map(str, change.owner))
    if change.permissions is not None:
        yield 'chmod "$N" "$1"', f"{change.permissions & 0o7777:o}"
    for option, moment in (("-a", change.accessed_at), ("-m", change.modified_at)):
        if moment is not None:
            stamp = datetime.fromtimestamp(moment, UTC).strftime("%Y%m%d%H%M.%S")
            yield f'TZ=UTC0 touch {option} -t "$N" "$1"', stamp


_PRESENT: Final = '[ -e "$1" ] || [ -h "$1" ] || { echo "No such file" >&2; exit 1; }; '
_ABSENT: Final = '[ ! -e "$1" ] && [ ! -h "$1" ] || { echo "File exists" >&2; exit 1; }; '
_NO_FOLDER: Final = '[ ! -d "$1" ] || { echo "Is a directory" >&2; exit 1; }; '
# New files get the permissions that the container's umask leaves.
_MASKED: Final = "$(printf %o $(($2 & ~$(umask))))"
# As rename(2) has it: an empty folder may be replaced by a folder, and a link is replaced itself.
_REPLACE: Final = (
    'if [ -h "$1" ]; then rm -f "$1"; elif [ -d "$1" ]; then '
    '[ -d "$2" ] && [ ! -h "$2" ] || { echo "Is a directory" >&2; exit 1; }; '
    'rmdir "$1" || exit; fi; mv -f "$2" "$1"'
)
