"""The files of a container as asyncssh's SFTP and SCP servers ask for them.

This is no subclass of `asyncssh.SFTPServer`, whose own methods open files of the gateway: a method
that is missing here is an operation that fails.
"""

import stat
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

import asyncssh
from asyncssh import SFTPAttrs, SFTPName

from gpuruntime.gateway.ssh.container import Container
from gpuruntime.gateway.ssh.shell_file import ShellFile
from gpuruntime.gateway.ssh.shell_files import (
    LARGEST_LISTING,
    Attributes,
    Change,
    Fault,
    FileError,
    OpenMode,
    ShellFiles,
)

# Each may run a program in the container.
MOST_OPEN_FILES: Final = 64
_LATEST: Final = 2**32 - 1
# SFTP before version 4, which clients speak, has no code for what exists already.
_ERRORS: Final[Mapping[Fault, Callable[[str], asyncssh.SFTPError]]] = {
    Fault.MISSING: asyncssh.SFTPNoSuchFile,
    Fault.DENIED: asyncssh.SFTPPermissionDenied,
    Fault.EXISTS: asyncssh.SFTPFailure,
    Fault.OTHER: asyncssh.SFTPFailure,
}
_TYPES: Final = {
    stat.S_IFREG: asyncssh.FILEXFER_TYPE_REGULAR,
    stat.S_IFDIR: asyncssh.FILEXFER_TYPE_DIRECTORY,
    stat.S_IFLNK: asyncssh.FILEXFER_TYPE_SYMLINK,
}


