"""The routes of a storage's files: checked here, answered by the storage's own file server."""

from typing import Final

from aiohttp import hdrs, web

from gpuruntime.api.auth.access import ANYBODY, Verb, storage_access
from gpuruntime.api.errors import MethodNotAllowedError
from gpuruntime.api.files.file_servers import FileServers
from gpuruntime.api.files.headers import onward
from gpuruntime.api.files.paths import DESTINATION, destination_of, target_of
from gpuruntime.api.files.relay import FileRelay, RelayRequest
from gpuruntime.api.http.routing import READ, Answer, AnyQuery, Call, Form, Route
from gpuruntime.api.routes.storages import STORAGE
from gpuruntime.strict.structure import Problem, StrictError

READS: Final = ("GET", "HEAD", "OPTIONS", "PROPFIND")
_FOLDER: Final = f"{STORAGE}/files/"
_FILES: Final = f"{STORAGE}/files/{{path}}"
_PATTERN: Final = f"{STORAGE}/files{{path:(?:/.*)?}}"
_BYTES: Final = "application/octet-stream"
_READ: Final = storage_access(Verb.GET, "files")
_CHANGE: Final = storage_access(Verb.UPDATE, "files")
_AS_SERVED: Final = "The answer of the file server."
_ERRORS: Final = (
    *READ,
    "gpustorage_not_found",
    "accessor_off",
    "method_not_allowed",
    "body_timeout",
    "body_too_large",
    "upstream_fault",
)
# OpenAPI cannot describe the methods of WebDAV, so the document leaves them out.
_METHODS: Final = (
    ("GET", "readFile", "Read a file, or list a folder"),
    ("OPTIONS", "askForFileMethods", "What can be done with a file"),
    ("PROPFIND", "readFileProperties", "Read properties of a file, or of a folder's files"),
    ("PUT", "writeFile", "Write a file; MKCOL creates a folder, MOVE and COPY take a Destination"),
    ("PATCH", "continueFile", "Append to a file, with X-Update-Range: append"),
    ("DELETE", "deleteFile", "Delete a file, or a folder with everything in it"),
    ("MKCOL", "makeFolder", "Create a folder"),
    ("COPY", "copyFile", "Copy within the storage"),
    ("MOVE", "moveFile", "Move within the storage"),
)
_OF_FOLDER: Final = (
    ("GET", "listFiles", "List the files of a storage"),
    ("OPTIONS", "askForFolderMethods", "What can be done with the files of a storage"),
)


def file_routes(file_servers: FileServers, relay: FileRelay) -> tuple[Route, ...]:
    files = _Files(file_servers, relay)
    # A path parameter is never empty in OpenAPI, so the root folder has a path of its own.
    of_folder = [(_FOLDER, "", *each) for each in _OF_FOLDER]
    table = (*of_folder, *((_FILES, _PATTERN, *each) for each in _METHODS))
    return tuple(
        Route(
            method=method,
            path=path,
            access=_READ if method in READS else _CHANGE,
            pattern=pattern,
            name=name,
            handler=files.read if method in READS else files.change,
            summary=summary,
            query=AnyQuery,
            answers=(
                Answer(status=200, description=_AS_SERVED, form=Form.RAW, media_type=_BYTES),
            ),
            errors=_ERRORS,
            is_untimed=True,
            lasts=True,
            tag="files",
        )
        for path, pattern, method, name, summary in table
    )


class _Files:
    def __init__(self, file_servers: FileServers, relay: FileRelay) -> None:
        self._file_servers = file_servers
        self._relay = relay

    async def read(self, call: Call[AnyQuery, None]) -> web.StreamResponse:
        return await self._serve(call, is_change=False)

    async def change(self, call: Call[AnyQuery, None]) -> web.StreamResponse:
        return await self._serve(call, is_change=True)

    async def _serve(self, call: Call[AnyQuery, None], *, is_change: bool) -> web.StreamResponse:
        request, name = call.request, call.path("name")
        target = target_of(request.raw_path, name, is_change=is_change)
        headers = onward(request.headers)
        if request.method in ("COPY", "MOVE"):
            headers[DESTINATION] = _destination(request, name)
        storage = await self._file_servers.storage(name, call.scope)
        if is_change and not storage.spec.accessor.writable:
            raise MethodNotAllowedError(request.method, READS)
        accessor = self._file_servers.of(storage)
        caller = "" if call.principal is ANYBODY else call.principal.name
        return await self._relay.relay(
            request, RelayRequest(accessor=accessor, target=target, headers=headers, caller=caller)
        )


def _destination(request: web.Request, storage: str) -> str:
    values = request.headers.getall(DESTINATION, [])
    if len(values) != 1:
        message = f"{request.method} takes one: the path to write to"
        raise StrictError((Problem(field=DESTINATION, message=message),))
    return destination_of(values[0], storage, request.headers.get(hdrs.HOST, ""))
