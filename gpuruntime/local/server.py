"""The API server: requests in, answers and streams out, with no task and no clock of its own.

Every request is handled in one synchronous step. Both fronts, in-process and HTTP, come through
here. What it does not do of Kubernetes is listed in LIMITS.
"""

import random
from collections.abc import Callable
from datetime import datetime
from typing import Final

import attrs

from gpuruntime.kube.transport import JSON, Request, Response
from gpuruntime.local.builtin_kinds import BUILTIN_KINDS, PRIORITY_CLASSES
from gpuruntime.local.cluster_rules import SYSTEM_PRIORITIES
from gpuruntime.local.containers import DefinitionContainer, NamespaceContainer
from gpuruntime.local.definitions import Definitions
from gpuruntime.local.deletion import Deletions
from gpuruntime.local.documents import encode
from gpuruntime.local.listing import list_page
from gpuruntime.local.namespaces import INITIAL, NAMESPACES
from gpuruntime.local.negotiation import form_of
from gpuruntime.local.options import (
    Query,
    delete_options,
    first_values,
    is_watch,
    list_options,
    write_options,
)
from gpuruntime.local.reading import Reader
from gpuruntime.local.registry import Registry
from gpuruntime.local.routes import target_of
from gpuruntime.local.selection import selection_of
from gpuruntime.local.status import (
    StatusError,
    method_not_allowed,
    not_found,
    success,
    too_large_version,
)
from gpuruntime.local.store import Store
from gpuruntime.local.streams import Stream, WatchStream, WholeAnswer
from gpuruntime.local.structural import Twins
from gpuruntime.local.targets import Target, Written
from gpuruntime.local.writes import Writes
from gpuruntime.models.rules import TWINS

LIMITS: Final = {
    "protobuf": "bodies are refused with 415, answers are JSON",
    "server-side apply": "refused with 415; there are no managedFields",
}


@attrs.frozen(kw_only=True, slots=True)
class ServerOptions:
    """`history_limit` counts the changes of each kind that a watch can go back to."""

    history_limit: int = 10_000


