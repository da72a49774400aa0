"""Translation of API server answers into values or errors of this room."""

import math
from typing import Generic, TypedDict, TypeVar

import attrs
import msgspec

from gpuruntime.kube.errors import (
    AlreadyExistsError,
    ApiError,
    BadRequestError,
    ConflictError,
    ExpiredError,
    ForbiddenError,
    InvalidError,
    KubeError,
    MalformedAnswerError,
    NotFoundError,
    OutcomeUnknownError,
    ThrottledError,
    UnauthorizedError,
    UnavailableError,
)
from gpuruntime.kube.transport import Response
from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kubernetes.metadata import KubernetesObject, PartialObject
from gpuruntime.models.kubernetes.resources import Resource

ObjectT = TypeVar("ObjectT", bound=KubernetesObject)

READS = frozenset({"get", "list", "watch"})
CONNECT = "connect"  # Kubernetes' verb for exec and port-forward
LONGEST_QUOTE = 300
LONGEST_RETRY_AFTER_SECONDS = 300.0  # a longer time is taken for nonsense

BY_STATUS: dict[int, type[ApiError]] = {
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: ExpiredError,
    422: InvalidError,
    429: ThrottledError,
}
# A proxy in between may send these without a Status; they mean the same. A 404 does not.
SPEAK_WITHOUT_BODY = frozenset({401, 413, 429})


@attrs.frozen(slots=True)
class Call:
    """A request to the server as every message names it."""

    verb: str
    resource: str
    key: str = ""

    @property
    def is_write(self) -> bool:
        """Return whether an object may change; a connection changes none."""
        return self.verb not in READS and self.verb != CONNECT

    def __str__(self) -> str:
        return f"{self.verb} {self.resource} {self.key}".rstrip()


@attrs.frozen(kw_only=True, slots=True)
class Page(Generic[ObjectT]):
    """A page of a list. An empty continue_token marks the last page."""

    items: list[ObjectT]
    resource_version: str = ""
    continue_token: str = ""


@attrs.frozen(kw_only=True, slots=True)
class Status:
    """The Status of Kubernetes: the body of a failure, or the object of a watch's ERROR."""

    code: int = 0
    reason: str = ""
    message: str = ""
    retry_after_seconds: float | None = None


@attrs.frozen(kw_only=True, slots=True)
class TypeMeta:
    kind: str = ""


_ListMeta = TypedDict("_ListMeta", {"resourceVersion": str, "continue": str}, total=False)


@attrs.frozen(kw_only=True, slots=True)
class _ListAnswer:
    kind: str = ""
    metadata: _ListMeta = attrs.field(factory=_ListMeta)
    items: list[msgspec.Raw] = attrs.field(factory=list)


def object_of(response: Response, resource: Resource[ObjectT], call: Call) -> ObjectT:
    try:
        demand_kind(codec.decode(response.body, TypeMeta).kind, kind_of(resource), call)
        return codec.decode(response.body, resource.type)
    except codec.MalformedObjectError as error:
        raise _malformed(call, response, str(error)) from error


def page_of(response: Response, resource: Resource[ObjectT], call: Call) -> Page[ObjectT]:
    """Decode item by item, so that a null slows down one object only and a bad object is named.

    A Raw member of an item refers to the whole page: copy it before storing it.
    """
    try:
        answer = codec.decode(response.body, _ListAnswer)
        demand_kind(answer.kind, f"{kind_of(resource)}List", call)
        items = [codec.decode(memoryview(item), resource.type) for item in answer.items]
    except codec.MalformedObjectError as error:
        raise _malformed(call, response, str(error)) from error
    return Page(
        items=items,
        resource_version=answer.metadata.get("resourceVersion", ""),
        continue_token=answer.metadata.get("continue", ""),
    )


def demand_deletion(response: Response, call: Call) -> None:
    """Raise MalformedAnswerError unless the answer is JSON with a kind: the object or a Status."""
    try:
        kind = codec.decode(response.body, TypeMeta).kind
    except codec.MalformedObjectError as error:
        raise _malformed(call, response, str(error)) from error
    if not kind:
        raise _malformed(call, response, "no kind")


