"""Storages over REST, and their files."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import quote

import attrs

from gpuruntime.client.errors import UnreadableAnswerError, UnusableInputError
from gpuruntime.client.messages import Page, Reply, Request, path_of, problem_of
from gpuruntime.client.requests import document_of, named
from gpuruntime.client.resource import PAGE_ITEMS, ResourceCalls, every
from gpuruntime.client.retries import Repeat
from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.codec import MalformedObjectError
from gpuruntime.models.requests.storages import CreateStorage, UpdateStorage
from gpuruntime.models.views.storages import StorageView

_STORAGES: Final = "gpu-storages"
# Longer than the API's own idle timeout, so that the API reports it first.
_SILENCE_SECONDS: Final = 90.0
_NO_HEADERS: Final[Mapping[str, str]] = {}


@attrs.frozen(kw_only=True, slots=True)
class FileEntry:
    """An entry of a folder as the file server lists it; `mtime` is in milliseconds since 1970."""

    name: str
    path_type: str = "File"
    size: int | None = None
    mtime: int = 0

    @property
    def is_folder(self) -> bool:
        return self.path_type.endswith("Dir")


@attrs.frozen(kw_only=True, slots=True)
class _Folder:
    paths: tuple[FileEntry, ...]


class Storages:
    """Storages; a call that fails raises ClientError."""

    def __init__(self, calls: ResourceCalls) -> None:
        self._calls = calls

    async def create(self, storage: CreateStorage | Mapping[str, Any]) -> Reply[StorageView]:
        document = named(document_of(storage), "operationID")
        path = path_of(_STORAGES)
        return await self._calls.post(path, StorageView, document, repeat=Repeat.ALWAYS)

    async def get(self, name: str) -> Reply[StorageView]:
        return await self._calls.read(path_of(_STORAGES, name), StorageView)

    def list(self, *, limit: int = PAGE_ITEMS) -> AsyncIterator[StorageView]:
        async def fetch(cursor: str) -> Page[StorageView]:
            query = {"limit": limit, "cursor": cursor}
            return await self._calls.page(path_of(_STORAGES), StorageView, query)

        return every(fetch)

    async def update(
        self, name: str, change: UpdateStorage | Mapping[str, Any], *, if_match: str = ""
    ) -> Reply[StorageView]:
        path = path_of(_STORAGES, name)
        return await self._calls.put(path, StorageView, document_of(change), if_match=if_match)

    async def delete(self, name: str) -> None:
        await self._calls.delete(path_of(_STORAGES, name))

    async def recover(self, name: str) -> Reply[StorageView]:
        """Request another run of a failed prepare."""
        path = path_of(_STORAGES, name, "recover")
        return await self._calls.post(path, StorageView, repeat=Repeat.UNDONE)

    def files(self, name: str) -> "Files":
        return Files(self._calls, name)


class Files:
    """Files of one storage while its accessor serves them; paths are relative to its root."""

    def __init__(self, calls: ResourceCalls, storage: str) -> None:
        self._transport = calls.transport
        self._root = path_of(_STORAGES, storage, "files")

    async def list(self, folder: str = "") -> tuple[FileEntry, ...]:
        path = f"{self._path(folder)}/" if _parts(folder) else self._path("")
        request = Request(method="GET", path=f"{path}?json")
        answer = await self._transport.exchange(request)
        if answer.status != 200:
            raise problem_of(answer)
        try:
            return codec.decode(answer.body, _Folder).paths
        except MalformedObjectError as error:
            raise UnreadableAnswerError(f"this is not a list of files: {error}") from error

    @asynccontextmanager
    async def read(self, path: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the pieces of a file; they raise LostAnswerError if the answer breaks off."""
        request = Request(method="GET", path=self._path(path))
        async with self._transport.stream(request, silence_seconds=_SILENCE_SECONDS) as stream:
            yield stream.pieces()

    async def write(
        self, path: str, pieces: AsyncIterator[bytes], *, size: int | None = None
    ) -> None:
        """Write a file without retries, as its pieces are used up.

        With `size`, the API refuses a file that is too large before it is sent.
        """
        headers = {} if size is None else {"Content-Length": str(size)}
        await self._change("PUT", path, pieces, headers)

    async def delete(self, path: str) -> None:
        """Delete a file, or a folder with everything in it."""
        await self._change("DELETE", path)

    async def make_folder(self, path: str) -> None:
        await self._change("MKCOL", path)

    async def _change(
        self,
        method: str,
        path: str,
        pieces: AsyncIterator[bytes] | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> None:
        if not _parts(path):
            raise UnusableInputError("the storage itself is not a file: name a path below it")
        request = Request(
            method=method, path=self._path(path), headers=headers, repeat=Repeat.UNDONE
        )
        if pieces is None:
            answer = await self._transport.exchange(request)
        else:
            answer = await self._transport.upload(request, pieces)
        if not 200 <= answer.status < 300:
            raise problem_of(answer)

    def _path(self, path: str) -> str:
        """Return the encoded path; a path that leads out of the storage is rejected before it is
        sent.
        """
        parts = _parts(path)
        if any(part in ("", ".", "..") for part in parts):
            raise UnusableInputError(f"{path!r} is not a path below a storage")
        return "/".join((self._root, *(quote(part, safe="") for part in parts))) + (
            "" if parts else "/"
        )


def _parts(path: str) -> list[str]:
    trimmed = path.strip("/")
    return trimmed.split("/") if trimmed else []
