"""The API server: it answers requests and opens streams, without tasks or a clock of its own.

Every request is handled in one synchronous step. Both the in-process transport and the HTTP
listener call it. LIMITS lists what a real server does and this one does not.
"""

import random
from collections.abc import Callable
from datetime import datetime
from typing import Final

import attrs
import structlog

from gpuruntime.embedded.apiserver.documents import Document, decode
from gpuruntime.embedded.apiserver.pod_logs import (
    NO_LOGS,
    LogRequest,
    LogStream,
    PodLogs,
    log_request,
    text,
)
from gpuruntime.embedded.apiserver.pod_streams import (
    NO_STREAMS,
    PROTOCOLS,
    PodStreams,
    Upgrade,
    demand_upgradable,
    upgrade_of,
    upgrade_required,
)
from gpuruntime.embedded.apiserver.query_options import TRUE, first_values, is_watch
from gpuruntime.embedded.apiserver.resources import Call, Resources
from gpuruntime.embedded.apiserver.routes import target_of
from gpuruntime.embedded.apiserver.status_errors import StatusError, not_found
from gpuruntime.embedded.apiserver.streams import Stream, WholeAnswer
from gpuruntime.embedded.kinds.builtin_kinds import BUILTIN_KINDS, PRIORITY_CLASSES
from gpuruntime.embedded.kinds.cluster_rules import SYSTEM_PRIORITIES
from gpuruntime.embedded.kubectl.discovery import Discovery
from gpuruntime.embedded.objects.admission import CreationPolicy
from gpuruntime.embedded.objects.cascading import DefinitionOwner, NamespaceOwner
from gpuruntime.embedded.objects.deletion import Deletions
from gpuruntime.embedded.objects.namespaces import INITIAL, NAMESPACES
from gpuruntime.embedded.objects.registry import Kind, Registry, Target
from gpuruntime.embedded.objects.state_folder import Record, Restored, StateFolder
from gpuruntime.embedded.objects.store import Store, stored_as
from gpuruntime.embedded.objects.subresources import Subresources
from gpuruntime.embedded.objects.writes import Writes
from gpuruntime.embedded.schemas.definitions import Definitions
from gpuruntime.kube.transport import Request, Response
from gpuruntime.models.definitions.rules import TWINS

log = structlog.get_logger()

LIMITS: Final = {
    "protobuf": "bodies are refused with 415 and answers are JSON",
    "server-side apply": "refused with 415; objects carry no managedFields",
    "CEL": "a rule runs by its Python twin; a definition with another rule is refused",
    "conversion": "served versions of a custom kind differ only in their names",
    "schemas": "date-time is the only checked format; new defaults apply with the next write",
    "kinds": "no StatefulSet, DaemonSet, CronJob, Ingress, EndpointSlice, autoscaler or webhook",
    "authentication": "callers are not authenticated, and 401 is never answered",
    "authorization": "every request is allowed; RBAC objects are stored and not enforced",
    "reviews": "TokenReview and the access reviews are 404",
    "quotas": "ResourceQuota and LimitRange are stored and not enforced",
    "isolation": "levels of PodSecurity and NetworkPolicies are stored and not enforced",
    "service account tokens": "none are issued, and Pods get no volume with one",
    "eviction": "disruption budgets and deleteOptions are ignored: it is a deletion",
    "subresources": "no attach, proxy, ephemeralcontainers or resize",
    "SPDY": "exec and port-forward need WebSockets, so kubectl port-forward is refused",
    "finalize": "namespaces have no finalize; they end once they are empty",
    "paths": "no /watch/ paths and no /openapi/v2: watch=1 and /openapi/v3",
    "duplicate fields": "only Strict finds them; otherwise the last one counts, without a warning",
    "strategic patches": "one that does not fit is 422, where a real server says 500",
    "waiting": "a future version is refused at once, not after three seconds",
    "adoption": "controllers count only what they created, and adopt no matching orphans",
    "endpoints": "Services get an address, and no controller writes their Endpoints",
}


@attrs.frozen(kw_only=True, slots=True)
class ServerOptions:
    """Options; `history_limit` is the number of changes per kind that a watch can resume from."""

    history_limit: int = 10_000
    policies: tuple[CreationPolicy, ...] = ()


