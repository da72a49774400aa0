"""Typed verbs over one transport: values in and out, each failure an error of this room."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from math import inf
from typing import TypeVar
from urllib.parse import quote

import attrs

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.kube.answers import (
    CONNECT,
    READS,
    Call,
    Page,
    demand_deletion,
    error_of,
    kind_of,
    object_of,
    page_of,
)
from gpuruntime.kube.errors import (
    BadRequestError,
    KubeError,
    MalformedAnswerError,
    OutcomeUnknownError,
    UnreachableError,
)
from gpuruntime.kube.transport import (
    JSON,
    MERGE_PATCH,
    Request,
    Response,
    Socket,
    StreamResponse,
    Transport,
)
from gpuruntime.meter import Meter, NullMeter
from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kubernetes.metadata import Key, KubernetesObject, PartialObject
from gpuruntime.models.kubernetes.resources import Resource

ObjectT = TypeVar("ObjectT", bound=KubernetesObject)
AnswerT = TypeVar("AnswerT", Response, StreamResponse, Socket | Response)

REMEDY = "check that the API server runs and can be reached from here"


class Client:
    """The fence is called before each write, and raises if this process may no longer write.

    The client retries nothing, because only the caller knows what a second attempt means.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        meter: Meter = NullMeter(),
        timeout_seconds: float = 30.0,
        fence: Callable[[], None] | None = None,
    ) -> None:
        self.transport = transport
        self._meter = meter
        self._timeout_seconds = timeout_seconds
        self._fence = fence
        # Loop time at which the last write of unknown outcome ended; it may still take effect.
        self.last_doubt = -inf

    async def get(self, resource: Resource[ObjectT], key: Key) -> ObjectT:
        call = Call("get", str(resource), str(key))
        response = await self._send(call, "GET", object_path(resource, key), accept_of(resource))
        return object_of(response, resource, call)

    async def list_page(
        self,
        resource: Resource[ObjectT],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        continue_token: str = "",
        resource_version: str = "",
    ) -> Page[ObjectT]:
        """List one page. Without resource_version the read is consistent.

        A continue_token carries its own version.
        """
        call = Call("list", str(resource), namespace)
        query = {
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "limit": str(limit) if limit else "",
            "continue": continue_token,
            "resourceVersion": "" if continue_token else resource_version,
        }
        response = await self._send(
            call,
            "GET",
            collection_path(resource, namespace),
            accept_of(resource, suffix="List"),
            query=tuple((name, value) for name, value in query.items() if value),
        )
        return page_of(response, resource, call)

    async def create(
        self, resource: Resource[ObjectT], body: JsonObject, *, namespace: str = ""
    ) -> ObjectT:
        call = Call("create", str(resource), str(Key(namespace, _name_in(body))))
        response = await self._send(
            call, "POST", collection_path(resource, namespace), accept_of(resource), body=body
        )
        return object_of(response, resource, call)

    async def replace(
        self, resource: Resource[ObjectT], key: Key, body: JsonObject, *, subresource: str = ""
    ) -> ObjectT:
        """Replace the object at the resourceVersion in the body, which guards the write."""
        call = Call("replace", str(resource), str(key))
        path = object_path(resource, key, subresource)
        response = await self._send(call, "PUT", path, accept_of(resource), body=body)
        return object_of(response, resource, call)

    async def patch(
        self,
        resource: Resource[ObjectT],
        key: Key,
        patch: JsonObject,
        *,
        resource_version: str = "",
        subresource: str = "",
        content_type: str = MERGE_PATCH,
    ) -> ObjectT:
        """Send a merge patch, or the kind of patch that `content_type` names.

        With a resource_version it applies to exactly that version.
        """
        call = Call("patch", str(resource), str(key))
        response = await self._send(
            call,
            "PATCH",
            object_path(resource, key, subresource),
            accept_of(resource),
            body=_guarded(patch, resource_version),
            content_type=content_type,
        )
        return object_of(response, resource, call)

    async def delete(
        self,
        resource: Resource[ObjectT],
        key: Key,
        *,
        uid: str = "",
        resource_version: str = "",
        grace_seconds: int | None = None,
        propagation: str = "Background",
    ) -> None:
        """Delete the object. If uid or resource_version is given, the object must match it."""
        call = Call("delete", str(resource), str(key))
        preconditions: JsonObject = {"uid": uid, "resourceVersion": resource_version}
        options: JsonObject = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": propagation,
            "preconditions": {name: value for name, value in preconditions.items() if value},
        }
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        path = object_path(resource, key)
        demand_deletion(await self._send(call, "DELETE", path, JSON, body=options), call)

    @asynccontextmanager
    async def stream(
        self,
        resource: Resource[ObjectT],
        key: Key,
        subresource: str,
        query: tuple[tuple[str, str], ...] = (),
    ) -> AsyncIterator[StreamResponse]:
        """Stream a body that may never end. The timeout bounds the response's head only."""
        call = Call("get", f"{resource}/{subresource}", str(key))
        request = Request(
            method="GET",
            path=object_path(resource, key, subresource),
            query=query,
            accept="*/*",
            timeout_seconds=self._timeout_seconds,
        )
        async with AsyncExitStack() as opened:
            stream = await self._measured(
                call, opened.enter_async_context(self.transport.stream(request))
            )
            if not 200 <= stream.status < 300:
                with naming(call):
                    body = b"".join([chunk async for chunk in stream.chunks()])
                answer = Response(status=stream.status, headers=stream.headers, body=body)
                raise error_of(answer, call)
            yield stream

    @asynccontextmanager
    async def socket(
        self,
        resource: Resource[ObjectT],
        key: Key,
        subresource: str,
        query: tuple[tuple[str, str], ...],
        *,
        protocol: str,
    ) -> AsyncIterator[Socket]:
        """Open a WebSocket. The timeout bounds its opening only.

        Raise OutcomeUnknownError if the answer is lost: a command may run all the same.
        """
        call = Call(CONNECT, f"{resource}/{subresource}", str(key))
        request = Request(
            method="GET",
            path=object_path(resource, key, subresource),
            query=query,
            accept="*/*",
            timeout_seconds=self._timeout_seconds,
        )
        async with AsyncExitStack() as opened:
            socket = await self._measured(
                call, opened.enter_async_context(self.transport.socket(request, protocol))
            )
            if isinstance(socket, Response):
                raise error_of(socket, call)
            yield socket

    async def _send(
        self,
        call: Call,
        method: str,
        path: str,
        accept: str,
        *,
        query: tuple[tuple[str, str], ...] = (),
        body: JsonObject | None = None,
        content_type: str = JSON,
    ) -> Response:
        request = Request(
            method=method,
            path=path,
            query=query,
            body=None if body is None else codec.encode(body),
            content_type=content_type,
            accept=accept,
            timeout_seconds=self._timeout_seconds,
            fence=self._fence if call.is_write else None,
        )
        try:
            response = await self._measured(call, self._exchange(request))
            if not 200 <= response.status < 300:
                raise error_of(response, call)
        except (OutcomeUnknownError, asyncio.CancelledError):
            if call.is_write:
                self.last_doubt = loop_time()
            raise
        return response

    async def _measured(self, call: Call, exchange: Awaitable[AnswerT]) -> AnswerT:
        started = loop_time()
        outcome = "cancelled"
        try:
            with naming(call):
                answer = await exchange
            outcome = str(answer.status)
            return answer
        except KubeError as error:
            outcome = type(error).__name__
            raise
        finally:
            taken = loop_time() - started
            labels = {"verb": call.verb, "resource": call.resource}
            self._meter.count("kube_requests_total", 1, code=outcome, **labels)
            self._meter.observe("kube_request_seconds", taken, **labels)

    async def _exchange(self, request: Request) -> Response:
        if request.fence:
            request.fence()
        return await self.transport.request(request)


