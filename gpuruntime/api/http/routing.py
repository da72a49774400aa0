"""The table of routes: path, handler, models and answers together.

The router, the readers of queries and bodies, the encoder and the OpenAPI document all use the
same `Route`. So the served API and its document cannot differ.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, Generic, TypeAlias, TypeVar

import attrs
from aiohttp import web

from gpuruntime.api.auth.access import Access, Known, Open, Principal
from gpuruntime.api.auth.authentication import PRINCIPAL, Guard, nothing_further
from gpuruntime.api.auth.tenancy import scope_of
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.operations.lookup.scopes import Scope

ModelT = TypeVar("ModelT")
QueryT = TypeVar("QueryT")
BodyT = TypeVar("BodyT")

JSON: Final = "application/json"
HTML: Final = "text/html"
TEXT: Final = "text/plain"

# Error codes that many routes share: all routes, routes that need the cluster, routes that write.
LOCAL: Final = ("invalid_request", "timeout", "internal_error")
CLUSTER: Final = ("forbidden", "too_many_requests", "service_unavailable")
READ: Final = (*LOCAL, *CLUSTER)
WRITE: Final = (*READ, "body_timeout", "body_too_large", "unsupported_media_type")


@attrs.frozen(slots=True)
class NoQuery:
    """The query of a route without parameters; it rejects any."""


@attrs.frozen(slots=True)
class AnyQuery:
    """The query of a route that passes it on unread, or ignores it."""


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
    # Without a body.
    EMPTY = "empty"
    # Bytes of another media type.
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
    """A page that is already encoded as JSON."""

    document: bytes


@attrs.frozen(kw_only=True, slots=True)
class Reply:
    """A handler's result; its status has to be one of its route's answers."""

    status: int = 200
    data: object = None
    next: str = ""
    headers: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True, slots=True)
class Call(Generic[QueryT, BodyT]):
    """A request whose query and body are read, and whose caller may make it."""

    request: web.Request
    query: QueryT
    body: BodyT

    def path(self, name: str) -> str:
        return self.request.match_info[name]

    @property
    def principal(self) -> Principal:
        """The caller; open routes have none."""
        return self.request[PRINCIPAL]

    @property
    def scope(self) -> Scope:
        return scope_of(self.principal)


Handler: TypeAlias = Callable[[Call[Any, Any]], Awaitable[Reply | web.StreamResponse]]


@attrs.frozen(kw_only=True, slots=True)
class Route:
    """A route. Generated clients call it `name`; `errors` are the codes that it may answer with.

    `access` is the right that it needs, without a default that could leave a route open. `further`
    gives the additional rights that some requests need. `pattern` is the path to match, if the
    documented path cannot express it. `guard` replaces the application's, if the route knows
    callers of its own.

    An untimed route answers from memory, or bounds the time to its first byte itself. A route that
    lasts may go on for as long as its caller likes.
    """

    name: str
    method: str
    path: str
    access: Access | Known | Open
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
    guard: Guard | None = None
    further: Callable[[web.Request], Iterable[Access]] = nothing_further

    def answer(self, status: int) -> Answer:
        return next(each for each in self.answers if each.status == status)