class Server:
    """The server of all kinds; `logs` and `streams` supply what nodes know of containers."""

    def __init__(
        self,
        *,
        now: Callable[[], datetime],
        rng: random.Random,
        logs: PodLogs = NO_LOGS,
        streams: PodStreams = NO_STREAMS,
        options: ServerOptions = ServerOptions(),
        state: StateFolder | None = None,
    ) -> None:
        """Restore the objects of the folder if there is one, and record every change in it."""
        self.registry = Registry(BUILTIN_KINDS)
        self.store = Store(options.history_limit, None if state is None else state.record)
        self._definitions = Definitions(self.store, self.registry, TWINS, now)
        if state is not None and state.restored is not None:
            self._restore(state.restored)
        owners = (
            NamespaceOwner(self.store),
            DefinitionOwner(self.store, self._definitions.kind, now),
        )
        deletions = Deletions(self.store, owners, now)
        writes = Writes(self.store, deletions, now, rng, policies=options.policies)
        self._resources = Resources(self.store, writes, deletions, now)
        self._subresources = Subresources(self.store, writes, deletions, now)
        self._discovery = Discovery(self.registry)
        self._logs = logs
        self._streams = streams
        _create_initial_objects(self.store, writes)
        if state is not None:
            state.begin(self.store)

    def compact(self) -> None:
        """Forget the history, as etcd's compaction does: older versions are answered with 410."""
        for collection in self.store.collections():
            collection.compact()

    def handle(self, request: Request) -> Response:
        """Answer a request whose answer ends by itself; `open_stream` serves the others."""
        try:
            call = self._call(request)
            if call is None:
                return self._discovery.answer(request) or _page_not_found()
            return self._answer(call)
        except StatusError as refusal:
            return refusal.response()

    def is_stream(self, request: Request) -> bool:
        """Return whether the answer does not end by itself."""
        if request.method != "GET":
            return False
        query = first_values(request.query)
        return is_watch(query) or query.get("follow") in TRUE

    def open_stream(self, request: Request) -> Stream:
        """Open a stream that misses no change from now on; the caller must close it."""
        try:
            call = self._call(request)
            if call is not None and self.is_stream(request):
                if call.target.subresource == "log":
                    return LogStream(self._logs.follow(self._log_request(call)))
                if not call.target.name:
                    return self._resources.watch(call)
            return WholeAnswer(self.handle(request))
        except StatusError as refusal:
            return WholeAnswer(refusal.response())

    def upgrade(self, request: Request, offered: tuple[str, ...]) -> Upgrade | Response:
        """Return a WebSocket for one of the offered sub-protocols, or a refusal."""
        try:
            call = self._call(request)
            if call is None or call.target.subresource not in PROTOCOLS:
                return self.handle(request)
            return upgrade_of(call, self._pod(call), self._streams, offered)
        except StatusError as refusal:
            return refusal.response()

    def _restore(self, restored: Restored) -> None:
        """Put the objects back: definitions first, as they say which custom kinds exist."""
        self.store.continue_after(restored.version)
        definitions = self._definitions.kind
        others: list[Record] = []
        for record in restored.records:
            if (record.group, record.plural) == (definitions.group, definitions.plural):
                self._restore_object(definitions, record)
            else:
                others.append(record)
        self._definitions.refresh()
        kinds = {(kind.group, kind.plural): kind for kind in self.registry}
        for record in others:
            kind = kinds.get((record.group, record.plural))
            if kind is None:
                log.warning(
                    "object of an unknown kind is lost", kind=record.plural, key=record.path
                )
            else:
                self._restore_object(kind, record)

    def _restore_object(self, kind: Kind, record: Record) -> None:
        body = bytes(record.body)
        stored = stored_as(kind, record.path, decode(body), record.version, body)
        self.store.collection(kind).restore(stored)

    def _answer(self, call: Call) -> Response:
        match call.target.subresource:
            case "" | "status":
                return self._resources.answer(call)
            case "log" if call.request.method == "GET":
                return text(self._logs.read(self._log_request(call)))
            case "exec" | "portforward":
                demand_upgradable(call, self._pod(call))
                raise upgrade_required(PROTOCOLS[call.target.subresource])
            case _:
                return self._subresources.answer(call)

    def _log_request(self, call: Call) -> LogRequest:
        return log_request(self._pod(call), call.query)

    def _pod(self, call: Call) -> Document:
        pod = self.store.collection(call.target.kind).get(call.target.path)
        if pod is None:
            raise not_found(call.target.kind, call.target.name)
        return pod.document()

    def _call(self, request: Request) -> Call | None:
        self._definitions.refresh()
        target = target_of(self.registry, request.path)
        if target is None:
            return None
        return Call(target=target, request=request, query=first_values(request.query))


def _create_initial_objects(store: Store, writes: Writes) -> None:
    """Create the objects that every cluster has from the start, unless they are restored."""
    for name in INITIAL:
        if store.collection(NAMESPACES).get(name) is None:
            writes.create(Target(kind=NAMESPACES), {"metadata": {"name": name}})
    for name, value in SYSTEM_PRIORITIES.items():
        if store.collection(PRIORITY_CLASSES).get(name) is None:
            body = {"metadata": {"name": name}, "value": value}
            writes.create(Target(kind=PRIORITY_CLASSES), body)


def _page_not_found() -> Response:
    headers = {"content-type": "text/plain; charset=utf-8"}
    return Response(status=404, headers=headers, body=b"404 page not found\n")
