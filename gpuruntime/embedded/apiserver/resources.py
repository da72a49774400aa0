"""The verbs on objects and collections: get, list, watch, create, replace, patch and delete."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

import attrs

from gpuruntime.embedded.apiserver.body_reader import Reader
from gpuruntime.embedded.apiserver.documents import encode
from gpuruntime.embedded.apiserver.negotiation import AcceptedForm, Scope, form_of
from gpuruntime.embedded.apiserver.query_options import (
    Query,
    delete_options,
    list_options,
    write_options,
)
from gpuruntime.embedded.apiserver.status_errors import (
    method_not_allowed,
    not_found,
    success,
    too_large_version,
)
from gpuruntime.embedded.apiserver.streams import WatchStream
from gpuruntime.embedded.kubectl.object_forms import Form
from gpuruntime.embedded.objects.deletion import Deletions
from gpuruntime.embedded.objects.listing import list_page
from gpuruntime.embedded.objects.namespaces import NAMESPACES
from gpuruntime.embedded.objects.registry import Target
from gpuruntime.embedded.objects.selection import selection_of
from gpuruntime.embedded.objects.store import Store
from gpuruntime.embedded.objects.writes import Writes, Written
from gpuruntime.kube.transport import JSON, Request, Response

ORPHANS: Final = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background "
    "to remove them or set propagationPolicy=Orphan to suppress this warning"
)


@attrs.frozen(kw_only=True, slots=True)
class Call:
    """A request, its target, and the first value of each query parameter."""

    target: Target
    request: Request
    query: Query


class Resources:
    def __init__(
        self, store: Store, writes: Writes, deletions: Deletions, now: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._writes = writes
        self._deletions = deletions
        self._now = now

    def answer(self, call: Call) -> Response:
        target = call.target
        is_collection = bool(target.namespace) or not target.kind.is_namespaced
        match call.request.method, bool(target.name):
            case "GET", True:
                return self._get(call)
            case "GET", False:
                return self._list(call)
            case "POST", False if is_collection:
                return self._create(call)
            case "PUT", True:
                return self._replace(call)
            case "PATCH", True:
                return self._patch(call)
            case "DELETE", True if not target.subresource:
                return self._delete(call)
            case "DELETE", False if is_collection and target.kind is not NAMESPACES:
                return self._delete_all(call)
            case _:
                raise method_not_allowed()

    def watch(self, call: Call) -> WatchStream:
        return WatchStream(
            self._store,
            self._store.collection(call.target.kind),
            selection_of(call.target, call.query),
            list_options(call.query, is_watch=True),
            self._form(call, "watch"),
        )

    def _get(self, call: Call) -> Response:
        target, form = call.target, self._form(call, "object")
        options = list_options(call.query, is_watch=True)
        if options.version > self._store.version:
            raise too_large_version(options.version, self._store.version)
        stored = self._store.collection(target.kind).get(target.path)
        if stored is None:
            raise not_found(target.kind, target.name)
        return shown(form.one(stored))

    def _list(self, call: Call) -> Response:
        target, form = call.target, self._form(call, "list")
        options = list_options(call.query, is_watch=False)
        collection = self._store.collection(target.kind)
        selection = selection_of(target, call.query)
        return shown(form.many(list_page(self._store, collection, selection, options)))

    def _create(self, call: Call) -> Response:
        options = write_options(call.query, "CreateOptions")
        reader = Reader(call.target.kind, options.validation)
        document = reader.read_object(call.request.body, call.request.content_type)
        written = self._writes.create(call.target, document, is_dry_run=options.is_dry_run)
        return self._written(call, written, reader)

    def _replace(self, call: Call) -> Response:
        options = write_options(call.query, "UpdateOptions")
        reader = Reader(call.target.kind, options.validation)
        document = reader.read_object(call.request.body, call.request.content_type)
        written = self._writes.replace(call.target, document, is_dry_run=options.is_dry_run)
        return self._written(call, written, reader)

    def _patch(self, call: Call) -> Response:
        options = write_options(call.query, "PatchOptions")
        reader = Reader(call.target.kind, options.validation)
        amend = reader.read_patch(call.request.body, call.request.content_type)
        written = self._writes.patch(call.target, amend, is_dry_run=options.is_dry_run)
        return self._written(call, written, reader)

    def _delete(self, call: Call) -> Response:
        target, form = call.target, self._form(call, "object")
        options = delete_options(call.query, call.request.body)
        warnings = [] if options.propagation or not target.kind.orphans_by_default else [ORPHANS]
        deleted = self._deletions.delete(target, options)
        body = form.one(deleted.stored)
        if deleted.is_gone and not target.kind.returns_deleted:
            uid = deleted.stored.document()["metadata"]["uid"]
            body = encode(success(target.kind, target.name, uid))
        return _warned(shown(body), warnings)

    def _delete_all(self, call: Call) -> Response:
        target, form = call.target, self._form(call, "list")
        options = delete_options(call.query, call.request.body)
        collection = self._store.collection(target.kind)
        list_query = list_options(call.query, is_watch=False)
        selection = selection_of(target, call.query)
        page = list_page(self._store, collection, selection, list_query)
        for stored in page.items:
            place = attrs.evolve(target, name=stored.name)
            if collection.get(place.path) is not None:
                self._deletions.delete(place, options)
        return shown(form.many(page))

    def _form(self, call: Call, scope: Scope) -> Form:
        included = call.query.get("includeObject", "")
        accepted = AcceptedForm(accept=call.request.accept, included=included)
        return form_of(call.target.kind, accepted, scope, self._now)

    def _written(self, call: Call, written: Written, reader: Reader) -> Response:
        body = self._form(call, "object").one(written.stored)
        return _warned(shown(body, 201 if written.is_new else 200), reader.warnings)


def shown(body: bytes, status: int = 200) -> Response:
    return Response(status=status, headers={"content-type": JSON}, body=body)


def _warned(response: Response, warnings: list[str]) -> Response:
    if not warnings:
        return response
    quoted = (warning.replace("\\", "\\\\").replace('"', '\\"') for warning in warnings)
    listed = ", ".join(f'299 - "{warning}"' for warning in quoted)
    return attrs.evolve(response, headers={**response.headers, "warning": listed})