@attrs.frozen(kw_only=True, slots=True)
class _Version:
    gitVersion: str = ""


async def server_version(transport: Transport, *, timeout_seconds: float = 5.0) -> str:
    """Return the server's version.

    Raise UnreachableError if no server answers, and the matching KubeError for any other answer.
    """
    call = Call("get", "version")
    request = Request(method="GET", path="/version", timeout_seconds=timeout_seconds)
    try:
        response = await transport.request(request)
    except (UnreachableError, OutcomeUnknownError) as error:
        raise UnreachableError(f"{error}: {REMEDY}") from error
    if response.status != 200:
        raise error_of(response, call)
    try:
        return codec.decode(response.body, _Version).gitVersion
    except codec.MalformedObjectError as error:
        raise MalformedAnswerError(f"{call}: not an API server's answer: {error}") from error


@contextmanager
def naming(call: Call) -> Iterator[None]:
    """Name the call in errors of the transport."""
    try:
        yield
    except UnreachableError as error:
        raise UnreachableError(f"{call}: {error}") from error
    except OutcomeUnknownError as error:
        # A read changes nothing: if its answer is lost, that is the same as no answer.
        lost = UnreachableError if call.verb in READS else OutcomeUnknownError
        raise lost(f"{call}: {error}") from error
    except MalformedAnswerError as error:
        raise MalformedAnswerError(f"{call}: {error}") from error


def accept_of(resource: Resource[ObjectT], *, suffix: str = "") -> str:
    """Return the Accept header, which asks for metadata only if the type is PartialObject."""
    if resource.type is PartialObject:
        return f"{JSON};as={kind_of(resource)}{suffix};g=meta.k8s.io;v=v1"
    return JSON


def collection_path(resource: Resource[ObjectT], namespace: str) -> str:
    return resource.path(namespace=_segment(namespace, resource) if namespace else "")


def object_path(resource: Resource[ObjectT], key: Key, subresource: str = "") -> str:
    return resource.path(
        namespace=_segment(key.namespace, resource) if resource.is_namespaced else "",
        name=_segment(key.name, resource),
        subresource=subresource,
    )


def _segment(name: str, resource: Resource[ObjectT]) -> str:
    """Reject a name that would address something else: an empty one addresses the collection."""
    if name in {"", ".", ".."} or "/" in name or "%" in name:
        raise BadRequestError(f"{name!r} is no name for {resource}: use a DNS label", 400)
    return quote(name, safe="")


def _name_in(body: JsonObject) -> str:
    metadata = body.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else ""
    return name if isinstance(name, str) else ""


def _guarded(patch: JsonObject, resource_version: str) -> JsonObject:
    if not resource_version:
        return patch
    metadata = patch.get("metadata")
    known = metadata if isinstance(metadata, dict) else {}
    return {**patch, "metadata": {**known, "resourceVersion": resource_version}}