class Server:
    """`twins` are the Python twins of the CEL rules that definitions may hold, by their texts."""

    def __init__(
        self,
        *,
        now: Callable[[], datetime],
        rng: random.Random,
        twins: Twins = TWINS,
        options: ServerOptions = ServerOptions(),
    ) -> None:
        self.registry = Registry(BUILTIN_KINDS)
        self.store = Store(options.history_limit)
        self._definitions = Definitions(self.store, self.registry, twins, now)
        containers = (
            NamespaceContainer(self.store),
            DefinitionContainer(self.store, self._definitions.kind, now),
        )
        self._deletions = Deletions(self.store, containers, now)
        self._writes = Writes(self.store, self._deletions, now, rng)
        for name in INITIAL:
            self._writes.create(Target(kind=NAMESPACES), {"metadata": {"name": name}})
        for name, value in SYSTEM_PRIORITIES.items():
            document = {"metadata": {"name": name}, "value": value}
            self._writes.create(Target(kind=PRIORITY_CLASSES), document)

    def compact(self) -> None:
        """Forget the history, as a compaction of etcd does: older versions are 410 from now on."""
        for collection in self.store.collections():
            collection.compact()

    def handle(self, request: Request) -> Response:
        """Any request but a watch, for which see open_stream."""
        try:
            target = self._target(request)
            if target is None:
                return _page_not_found()
            return self._answer(target, request, first_values(request.query))
        except StatusError as refusal:
            return refusal.response()

    def is_stream(self, request: Request) -> bool:
        """Whether the answer has no end of its own."""
        return request.method == "GET" and is_watch(first_values(request.query))

    def open_stream(self, request: Request) -> Stream:
        """From now on nothing is missed; whoever opens it closes it."""
        try:
            target = self._target(request)
            if target is None or target.name or not self.is_stream(request):
                return WholeAnswer(self.handle(request))
            query = first_values(request.query)
            return WatchStream(
                self.store,
                self.store.collection(target.kind),
                selection_of(target, query),
                list_options(query, is_watch=True),
                form_of(target.kind, request.accept, is_list=True),
            )
        except StatusError as refusal:
            return WholeAnswer(refusal.response())

    def _target(self, request: Request) -> Target | None:
        self._definitions.refresh()
        return target_of(self.registry, request.path)

    def _answer(self, target: Target, request: Request, query: Query) -> Response:
        match request.method, bool(target.name):
            case "GET", True:
                return self._get(target, request, query)
            case "GET", False:
                return self._list(target, request, query)
            case "POST", False if target.namespace or not target.kind.is_namespaced:
                return self._create(target, request, query)
            case "PUT" | "PATCH", True:
                return self._update(target, request, query)
            case "DELETE", True if not target.subresource:
                return self._delete(target, request, query)
            case "DELETE", False if target.namespace or not target.kind.is_namespaced:
                return self._delete_all(target, request, query)
            case _:
                raise method_not_allowed()

    def _get(self, target: Target, request: Request, query: Query) -> Response:
        options = list_options(query, is_watch=True)
        if options.version > self.store.version:
            raise too_large_version(options.version, self.store.version)
        stored = self.store.collection(target.kind).get(target.path)
        if stored is None:
            raise not_found(target.kind, target.name)
        return _shown(form_of(target.kind, request.accept, is_list=False).one(stored))

    def _list(self, target: Target, request: Request, query: Query) -> Response:
        form = form_of(target.kind, request.accept, is_list=True)
        options = list_options(query, is_watch=False)
        collection = self.store.collection(target.kind)
        page = list_page(self.store, collection, selection_of(target, query), options)
        return _shown(form.many(page))

    def _create(self, target: Target, request: Request, query: Query) -> Response:
        options = write_options(query, "CreateOptions")
        reader = Reader(target.kind, options.validation)
        document = reader.read_object(request.body, request.content_type)
        written = self._writes.create(target, document, is_dry_run=options.is_dry_run)
        return _written(target, request, written, reader.warnings)

    def _update(self, target: Target, request: Request, query: Query) -> Response:
        is_patch = request.method == "PATCH"
        options = write_options(query, "PatchOptions" if is_patch else "UpdateOptions")
        reader = Reader(target.kind, options.validation)
        if is_patch:
            amend = reader.read_patch(request.body, request.content_type)
            written = self._writes.patch(target, amend, is_dry_run=options.is_dry_run)
        else:
            document = reader.read_object(request.body, request.content_type)
            written = self._writes.replace(target, document, is_dry_run=options.is_dry_run)
        return _written(target, request, written, reader.warnings)

    def _delete(self, target: Target, request: Request, query: Query) -> Response:
        deleted = self._deletions.delete(target, delete_options(query, request.body))
        if deleted.is_gone and not target.kind.returns_deleted:
            uid = deleted.stored.document()["metadata"]["uid"]
            return _shown(encode(success(target.kind, target.name, uid)))
        form = form_of(target.kind, request.accept, is_list=False)
        return _shown(form.one(deleted.stored))

    def _delete_all(self, target: Target, request: Request, query: Query) -> Response:
        form = form_of(target.kind, request.accept, is_list=True)
        options = delete_options(query, request.body)
        collection = self.store.collection(target.kind)
        list_query = list_options(query, is_watch=False)
        page = list_page(self.store, collection, selection_of(target, query), list_query)
        for stored in page.items:
            place = attrs.evolve(target, namespace=stored.namespace, name=stored.name)
            if collection.get(place.path) is not None:
                self._deletions.delete(place, options)
        return _shown(form.many(page))


def _written(target: Target, request: Request, written: Written, warnings: list[str]) -> Response:
    body = form_of(target.kind, request.accept, is_list=False).one(written.stored)
    response = _shown(body, 201 if written.is_new else 200)
    if not warnings:
        return response
    quoted = (warning.replace("\\", "\\\\").replace('"', '\\"') for warning in warnings)
    listed = ", ".join(f'299 - "{warning}"' for warning in quoted)
    return attrs.evolve(response, headers={**response.headers, "warning": listed})


def _shown(body: bytes, status: int = 200) -> Response:
    return Response(status=status, headers={"content-type": JSON}, body=body)


def _page_not_found() -> Response:
    headers = {"content-type": "text/plain; charset=utf-8"}
    return Response(status=404, headers=headers, body=b"404 page not found\n")
