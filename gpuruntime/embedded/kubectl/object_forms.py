"""Forms in which objects are answered: whole, or only their metadata."""

from typing import Final, Protocol

import msgspec

from gpuruntime.embedded.apiserver.documents import Document, encode
from gpuruntime.embedded.objects.listing import Page
from gpuruntime.embedded.objects.registry import Kind
from gpuruntime.embedded.objects.versions import Stored

META: Final = "meta.k8s.io/v1"
INITIAL_EVENTS_END: Final = {"k8s.io/initial-events-end": "true"}


class Form(Protocol):
    """The form of answers: objects become bytes, mostly without being decoded."""

    def one(self, stored: Stored) -> bytes: ...

    def many(self, page: Page) -> bytes: ...

    def event_object(self, stored: Stored) -> bytes:
        """Return the object of a watch event."""
        ...

    def bookmark(self, version: int, *, ends_initial_events: bool) -> bytes: ...


class WholeForm:
    """The stored bytes; items of built-in lists omit kind and version, as Go's do."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._cut = len(kind.stored_head)
        self._is_stored = kind.head == kind.stored_head

    def one(self, stored: Stored) -> bytes:
        return stored.body if self._is_stored else self._kind.head + stored.body[self._cut :]

    def many(self, page: Page) -> bytes:
        kind, cut = self._kind, self._cut
        bodies = (
            map(self.one, page.items)
            if kind.is_custom
            else (b"{" + stored.body[cut:] for stored in page.items)
        )
        list_kind = kind.list_kind or f"{kind.kind}List"
        return _listed(list_kind, kind.api_version, page, b",".join(bodies))

    def event_object(self, stored: Stored) -> bytes:
        return self.one(stored)

    def bookmark(self, version: int, *, ends_initial_events: bool) -> bytes:
        return _bookmark(self._kind.kind, self._kind.api_version, version, ends_initial_events)


class _Partial(msgspec.Struct):
    metadata: msgspec.Raw


_partials = msgspec.json.Decoder(_Partial)


class MetadataForm:
    """PartialObjectMetadata: objects without spec and status."""

    def one(self, stored: Stored) -> bytes:
        metadata = bytes(_partials.decode(stored.body).metadata)
        head = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":'
        return head + metadata + b"}"

    def many(self, page: Page) -> bytes:
        items = b",".join(map(self.one, page.items))
        return _listed("PartialObjectMetadataList", META, page, items)

    def event_object(self, stored: Stored) -> bytes:
        return self.one(stored)

    def bookmark(self, version: int, *, ends_initial_events: bool) -> bytes:
        return _bookmark("PartialObjectMetadata", META, version, ends_initial_events)


def list_metadata(page: Page) -> Document:
    metadata: Document = {"resourceVersion": str(page.version)}
    if page.continue_token:
        metadata["continue"] = page.continue_token
    if page.remaining is not None:
        metadata["remainingItemCount"] = page.remaining
    return metadata


def _listed(kind: str, api_version: str, page: Page, items: bytes) -> bytes:
    head = {"kind": kind, "apiVersion": api_version, "metadata": list_metadata(page)}
    return encode(head)[:-1] + b',"items":[' + items + b"]}"


def _bookmark(kind: str, api_version: str, version: int, ends_initial_events: bool) -> bytes:
    metadata: Document = {"resourceVersion": str(version)}
    if ends_initial_events:
        metadata["annotations"] = INITIAL_EVENTS_END
    return encode({"kind": kind, "apiVersion": api_version, "metadata": metadata})
