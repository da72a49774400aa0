"""Refusals in the words of Kubernetes: one exception that carries a Status document."""

from collections.abc import Sequence
from typing import Final

import attrs

from gpuruntime.embedded.apiserver.documents import Document, encode
from gpuruntime.embedded.objects.registry import Kind
from gpuruntime.embedded.schemas.faults import Fault, invalid_value
from gpuruntime.errors import GpuRuntimeError
from gpuruntime.kube.transport import JSON, Response

STALE: Final = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


@attrs.define(slots=False, eq=False)
class StatusError(GpuRuntimeError):
    """A refusal of a request, as an exception that carries a Status."""

    code: int
    reason: str
    message: str
    details: Document | None = None
    continue_token: str = ""

    def __str__(self) -> str:
        return self.message

    def document(self) -> Document:
        status: Document = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.continue_token} if self.continue_token else {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        return {**status, "code": self.code}

    def response(self) -> Response:
        headers = {"content-type": JSON}
        if self.details and "retryAfterSeconds" in self.details:
            headers["retry-after"] = str(self.details["retryAfterSeconds"])
        return Response(status=self.code, headers=headers, body=encode(self.document()) + b"\n")


def success(kind: Kind, name: str, uid: str) -> Document:
    """Return the answer to a completed deletion."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {**_details(kind, name, kind.plural), "uid": uid},
    }


def not_found(kind: Kind, name: str) -> StatusError:
    message = f'{kind.resource} "{name}" not found'
    return StatusError(404, "NotFound", message, _details(kind, name, kind.plural))


def already_exists(kind: Kind, name: str) -> StatusError:
    message = f'{kind.resource} "{name}" already exists'
    return StatusError(409, "AlreadyExists", message, _details(kind, name, kind.plural))


def conflict(kind: Kind, name: str, why: str = STALE) -> StatusError:
    message = f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}'
    return StatusError(409, "Conflict", message, _details(kind, name, kind.plural))


def unmet_precondition(kind: Kind, name: str, why: str) -> StatusError:
    """Return a 409 for a deletion; its message names the kind, not the resource."""
    subject = _subject(kind)
    message = f'Operation cannot be fulfilled on {subject} "{name}": {why}'
    return StatusError(409, "Conflict", message, _details(kind, name, kind.kind))


def forbidden(kind: Kind, name: str, why: str) -> StatusError:
    message = f'{kind.resource} "{name}" is forbidden: {why}'
    return StatusError(403, "Forbidden", message, _details(kind, name, kind.plural))


def invalid(kind: Kind, name: str, faults: Sequence[Fault]) -> StatusError:
    """Return a 422 with one cause for each invalid field."""
    return _invalid(_subject(kind), name, faults, _details(kind, name, kind.kind))


def invalid_options(kind: str, *faults: Fault) -> StatusError:
    """Return a 422 for query parameters or DeleteOptions."""
    details: Document = {"group": "meta.k8s.io", "kind": kind}
    return _invalid(f"{kind}.meta.k8s.io", "", faults, details)


def invalid_patch(patched: str, why: str) -> StatusError:
    """Return a 422 for a patch that applies but leaves no object of the kind."""
    return _invalid("", "", [invalid_value("patch", patched, why)], {})


def too_large(limit: int) -> StatusError:
    message = f"Request entity too large: limit is {limit}"
    return StatusError(413, "RequestEntityTooLarge", message)


def unsupported_media_type(*accepted: str, hint: str = "") -> StatusError:
    """Return a 415; the hint names what a real server accepts and this one does not."""
    listed = ", ".join(accepted)
    message = "the body of the request was in an unknown format - accepted media types include:"
    more = f" ({hint})" if hint else ""
    return StatusError(415, "UnsupportedMediaType", f"{message} {listed}{more}")


def wrong_kind(kind: Kind, found: str, metadata: object) -> StatusError:
    """Return a 422 for an object of another kind than the custom kind of the path."""
    name = metadata.get("name", "") if isinstance(metadata, dict) else ""
    details = _details(kind, name, found)
    fault = invalid_value("kind", found, f"must be {kind.kind}")
    return _invalid(f"{found}.{kind.group}", name, [fault], details)


def rejected(why: str) -> StatusError:
    """Return a 422 for a patch that is well-formed and does not fit."""
    message = f"the server rejected our request due to an error in our request: {why}"
    return StatusError(422, "Invalid", message, {})


def not_acceptable(message: str) -> StatusError:
    return StatusError(406, "NotAcceptable", message)


def unguarded(kind: Kind, name: str) -> StatusError:
    """Return a 422 for a replacement without the required version; it names the resource."""
    fault = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
    return _invalid(kind.resource, name, [fault], _details(kind, name, kind.plural))


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def internal_error(message: str) -> StatusError:
    """Return a 500, which Kubernetes also answers to some faulty requests."""
    return StatusError(500, "", message)


def expired(message: str, continue_token: str = "") -> StatusError:
    return StatusError(410, "Expired", message, continue_token=continue_token)


def too_large_version(asked: int, current: int) -> StatusError:
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return StatusError(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})


def method_not_allowed(
    message: str = "the server does not allow this method on the requested resource",
) -> StatusError:
    return StatusError(405, "MethodNotAllowed", message, {})


def unknown_resource() -> StatusError:
    message = "the server could not find the requested resource"
    return StatusError(404, "NotFound", message, {})


def _invalid(subject: str, name: str, faults: Sequence[Fault], details: Document) -> StatusError:
    texts = [str(fault) for fault in faults]
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    causes = {"causes": [fault.document() for fault in faults]}
    message = f'{subject} "{name}" is invalid: {listed}'
    return StatusError(422, "Invalid", message, {**details, **causes})


def _subject(kind: Kind) -> str:
    return f"{kind.kind}.{kind.group}" if kind.group else kind.kind


def _details(kind: Kind, name: str, named: str) -> Document:
    details: Document = {"name": name} if name else {}
    if kind.group:
        details["group"] = kind.group
    return {**details, "kind": named}
