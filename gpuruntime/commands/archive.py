"""Folders as tar streams: packed from local files, and unpacked without trust in their sender.

An unpacked entry lies in a folder that was unpacked before it, never behind a link. So no name
and no link of an archive leads out of its folder.
"""

import asyncio
import os
import stat
import tarfile
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import BinaryIO, Final

import attrs

from gpuruntime.client.errors import UnreadableAnswerError

Write = Callable[[bytes], Awaitable[None]]
Tell = Callable[[str], None]

_BLOCK: Final = 512
_PIECE_BYTES: Final = 256 * 1024
# The longest name that Linux takes has 4,096 bytes; extended headers have a few more members.
_LARGEST_HEADER: Final = 64 * 1024
_END: Final = bytes(2 * _BLOCK)
_NAMES: Final = {"encoding": "utf-8", "errors": "surrogateescape"}
_FILES: Final = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)
_MODES: Final = 0o777


async def pack(root: Path, marker: str, write: Write, tell: Tell) -> None:
    """Write the folder's content, and behind all of it an empty file that marks the end.

    What is neither file, folder nor link is left out, and told of.
    """
    for path in (root, *_below(root)):
        about = path.stat() if path == root else path.lstat()
        info = tarfile.TarInfo("." if path == root else f"./{path.relative_to(root)}")
        info.mode, info.mtime = about.st_mode & _MODES, int(about.st_mtime)
        if stat.S_ISDIR(about.st_mode):
            info.type = tarfile.DIRTYPE
        elif stat.S_ISLNK(about.st_mode):
            info.type, info.linkname = tarfile.SYMTYPE, str(path.readlink())
        elif stat.S_ISREG(about.st_mode):
            with path.open("rb") as file:
                info.size = os.fstat(file.fileno()).st_size
                await write(_header(info))
                await send_exactly(file, info.size, write)
            await write(bytes(-info.size % _BLOCK))
            continue
        else:
            tell(f"{path} is left out: it is no file, folder or link")
            continue
        await write(_header(info))
    await write(_header(tarfile.TarInfo(f"./{marker}")) + _END)


def _below(root: Path) -> Iterator[Path]:
    """Yield everything in the folder, each folder before its content."""
    for path in sorted(root.iterdir()):
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _below(path)


def _header(info: tarfile.TarInfo) -> bytes:
    return info.tobuf(tarfile.GNU_FORMAT, **_NAMES)


async def send_exactly(file: BinaryIO, size: int, write: Write) -> None:
    """Send this many bytes of the file; raise OSError if it has become shorter."""
    while size:
        piece = await asyncio.to_thread(file.read, min(size, _PIECE_BYTES))
        if not piece:
            raise OSError(0, "became shorter while it was read")
        size -= len(piece)
        await write(piece)


@attrs.frozen(kw_only=True, slots=True)
class Entry:
    """An entry of an archive, whose parts are below the folder that it is unpacked into."""

    parts: tuple[str, ...]
    kind: bytes
    mode: int
    size: int
    link: str = ""

    @property
    def name(self) -> str:
        return "/".join(self.parts)


class Unpacker:
    """Writes the entries of an archive below an empty folder of ours."""

    def __init__(self, folder: Path, tell: Tell) -> None:
        self._folder = folder
        self._tell = tell
        # The folders that exist, with the modes that they get at the end.
        self._folders: dict[tuple[str, ...], int | None] = {(): None}
        self._files: set[tuple[str, ...]] = set()

    async def unpack(self, pieces: AsyncIterator[bytes]) -> None:
        """Raise UnreadableAnswerError for an archive that ends early or leads out of it."""
        reader = _BlockReader(pieces)
        async with aclosing(_entries(reader)) as entries:
            async for entry in entries:
                await self._add(entry, reader)
        for parts, mode in reversed(self._folders.items()):
            if mode is not None:
                self._path(parts).chmod(mode | stat.S_IRWXU)

    async def _add(self, entry: Entry, reader: "_BlockReader") -> None:
        if entry.kind == tarfile.DIRTYPE:
            self._add_folder(entry.parts, entry.mode)
            return
        self._add_folder(entry.parts[:-1], None)
        try:
            await self._add_other(entry, self._path(entry.parts), reader)
        except FileExistsError as error:
            raise _hostile(f"names {entry.name or '.'!r} twice") from error

    async def _add_other(self, entry: Entry, path: Path, reader: "_BlockReader") -> None:
        if entry.kind not in _FILES:
            self._add_link(entry, path)
            return
        with path.open("xb") as file:
            async with aclosing(reader.content(entry.size)) as pieces:
                async for piece in pieces:
                    await asyncio.to_thread(file.write, piece)
            os.fchmod(file.fileno(), entry.mode)
        self._files.add(entry.parts)

    def _add_link(self, entry: Entry, path: Path) -> None:
        """Create a link within the folder, and tell of any other entry, which is left out."""
        is_link = entry.kind == tarfile.SYMTYPE
        if entry.kind == tarfile.LNKTYPE:
            target = _parts_of(entry.link)
            if target not in self._files:
                raise _hostile(f"links {entry.name!r} to what it has not brought")
            path.hardlink_to(self._path(target))
            self._files.add(entry.parts)
        elif is_link and _stays_inside(entry):
            # A link counts as no folder, so that nothing is written behind it.
            path.symlink_to(entry.link)
        else:
            why = f"it links to {entry.link}" if is_link else "it is no file, folder or link"
            self._tell(f"{entry.name} is left out: {why}")

    def _add_folder(self, parts: tuple[str, ...], mode: int | None) -> None:
        for count in range(1, len(parts) + 1):
            above = parts[:count]
            if above not in self._folders:
                try:
                    self._path(above).mkdir(mode=0o700)
                except FileExistsError as error:
                    raise _hostile(
                        f"leads {'/'.join(parts)!r} through a link or a file"
                    ) from error
                self._folders[above] = None
        if mode is not None:
            self._folders[parts] = mode

    def _path(self, parts: tuple[str, ...]) -> Path:
        return self._folder.joinpath(*parts)


