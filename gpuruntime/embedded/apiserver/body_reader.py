"""Request bodies become documents: well-formed, of the right kind, without unknown fields."""

import json
from typing import Any, Final

import attrs
import yaml

from gpuruntime.embedded.apiserver.documents import Document, decode, encode, encode_sorted
from gpuruntime.embedded.apiserver.patch_requests import Amend, patch_of
from gpuruntime.embedded.apiserver.query_options import Validation
from gpuruntime.embedded.apiserver.status_errors import (
    StatusError,
    bad_request,
    invalid_patch,
    too_large,
    unsupported_media_type,
    wrong_kind,
)
from gpuruntime.embedded.objects.metadata import read_metadata
from gpuruntime.embedded.objects.registry import Kind
from gpuruntime.embedded.schemas.member_types import MistypedError
from gpuruntime.errors import GpuRuntimeError
from gpuruntime.kube.transport import JSON

LARGEST_BODY: Final = 3 * 1024 * 1024
LONGEST_QUOTE: Final = 30
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"


class UnreadableError(GpuRuntimeError):
    """A document is not of its kind."""


@attrs.define(slots=True)
class Reader:
    """A reader of one request's body, which keeps a warning for each dropped field."""

    kind: Kind
    validation: Validation = "Warn"
    warnings: list[str] = attrs.field(factory=list)

    def read_object(self, body: bytes | None, content_type: str) -> Document:
        document = self._decoded(_bounded(body), media_type(content_type))
        self._check_kind(document)
        try:
            duplicates = _duplicates(body or b"") if self.validation == "Strict" else []
            return self._shaped(document, duplicates)
        except UnreadableError as error:
            kind = self.kind
            subject = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
            raise bad_request(f"{subject}: {error}") from error

    def read_patch(self, body: bytes | None, content_type: str) -> Amend:
        """Return the patch as a function of the stored document."""
        apply = patch_of(self.kind, media_type(content_type), _bounded(body))

        def amend(document: Document) -> Document:
            patched = apply(document)
            try:
                self._check_kind(patched)
                return self._shaped(patched, [])
            except UnreadableError as error:
                raise invalid_patch(encode_sorted(patched).decode(), str(error)) from error

        return amend

    def _decoded(self, body: bytes, media_type: str) -> Document:
        if media_type not in (JSON, YAML):
            hint = "protobuf is not served here: send JSON" if media_type == PROTOBUF else ""
            raise unsupported_media_type(JSON, YAML, hint=hint)
        try:
            document = decode(body) if media_type == JSON else _read_yaml(body)
        except (ValueError, RecursionError, yaml.YAMLError) as error:
            raise self._unrecognized(str(error), body) from error
        if not isinstance(document, dict):
            found = type(document).__name__
            raise self._unrecognized(f"json: cannot unmarshal {found} into an object", body)
        return document

    def _check_kind(self, document: Document) -> None:
        """Check kind and version; a built-in object may omit them, because the path names them."""
        kind = self.kind
        version, name = document.get("apiVersion"), document.get("kind")
        if kind.is_custom and not (version and name):
            missing = "apiVersion" if name else "Kind"
            quote = _quote(encode(document))
            message = f"the object provided is unrecognized (must be of type {kind.kind}): Object"
            raise bad_request(f"{message} '{missing}' is missing ({quote})")
        if (name or kind.kind) != kind.kind:
            if kind.is_custom:
                raise wrong_kind(kind, str(name), document.get("metadata"))
            message = f'{name} in version "{version}" cannot be handled as a {kind.kind}'
            raise bad_request(message)
        if (version or kind.api_version) != kind.api_version:
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

    def _unrecognized(self, why: str, body: bytes) -> StatusError:
        return bad_request(
            f"the object provided is unrecognized (must be of type {self.kind.kind}): couldn't "
            f"get version/kind; json parse error: {why} ({_quote(body)})"
        )


class _YamlLoader(yaml.SafeLoader):
    """A loader that keeps timestamps as texts, because JSON has none."""


_YamlLoader.yaml_implicit_resolvers = {
    sign: [each for each in resolvers if each[0] != "tag:yaml.org,2002:timestamp"]
    for sign, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class _Repeating(dict[str, Any]):
    """An object that remembers which of its names were repeated."""

    repeated: tuple[str, ...] = ()


def _duplicates(body: bytes) -> list[str]:
    """Return the paths of repeated names; only the standard library's decoder reports them."""

    def collect(pairs: list[tuple[str, Any]]) -> _Repeating:
        found = _Repeating(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            found.repeated = tuple(name for name in found if names.count(name) > 1)
        return found

    def walk(value: Any, path: str) -> list[str]:
        if isinstance(value, list):
            items = enumerate(value)
            return [each for index, item in items for each in walk(item, f"{path}[{index}]")]
        if not isinstance(value, _Repeating):
            return []
        prefix = f"{path}." if path else ""
        own = [prefix + name for name in value.repeated]
        return own + [each for name in value for each in walk(value[name], prefix + name)]

    try:
        return walk(json.loads(body, object_pairs_hook=collect), "")
    except ValueError:  # a YAML body: its loader has already rejected repeated names
        return []


def _read_yaml(body: bytes) -> Any:
    return yaml.load(body, _YamlLoader)  # noqa: S506  # it is a SafeLoader


def _bounded(body: bytes | None) -> bytes:
    if len(body or b"") > LARGEST_BODY:
        raise too_large(LARGEST_BODY)
    return body or b""


def media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _quote(body: bytes) -> str:
    text = body.decode(errors="replace")
    return f"{text[:LONGEST_QUOTE]} ..." if len(text) > LONGEST_QUOTE else text or "<empty>"
