"""Requests as values; a mapping with the same JSON members works as well.

An absent member has the API's default. In a change, an absent member stays as it is, and None
clears it. The API alone validates a request, and names every fault at once. Without an operationID
the client makes one: a retry creates no second object.
"""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.encoding.members import compact


def document_of(request: Any) -> JsonObject:
    """Return the JSON members that differ from their defaults, or a mapping as it is."""
    return dict(request) if isinstance(request, Mapping) else compact(request)


def named(document: JsonObject, member: str) -> JsonObject:
    """Return the document with an id in `member`: the caller's own, or a new one."""
    return document if document.get(member) else {**document, member: f"client-{uuid4().hex}"}