class _BlockReader:
    """Reads a stream in blocks, as tar counts them."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces
        self._held = b""

    async def exactly(self, size: int) -> bytes:
        return b"".join([piece async for piece in self._taken(size)])

    async def content(self, size: int) -> AsyncGenerator[bytes, None]:
        """Yield the content of an entry, and skip what fills its last block."""
        async for piece in self._taken(size):
            yield piece
        await self.exactly(-size % _BLOCK)

    async def rest(self) -> None:
        async for _ in self._pieces:
            pass

    async def _taken(self, size: int) -> AsyncIterator[bytes]:
        while size:
            if not self._held:
                try:
                    self._held = await anext(self._pieces)
                except StopAsyncIteration:
                    raise _hostile("ends early") from None
            piece, self._held = self._held[:size], self._held[size:]
            size -= len(piece)
            yield piece


async def _entries(reader: _BlockReader) -> AsyncGenerator[Entry, None]:
    """Yield each entry, whose content has to be read before the next one."""
    given: dict[str, str] = {}
    while (block := await reader.exactly(_BLOCK)) != bytes(_BLOCK):
        try:
            info = tarfile.TarInfo.frombuf(block, **_NAMES)
        except tarfile.HeaderError as error:
            raise _hostile(f"has a malformed header: {error}") from error
        if info.size < 0:
            raise _hostile("has an entry of a negative size")
        if info.type in (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK):
            member = "path" if info.type == tarfile.GNUTYPE_LONGNAME else "linkpath"
            given[member] = _text(await _bounded(reader, info.size))
            continue
        if info.type in (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE):
            found = _records_of(await _bounded(reader, info.size))
            given |= {} if info.type == tarfile.XGLTYPE else found
            continue
        if info.type == tarfile.GNUTYPE_SPARSE or any("GNU.sparse" in name for name in given):
            raise _hostile("has a sparse file: archive it without --sparse")
        has_content = info.type in _FILES
        yield Entry(
            parts=_parts_of(given.get("path", info.name)),
            kind=info.type,
            mode=info.mode & _MODES,
            size=_size_of(given, info) if has_content else 0,
            link=given.get("linkpath", info.linkname),
        )
        given = {}
    await reader.rest()


async def _bounded(reader: _BlockReader, size: int) -> bytes:
    if size > _LARGEST_HEADER:
        raise _hostile(f"has a header of {size} bytes")
    return b"".join([piece async for piece in reader.content(size)])


def _records_of(data: bytes) -> dict[str, str]:
    """Return the members of an extended header, whose lines are `<length> <name>=<value>`."""
    found: dict[str, str] = {}
    while data:
        length, _, _ = data.partition(b" ")
        size = int(length) if length.isdigit() and len(length) < len(str(_LARGEST_HEADER)) else 0
        record, data = data[len(length) + 1 : size], data[size:]
        name, equals, value = record.partition(b"=")
        if not equals or not value.endswith(b"\n"):
            raise _hostile("has a malformed extended header")
        found[_text(name)] = _text(value[:-1])
    return found


def _size_of(given: dict[str, str], info: tarfile.TarInfo) -> int:
    text = given.get("size", str(info.size))
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise _hostile("has an entry without a size")
    return int(text)


def _parts_of(name: str) -> tuple[str, ...]:
    """Return the parts of a path below the folder; raise UnreadableAnswerError for any other."""
    parts = tuple(each for each in name.split("/") if each not in ("", "."))
    if name.startswith("/") or ".." in parts or "\0" in name:
        raise _hostile(f"leads out of its folder, by {name!r}")
    return parts


def _stays_inside(entry: Entry) -> bool:
    """Return whether the link leads to no place outside of the folder.

    Its own folders are real, so each leading `..` is known. One behind a name could follow
    another link.
    """
    parts = [part for part in entry.link.split("/") if part not in ("", ".")]
    up = 0
    while parts[up:] and parts[up] == "..":
        up += 1
    is_relative = bool(entry.link) and not entry.link.startswith("/")
    return is_relative and up < len(entry.parts) and ".." not in parts[up:]


def _text(data: bytes) -> str:
    return data.rstrip(b"\0").decode(**_NAMES)


def _hostile(what: str) -> UnreadableAnswerError:
    return UnreadableAnswerError(f"the archive of the unit {what}")