def kind_of(resource: Resource[ObjectT]) -> str:
    return "PartialObjectMetadata" if resource.type is PartialObject else resource.kind


def error_of(response: Response, call: Call) -> KubeError:
    """Return the error for an answer whose status is not 2xx."""
    status = status_of(response.body)
    if status is None and response.status < 500 and response.status not in SPEAK_WITHOUT_BODY:
        return _malformed(call, response, "no Status in the body")
    said = status or Status(message=_quote(response.body))
    after = _retry_after_seconds(response.headers.get("retry-after"))
    return api_error(
        call,
        attrs.evolve(
            said,
            code=response.status,
            retry_after_seconds=said.retry_after_seconds if after is None else after,
        ),
    )


def api_error(call: Call, status: Status) -> KubeError:
    """Map a Status to an error of ours: a lost write first, then by status.code and reason."""
    if call.is_write and _loses_writes(status):
        message = f"{call}: {status.code} {status.reason}: {status.message}"
        return OutcomeUnknownError(f"{message} (the write may have happened)")
    return refusal(call, status)


def refusal(call: Call, status: Status) -> ApiError:
    """Map a Status to an error of ours by its code and reason."""
    message = f"{call}: {status.code} {status.reason}: {status.message}"
    if status.code >= 500:
        error_type: type[ApiError] = UnavailableError
    elif status.reason == "AlreadyExists":
        error_type = AlreadyExistsError
    else:
        error_type = BY_STATUS.get(status.code, BadRequestError)
    return error_type(
        message=message,
        status=status.code,
        reason=status.reason,
        retry_after_seconds=status.retry_after_seconds,
    )


def _loses_writes(status: Status) -> bool:
    """Return whether the write may have happened: a gateway gave up, or etcd was too slow.

    Only a 503 with a reason of the API server itself says that nothing was written.
    """
    is_refusal = status.code == 503 and status.reason != ""
    return status.reason == "Timeout" or (status.code >= 500 and not is_refusal)


def status_of(body: bytes) -> Status | None:
    """Read a Status leniently, without members of a wrong type. Return None if it is no Status."""
    try:
        plain = codec.decode_object(body)
    except codec.MalformedObjectError:
        return None
    if plain.get("kind") != "Status":
        return None
    details = plain.get("details")
    return Status(
        code=_integer(plain, "code"),
        reason=_text(plain, "reason"),
        message=_text(plain, "message"),
        retry_after_seconds=_retry_after_seconds(details.get("retryAfterSeconds"))
        if isinstance(details, dict)
        else None,
    )


def _text(plain: JsonObject, name: str) -> str:
    value = plain.get(name)
    return value if isinstance(value, str) else ""


def _integer(plain: JsonObject, name: str) -> int:
    value = plain.get(name)
    return value if isinstance(value, int) else 0


def _retry_after_seconds(value: object) -> float | None:
    """Read seconds from a number or its text. Kubernetes does not use the other form, a date."""
    if not isinstance(value, int | float | str):
        return None
    try:
        seconds = float(value)
    except (ValueError, OverflowError):
        return None
    if not math.isfinite(seconds) or seconds <= 0:
        return None
    return min(seconds, LONGEST_RETRY_AFTER_SECONDS)


def demand_kind(found: str, wanted: str, call: Call) -> None:
    if found != wanted:
        raise MalformedAnswerError(
            f"{call}: the answer's kind is {found or 'missing'!r} instead of {wanted}"
        )


def _malformed(call: Call, response: Response, fault: str) -> MalformedAnswerError:
    return MalformedAnswerError(
        f"{call}: {response.status} is not an API server's answer ({fault}): "
        f"{_quote(response.body)}; check that the address is the API server's "
        f"and that it serves {call.resource}"
    )


def _quote(body: bytes) -> str:
    text = " ".join(body[:LONGEST_QUOTE].decode(errors="replace").split())
    return repr(text) if text else "empty body"
