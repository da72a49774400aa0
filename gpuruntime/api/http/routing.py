"""One table of routes: path, handler, models and answers stand together.

The router, the readers of queries and bodies, the encoder and the OpenAPI document are all made
from the same `Route`, so what is served and what is documented cannot differ.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, Generic, TypeAlias, TypeVar

import attrs
from aiohttp import web

from gpuruntime.api.auth.access import Access, Open, Principal
from gpuruntime.api.auth.authentication import PRINCIPAL, nothing_further
from gpuruntime.api.auth.tenancy import scope_of
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.operations.lookup.scopes import Scope

ModelT = TypeVar("ModelT")
QueryT = TypeVar("QueryT")
BodyT = TypeVar("BodyT")

JSON: Final = "application/json"
HTML: Final = "text/html"
TEXT: Final = "text/plain"

# Codes that many routes may end with: all of them, those that need the cluster, those that write.
LOCAL: Final = ("invalid_request", "timeout", "internal_error")
CLUSTER: Final = ("forbidden", "too_many_requests", "service_unavailable")
READ: Final = (*LOCAL, *CLUSTER)
WRITE: Final = (*READ, "body_timeout", "body_too_large", "unsupported_media_type")


@attrs.frozen(slots=True)
class NoQuery:
    """A route without parameters: any is one too many."""


@attrs.frozen(slots=True)
class AnyQuery:
    """What stands there goes to somebody else, who reads it, or is of no account."""


@attrs.frozen(kw_only=True, slots=True)
class Body(Generic[BodyT]):
    model: type[BodyT]
    parse: Callable[[object], BodyT]
    example: JsonObject


class Form(StrEnum):
    # {"data": …}
    ONE = "one"
    # {"data": […], "next": …}
    PAGE = "page"
    # No body.
    EMPTY = "empty"
    # Bytes of a media type of their own.
    RAW = "raw"


@attrs.frozen(kw_only=True, slots=True)
class Answer:
    """A success that a route documents; `headers` gives each header's meaning."""

    status: int
    description: str
    form: Form = Form.ONE
    model: Any = None
    media_type: str = JSON
    headers: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen(slots=True)
class Encoded:
    """A page that is JSON already."""

    document: bytes


@attrs.frozen(kw_only=True, slots=True)
class Reply:
    """What a handler gives: its status has to be one of its route's answers."""

    status: int = 200
    data: object = None
    next: str = ""
    headers: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True, slots=True)
class Call(Generic[QueryT, BodyT]):
    """One request, read and judged."""

    request: web.Request
    query: QueryT
    body: BodyT

    def path(self, name: str) -> str:
        return self.request.match_info[name]

    @property
    def principal(self) -> Principal:
        """Of a route that is not open."""
        return self.request[PRINCIPAL]

    @property
    def scope(self) -> Scope:
        return scope_of(self.principal)


Handler: TypeAlias = Callable[[Call[Any, Any]], Awaitable[Reply | web.StreamResponse]]


@attrs.frozen(kw_only=True, slots=True)
class Route:
    """`name` is what generated clients call it; `errors` are the codes it may end with.

    `access` is what a caller has to be allowed: there is no default that could open a door.
    `further` is what some requests need beside it.
    The pattern is what is matched where the path, as documented, cannot say it.
    An untimed route answers from memory, or bounds by itself the time to its first byte; one that
    lasts goes on for as long as its caller likes.
    """

    name: str
    method: str
    path: str
    access: Access | Open
    handler: Handler
    summary: str
    answers: tuple[Answer, ...]
    errors: tuple[str, ...] = ()
    query: type = NoQuery
    body: Body[Any] | None = None
    headers: Mapping[str, str] = attrs.field(factory=dict)
    needs_cluster: bool = True
    is_untimed: bool = False
    lasts: bool = False
    tag: str = "units"
    pattern: str = ""
    further: Callable[[web.Request], Iterable[Access]] = nothing_further

    def answer(self, status: int) -> Answer:
        return next(each for each in self.answers if each.status == status)