class SftpFiles:
    """`drain` waits while the caller has not taken earlier answers; `over` is called at the end.

    Servers of SCP get paths as a shell would: with `expands_home`, `~` is the home.
    """

    def __init__(
        self,
        container: Container,
        *,
        drain: Callable[[], Awaitable[None]],
        over: Callable[[], None],
        expands_home: bool = False,
    ) -> None:
        self._container = container
        self._files = ShellFiles(container)
        self._drain = drain
        self._over = over
        self._expands_home = expands_home
        self._open: set[ShellFile] = set()
        # Bytes of the listings that are being read.
        self._listed_bytes = 0

    async def stat(self, path: bytes) -> SFTPAttrs:
        with _translated():
            return _sftp_attributes(await self._files.attributes(self._path(path), follows=True))

    async def lstat(self, path: bytes) -> SFTPAttrs:
        with _translated():
            return _sftp_attributes(await self._files.attributes(self._path(path), follows=False))

    async def fstat(self, file: ShellFile) -> SFTPAttrs:
        with _translated():
            await file.finish()
        return await self.stat(file.path)

    async def setstat(self, path: bytes, attributes: SFTPAttrs) -> None:
        with _translated():
            await self._files.change(self._path(path), _change_of(attributes))

    async def fsetstat(self, file: ShellFile, attributes: SFTPAttrs) -> None:
        with _translated():
            await file.finish()
        await self.setstat(file.path, attributes)

    async def realpath(self, path: bytes) -> bytes:
        with _translated():
            return await self._files.real_path(self._path(path) or b".")

    async def readlink(self, path: bytes) -> bytes:
        with _translated():
            return await self._files.read_link(path)

    async def symlink(self, target: bytes, path: bytes) -> None:
        with _translated():
            await self._files.make_link(target, path)

    async def link(self, existing: bytes, path: bytes) -> None:
        with _translated():
            await self._files.make_hard_link(existing, path)

    async def scandir(self, path: bytes) -> AsyncIterator[SFTPName]:
        with _translated():
            listed = await self._files.listing(self._path(path))
            size = len(listed.output)
            if self._listed_bytes + size > LARGEST_LISTING:
                raise asyncssh.SFTPFailure("too many large folders are open: close some")
            self._listed_bytes += size
            try:
                for name, attributes in listed:
                    yield SFTPName(name, attrs=_sftp_attributes(attributes))
            finally:
                self._listed_bytes -= size

    def format_longname(self, name: SFTPName) -> None:
        """Write the line of `ls -l`, with numbers of users: their names are the container's."""
        attributes = name.attrs
        mode = stat.filemode(attributes.permissions or 0)
        changed = time.strftime("%Y-%m-%d %H:%M", time.gmtime(attributes.mtime or 0))
        line = f"{mode} 1 {attributes.uid} {attributes.gid} {attributes.size:>8} {changed} "
        filename = name.filename
        name.longname = line.encode() + (
            filename.encode() if isinstance(filename, str) else filename
        )

    async def mkdir(self, path: bytes, attributes: SFTPAttrs) -> None:
        with _translated():
            await self._files.make_folder(self._path(path), attributes.permissions)

    async def rmdir(self, path: bytes) -> None:
        with _translated():
            await self._files.remove_folder(path)

    async def remove(self, path: bytes) -> None:
        with _translated():
            await self._files.remove(path)

    async def rename(self, old: bytes, new: bytes) -> None:
        with _translated():
            await self._files.rename(old, new, replaces=False)

    async def posix_rename(self, old: bytes, new: bytes) -> None:
        with _translated():
            await self._files.rename(old, new, replaces=True)

    async def statvfs(self, path: bytes) -> asyncssh.SFTPVFSAttrs:
        with _translated():
            (
                size,
                blocks,
                free,
                available,
                files,
                free_files,
                longest,
            ) = await self._files.free_space(path)
        return asyncssh.SFTPVFSAttrs(
            bsize=size,
            frsize=size,
            blocks=blocks,
            bfree=free,
            bavail=available,
            files=files,
            ffree=free_files,
            favail=free_files,
            namemax=longest,
        )

    async def fstatvfs(self, file: ShellFile) -> asyncssh.SFTPVFSAttrs:
        return await self.statvfs(file.path)

    async def open(self, path: bytes, flags: int, attributes: SFTPAttrs) -> ShellFile:
        found = self._path(path)
        if len(self._open) >= MOST_OPEN_FILES:
            raise asyncssh.SFTPFailure(f"{MOST_OPEN_FILES} files are open: close some")
        appends = bool(flags & asyncssh.FXF_APPEND)
        with _translated():
            if appends or flags & asyncssh.FXF_WRITE:
                await self._files.prepare(found, _mode_of(flags, attributes))
            else:
                await self._files.check_readable(found)
        file = ShellFile(self._container, found, appends=appends)
        self._open.add(file)
        return file

    async def read(self, file: ShellFile, offset: int, size: int) -> bytes:
        await self._drain()
        with _translated():
            return await file.read(offset, size)

    async def write(self, file: ShellFile, offset: int, data: bytes) -> int:
        with _translated():
            await file.write(offset, data)
        return len(data)

    async def fsync(self, file: ShellFile) -> None:
        with _translated():
            await file.finish()

    async def close(self, file: ShellFile) -> None:
        self._open.discard(file)
        with _translated():
            await file.finish()

    async def exit(self) -> None:
        """End; nothing reads the fault of a file that was left open."""
        for file in tuple(self._open):
            with suppress(asyncssh.SFTPError):
                await self.close(file)
        self._over()

    async def convert_attrs(self, found: Awaitable[SFTPAttrs]) -> SFTPAttrs:
        return await found

    def _path(self, path: bytes) -> bytes:
        if self._expands_home and (path == b"~" or path.startswith(b"~/")):
            return path[2:] or b"."
        return path


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except FileError as error:
        raise _ERRORS[error.fault](str(error)) from error


def _mode_of(flags: int, attributes: SFTPAttrs) -> OpenMode:
    return OpenMode(
        creates=bool(flags & asyncssh.FXF_CREAT),
        truncates=bool(flags & asyncssh.FXF_TRUNC),
        is_exclusive=bool(flags & asyncssh.FXF_EXCL),
        permissions=attributes.permissions,
    )


def _change_of(attributes: SFTPAttrs) -> Change:
    has_owner = attributes.uid is not None and attributes.gid is not None
    return Change(
        size=attributes.size,
        permissions=attributes.permissions,
        owner=(attributes.uid or 0, attributes.gid or 0) if has_owner else None,
        accessed_at=attributes.atime,
        modified_at=attributes.mtime,
    )


def _sftp_attributes(found: Attributes) -> SFTPAttrs:
    return SFTPAttrs(
        type=_TYPES.get(stat.S_IFMT(found.mode), asyncssh.FILEXFER_TYPE_SPECIAL),
        size=found.size,
        uid=found.user,
        gid=found.group,
        permissions=found.mode,
        atime=min(max(found.accessed_at, 0), _LATEST),
        mtime=min(max(found.modified_at, 0), _LATEST),
    )
