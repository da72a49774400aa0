"""Verbs of a storage's files: bytes between this machine and the volume, streamed."""

import asyncio
import os
import stat
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from gpuruntime.client.errors import UnusableInputError
from gpuruntime.client.storages import FileEntry, Files
from gpuruntime.commands.session import Session
from gpuruntime.errors import ConfigurationError

_STREAM: Final = "-"
_PIECE_BYTES: Final = 256 * 1024


async def ls(session: Session) -> None:
    session.print_many(FileEntry, await _files(session).list(session.options.path))


async def get(session: Session) -> None:
    """Fetch a file. If its transfer breaks off, an existing local file stays as it was."""
    asked = session.options
    target = asked.target or PurePosixPath(asked.path).name
    async with _files(session).read(asked.path) as pieces:
        if target == _STREAM:
            async for piece in pieces:
                session.terminal.piece(piece)
            return
        size = await _kept(pieces, Path(target))
    session.terminal.report(f"{size} bytes in {target}")


async def put(session: Session) -> None:
    asked = session.options
    path = asked.path or ("" if asked.source == _STREAM else PurePosixPath(asked.source).name)
    if not path:
        raise UnusableInputError("data from stdin has no name: give its path in the storage")
    if path.endswith("/"):
        path += PurePosixPath(asked.source).name
    if asked.source == _STREAM:
        await _files(session).write(path, _read(sys.stdin.buffer))
    else:
        try:
            source = Path(asked.source).open("rb")  # noqa: SIM115, ASYNC230 - closed below, local
        except OSError as error:
            raise ConfigurationError(f"{asked.source}: {error.strerror}") from error
        with source:
            about = os.fstat(source.fileno())
            size = about.st_size if stat.S_ISREG(about.st_mode) else None
            await _files(session).write(path, _read(source), size=size)
    session.terminal.report(f"{path} is written")


async def rm(session: Session) -> None:
    await _files(session).delete(session.options.path)
    session.terminal.report(f"{session.options.path} is deleted")


async def mkdir(session: Session) -> None:
    await _files(session).make_folder(session.options.path)
    session.terminal.report(f"{session.options.path} is created")


def _files(session: Session) -> Files:
    return session.client.storages.files(session.options.name)


async def _read(source: BinaryIO) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(source.read, _PIECE_BYTES):
        yield piece


async def _kept(pieces: AsyncIterator[bytes], target: Path) -> int:
    with beside(target) as file:
        size = 0
        async for piece in pieces:
            size += file.write(piece)
    return size


@contextmanager
def beside(target: Path, *, mode: int | None = None) -> Iterator[BinaryIO]:
    """Yield a file beside `target` that replaces it if all goes well; raise ConfigurationError.

    Without a mode, the file gets the one of any new file.
    """
    try:
        number, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        beside = Path(name)
        try:
            with os.fdopen(number, "wb") as file:
                yield file
            beside.chmod(0o666 & ~_umask() if mode is None else mode)
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigurationError(f"{target}: {error.strerror}") from error


def _umask() -> int:
    """Return the umask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
