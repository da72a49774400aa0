"""Requests as values; a mapping with the same JSON members works as well.

An absent member has the API's default. In a change, an absent member stays as it is, and None
clears it. The API alone validates a request, and names every fault at once. Without an operationID
the client makes one: a retry creates no second object.
"""

from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

import attrs

from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.encoding.members import compact
from gpuruntime.models.kinds.invocations import Mode

# The API's defaults: the life of an invocation from its acceptance, and how long the API waits
# for the end of a synchronous call.
LIFE_SECONDS: Final = 3_600
WAIT_SECONDS: Final = 60


@attrs.frozen(kw_only=True, slots=True)
class Invoke:
    """A call of a function. Without an invocationID the client makes one: a retry runs nothing
    twice.
    """

    invocationID: str = ""
    serverlessRequestID: str
    mode: str = Mode.ASYNC
    contentType: str = "application/json"
    headers: Mapping[str, str] = attrs.field(factory=dict)
    attributes: Mapping[str, str] = attrs.field(factory=dict)
    payload: Any = None
    timeoutSeconds: int | None = None
    lifeSeconds: int = LIFE_SECONDS
    waitSeconds: int = WAIT_SECONDS


def document_of(request: Any) -> JsonObject:
    """Return the JSON members that differ from their defaults, or a mapping as it is."""
    return dict(request) if isinstance(request, Mapping) else compact(request)


def named(document: JsonObject, member: str) -> JsonObject:
    """Return the document with an id in `member`: the caller's own, or a new one."""
    return document if document.get(member) else {**document, member: f"client-{uuid4().hex}"}
