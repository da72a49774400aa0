"""Bodies of PATCH requests, as functions of the stored document."""

from collections.abc import Callable
from typing import Any, Final

from gpuruntime.embedded.apiserver.documents import Document, decode
from gpuruntime.embedded.apiserver.patches import UnfitPatchError, json_patch, merge_patch
from gpuruntime.embedded.apiserver.status_errors import (
    bad_request,
    rejected,
    unsupported_media_type,
)
from gpuruntime.embedded.apiserver.strategic_patch import strategic_patch
from gpuruntime.embedded.objects.registry import Kind
from gpuruntime.embedded.schemas.go_types import go_structs
from gpuruntime.kube.transport import MERGE_PATCH, STRATEGIC_PATCH

JSON_PATCH: Final = "application/json-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

Amend = Callable[[Document], Document]


def patch_of(kind: Kind, media_type: str, body: bytes) -> Amend:
    """Return the patch as a function.

    Custom kinds accept no strategic patch, because they have no keys to merge lists by.
    """
    accepted = [JSON_PATCH, MERGE_PATCH] + ([] if kind.is_custom else [STRATEGIC_PATCH])
    if media_type not in accepted:
        hint = "server-side apply is not served here: apply on the client's side"
        raise unsupported_media_type(*accepted, hint=hint if media_type == APPLY_PATCH else "")
    patch = _decoded(body)
    wanted = list if media_type == JSON_PATCH else dict
    if not isinstance(patch, wanted):
        raise bad_request(f"error decoding patch: it must be {_WORDS[wanted]}")

    def amend(document: Document) -> Document:
        try:
            return _patched(kind, media_type, document, patch)
        except UnfitPatchError as error:
            raise rejected(str(error)) from error

    return amend


_WORDS: Final = {list: "a list of operations", dict: "an object"}


def _patched(kind: Kind, media_type: str, document: Document, patch: Any) -> Document:
    match media_type:
        case "application/json-patch+json":
            patched = json_patch(document, patch)
        case "application/strategic-merge-patch+json":
            patched = strategic_patch(document, patch, go_structs().get(kind.kind))
        case _:
            patched = merge_patch(document, patch)
    if not isinstance(patched, dict):
        raise UnfitPatchError("it leaves no object")
    return patched


def _decoded(body: bytes) -> Any:
    try:
        return decode(body)
    except (ValueError, RecursionError) as error:
        raise bad_request(f"error decoding patch: {error}") from error
