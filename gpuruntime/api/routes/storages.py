"""The routes of storages: create, read, grow, recover and delete them."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from gpuruntime.api.auth.access import Verb, storage_access
from gpuruntime.api.auth.tenancy import owned
from gpuruntime.api.http.headers import IF_MATCH, MEANING_OF_REPLAY, REPLAYED, if_match
from gpuruntime.api.http.routing import (
    READ,
    WRITE,
    Answer,
    Body,
    Call,
    Form,
    NoQuery,
    Reply,
    Route,
)
from gpuruntime.api.openapi import examples
from gpuruntime.api.views.pages import PageQuery, cursor_after_key, key_of
from gpuruntime.api.views.storages import storage_view
from gpuruntime.models.kinds.storages import GPUStorage
from gpuruntime.models.requests.storages import CreateStorage, UpdateStorage
from gpuruntime.models.views.storages import StorageView
from gpuruntime.operations.options import Namespaces
from gpuruntime.operations.requests import parse_create_storage, parse_update_storage
from gpuruntime.operations.storages import Storages
from gpuruntime.operations.updates import etag_of

STORAGES: Final = "/api/v1/gpu-storages"
STORAGE: Final = f"{STORAGES}/{{name}}"
_TAG: Final = "storages"
_CONFLICTS = ("operation_conflict", "operation_finished", "name_taken")
_ETAG = {"ETag": "Changes with the storage's spec; for If-Match."}
_NO_HEADERS: Final[Mapping[str, str]] = {}


def storage_routes(storages: Storages, namespaces: Namespaces) -> tuple[Route, ...]:
    handlers = _StorageHandlers(storages)
    return (
        Route(
            method="POST",
            path=STORAGES,
            name="createStorage",
            access=storage_access(Verb.CREATE),
            handler=handlers.create,
            summary="Create a storage",
            body=Body(
                model=CreateStorage,
                parse=partial(parse_create_storage, namespaces=namespaces),
                example=examples.CREATE_STORAGE,
            ),
            answers=(
                Answer(
                    status=201,
                    description="The storage was created.",
                    model=StorageView,
                    headers={**_ETAG, "Location": "Where the storage is read."},
                ),
                Answer(
                    status=200,
                    description="The operation was done before: the storage as it is now.",
                    model=StorageView,
                    headers={**_ETAG, **MEANING_OF_REPLAY},
                ),
            ),
            errors=(*WRITE, *_CONFLICTS, "gpustorage_not_found"),
            tag=_TAG,
        ),
        Route(
            method="GET",
            path=STORAGES,
            name="listStorages",
            access=storage_access(Verb.LIST),
            is_untimed=True,
            handler=handlers.list,
            summary="List storages by name",
            query=PageQuery,
            answers=(
                Answer(
                    status=200,
                    description="A page of storages.",
                    form=Form.PAGE,
                    model=StorageView,
                ),
            ),
            errors=READ,
            tag=_TAG,
        ),
        Route(
            method="GET",
            path=STORAGE,
            name="getStorage",
            access=storage_access(Verb.GET),
            handler=handlers.get,
            summary="Read a storage",
            answers=(
                Answer(status=200, description="The storage.", model=StorageView, headers=_ETAG),
            ),
            errors=(*READ, "gpustorage_not_found"),
            tag=_TAG,
        ),
        Route(
            method="PUT",
            path=STORAGE,
            name="updateStorage",
            access=storage_access(Verb.UPDATE),
            handler=handlers.update,
            summary="Let a storage grow, or turn its accessor on or off",
            body=Body(
                model=UpdateStorage,
                parse=parse_update_storage,
                example=examples.UPDATE_STORAGE,
            ),
            headers=IF_MATCH,
            answers=(
                Answer(
                    status=200,
                    description="The changed storage.",
                    model=StorageView,
                    headers=_ETAG,
                ),
            ),
            errors=(*WRITE, "gpustorage_not_found", "precondition_failed"),
            tag=_TAG,
        ),
        Route(
            method="DELETE",
            path=STORAGE,
            name="deleteStorage",
            access=storage_access(Verb.DELETE),
            handler=handlers.delete,
            summary="Delete a storage and its content",
            headers=IF_MATCH,
            answers=(
                Answer(status=204, description="It is deleted, or about to be.", form=Form.EMPTY),
            ),
            errors=(*READ, "gpustorage_not_found", "storage_in_use", "precondition_failed"),
            tag=_TAG,
        ),
        Route(
            method="POST",
            path=f"{STORAGE}/recover",
            name="recoverStorage",
            access=storage_access(Verb.UPDATE),
            handler=handlers.recover,
            summary="Run a failed prepare again",
            answers=(
                Answer(
                    status=200,
                    description="The storage, asked to recover.",
                    model=StorageView,
                    headers=_ETAG,
                ),
            ),
            errors=(*READ, "gpustorage_not_found", "nothing_to_recover", "storage_in_use"),
            tag=_TAG,
        ),
    )


class _StorageHandlers:
    def __init__(self, storages: Storages) -> None:
        self._storages = storages

    async def create(self, call: Call[NoQuery, CreateStorage]) -> Reply:
        creation = await self._storages.create(owned(call.body, call.principal), call.scope)
        storage = creation.storage
        if creation.is_replay:
            return _shown(storage, headers=REPLAYED)
        location = {"Location": f"{STORAGES}/{storage.metadata.name}"}
        return _shown(storage, status=201, headers=location)

    async def list(self, call: Call[PageQuery, None]) -> Reply:
        page = self._storages.page(
            limit=call.query.limit, after=key_of(call.query.cursor), scope=call.scope
        )
        return Reply(
            data=[storage_view(storage) for storage in page.storages],
            next=cursor_after_key(page.next),
        )

    async def get(self, call: Call[NoQuery, None]) -> Reply:
        return _shown(await self._storages.get(call.path("name"), call.scope))

    async def update(self, call: Call[NoQuery, UpdateStorage]) -> Reply:
        matching = if_match(call.request)
        storage = await self._storages.update(
            call.path("name"), call.body, if_match=matching, scope=call.scope
        )
        return _shown(storage)

    async def delete(self, call: Call[NoQuery, None]) -> Reply:
        matching = if_match(call.request)
        await self._storages.delete(call.path("name"), call.scope, if_match=matching)
        return Reply(status=204)

    async def recover(self, call: Call[NoQuery, None]) -> Reply:
        return _shown(await self._storages.recover(call.path("name"), call.scope))


def _shown(
    storage: GPUStorage, *, status: int = 200, headers: Mapping[str, str] = _NO_HEADERS
) -> Reply:
    return Reply(
        status=status,
        data=storage_view(storage),
        headers={"ETag": etag_of(storage), **headers},
    )
