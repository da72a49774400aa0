"""Bytes become documents: well-formed, of the right kind, and without what the kind lacks."""

import json
from collections.abc import Callable
from typing import Any, Final

import attrs

from gpuruntime.errors import GpuRuntimeError
from gpuruntime.kube.transport import JSON, MERGE_PATCH
from gpuruntime.local.documents import Document, decode, encode
from gpuruntime.local.faults import invalid_value
from gpuruntime.local.metadata import read_metadata
from gpuruntime.local.options import Validation
from gpuruntime.local.patches import merge_patch
from gpuruntime.local.registry import Kind
from gpuruntime.local.shapes import MistypedError
from gpuruntime.local.status import (
    StatusError,
    bad_request,
    invalid,
    invalid_patch,
    too_large,
    unsupported_media_type,
)

LARGEST_BODY: Final = 3 * 1024 * 1024
LONGEST_QUOTE: Final = 30

Amend = Callable[[Document], Document]


class UnreadableError(GpuRuntimeError):
    """Why a document is none of its kind."""


@attrs.define(slots=True)
class Reader:
    """Reads one request's body; what it had to drop is kept as warnings."""

    kind: Kind
    validation: Validation = "Warn"
    warnings: list[str] = attrs.field(factory=list)

    def read_object(self, body: bytes | None, content_type: str) -> Document:
        if _media_type(content_type) != JSON:
            raise unsupported_media_type(JSON)
        document = self._decoded(body or b"")
        self._check_kind(document)
        try:
            duplicates = _duplicates(body or b"") if self.validation == "Strict" else []
            return self._shaped(document, duplicates)
        except UnreadableError as error:
            raise bad_request(self._refusal(str(error))) from error

    def read_patch(self, body: bytes | None, content_type: str) -> Amend:
        """The patch as a function of the stored document."""
        if len(body or b"") > LARGEST_BODY:
            raise too_large(LARGEST_BODY)
        apply = self._patch(_media_type(content_type), body or b"")

        def amend(document: Document) -> Document:
            patched = apply(document)
            try:
                self._check_kind(patched)
                return self._shaped(patched, [])
            except UnreadableError as error:
                raise invalid_patch(encode(patched).decode(), str(error)) from error

        return amend

    def _patch(self, media_type: str, body: bytes) -> Amend:
        if media_type != MERGE_PATCH:
            raise unsupported_media_type(MERGE_PATCH)
        patch = _decoded_patch(body)
        if not isinstance(patch, dict):
            raise bad_request(
                f"error decoding patch: cannot unmarshal {_name_of(patch)} into a map"
            )
        return lambda document: merge_patch(document, patch)

    def _decoded(self, body: bytes) -> Document:
        if len(body) > LARGEST_BODY:
            raise too_large(LARGEST_BODY)
        try:
            document = decode(body)
        except (ValueError, RecursionError) as error:
            raise self._unrecognized(str(error), body) from error
        if not isinstance(document, dict):
            raise self._unrecognized(f"json: cannot unmarshal {_name_of(document)}", body)
        return document

    def _check_kind(self, document: Document) -> None:
        """A built-in object may leave its kind out: the path says it."""
        kind = self.kind
        if kind.is_custom and not (document.get("kind") and document.get("apiVersion")):
            missing = "Kind" if not document.get("kind") else "apiVersion"
            quote = _quote(encode(document))
            message = f"the object provided is unrecognized (must be of type {kind.kind}): Object"
            raise bad_request(f"{message} '{missing}' is missing ({quote})")
        version, name = (
            document.get("apiVersion", kind.api_version),
            document.get("kind", kind.kind),
        )
        if name != kind.kind:
            if kind.is_custom:
                fault = invalid_value("kind", name, f"must be {kind.kind}")
                named = document.get("metadata")
                raise invalid(
                    attrs.evolve(kind, kind=str(name)),
                    named.get("name", "") if isinstance(named, dict) else "",
                    [fault],
                )
            message = f'{name} in version "{version}" cannot be handled as a {kind.kind}'
            raise bad_request(message)
        if version != kind.api_version:
            message = f"the API version in the data ({version}) does not match the expected API"
            raise bad_request(f"{message} version ({kind.api_version})")

    def _shaped(self, document: Document, duplicates: list[str]) -> Document:
        try:
            unknown = read_metadata(self.kind, document) + self.kind.rules.prune(document)
        except MistypedError as error:
            raise UnreadableError(str(error)) from error
        dropped = [f'unknown field "{path}"' for path in unknown]
        dropped += [f'duplicate field "{path}"' for path in duplicates]
        if dropped and self.validation == "Strict":
            raise UnreadableError(f"strict decoding error: {', '.join(dropped)}")
        if self.validation == "Warn":
            self.warnings += dropped
        return document

    def _refusal(self, why: str) -> str:
        kind = self.kind
        return f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {why}'

    def _unrecognized(self, why: str, body: bytes) -> StatusError:
        return bad_request(
            f"the object provided is unrecognized (must be of type {self.kind.kind}): couldn't "
            f"get version/kind; json parse error: {why} ({_quote(body)})"
        )


def _decoded_patch(body: bytes) -> Any:
    try:
        return decode(body)
    except (ValueError, RecursionError) as error:
        raise bad_request(f"error decoding patch: {error}") from error


def _duplicates(body: bytes) -> list[str]:
    """Names that an object has twice; only the standard library's decoder tells."""
    found: list[str] = []

    def collect(pairs: list[tuple[str, Any]]) -> Document:
        names = [name for name, _ in pairs]
        found.extend(name for name in dict.fromkeys(names) if names.count(name) > 1)
        return dict(pairs)

    json.loads(body, object_pairs_hook=collect)
    return found


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _quote(body: bytes) -> str:
    text = body.decode(errors="replace")
    return f"{text[:LONGEST_QUOTE]} ..." if len(text) > LONGEST_QUOTE else text or "<empty>"


_GO_NAMES: Final = {list: "array", str: "string", bool: "bool", int: "number", float: "number"}


def _name_of(value: Any) -> str:
    return _GO_NAMES.get(type(value), "null")
