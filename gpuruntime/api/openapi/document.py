"""The OpenAPI 3.0.3 document, made from the same routes that are served."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from gpuruntime.api.auth.access import Open
from gpuruntime.api.http.problems import ASKS_TO_RETRY, STATUSES
from gpuruntime.api.http.routing import JSON, Answer, Form, Route
from gpuruntime.api.openapi.schemas import Components, default_of
from gpuruntime.models.encoding.annotations import fields_of
from gpuruntime.models.encoding.json import JsonObject, JsonValue
from gpuruntime.models.views.errors import ErrorBody

_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_TEXT: Final[JsonObject] = {"type": "string"}
_REQUEST_ID: Final = "X-Request-Id"
_SCHEME: Final = "token"
_BEARER: Final[JsonObject] = {"type": "http", "scheme": "bearer"}
# Error codes of every route if callers are identified.
_GUARDED: Final = ("unauthenticated", "forbidden", "too_many_requests", "service_unavailable")
# Error codes of every route if they are not: a page of another origin is refused.
_UNGUARDED: Final = ("forbidden",)
_METHODS: Final = frozenset({"get", "put", "post", "delete", "options", "head", "patch", "trace"})


def openapi_document(
    routes: Iterable[Route], *, version: str, is_guarded: bool = False
) -> JsonObject:
    components, paths = Components(), dict[str, JsonObject]()
    for route in routes:
        if route.method.lower() not in _METHODS:
            continue
        operations = paths.setdefault(route.path, {})
        operations[route.method.lower()] = _operation(route, components, is_guarded=is_guarded)
    return {
        "openapi": "3.0.3",
        "info": {
            "title": "gpuruntime",
            "version": version,
            "description": "GPU units on Kubernetes: stock, claims and running units.",
        },
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.schemas.items())),
            **({"securitySchemes": {_SCHEME: _BEARER}} if is_guarded else {}),
        },
    }


def _operation(route: Route, components: Components, *, is_guarded: bool) -> JsonObject:
    is_open = isinstance(route.access, Open)
    asks = is_guarded and not is_open
    further = () if is_open else _GUARDED if is_guarded else _UNGUARDED
    body: JsonObject = {}
    if route.body:
        schema = components.request(route.body.model)
        content: JsonObject = {JSON: {"schema": schema, "example": route.body.example}}
        body = {"requestBody": {"required": True, "content": content}}
    return {
        "operationId": route.name,
        "summary": route.summary,
        "tags": [route.tag],
        "parameters": list(_parameters(route, components)),
        **({"security": [{_SCHEME: []}]} if asks else {}),
        **body,
        "responses": dict(sorted(_responses(route, components, further))),
    }


def _parameters(route: Route, components: Components) -> Iterator[JsonObject]:
    for name in _PARAMETER.findall(route.path):
        yield {"name": name, "in": "path", "required": True, "schema": _TEXT}
    for field in fields_of(route.query):
        schema = components.answer(field.annotation) | default_of(field)
        schema.pop("nullable", None)
        description = schema.pop("description", None)
        yield {
            "name": field.name,
            "in": "query",
            "schema": schema,
            **({"required": True} if field.is_required else {}),
            **({"description": description} if description else {}),
        }
    for name, description in (
        {_REQUEST_ID: "Is repeated in the answer."} | dict(route.headers)
    ).items():
        yield {"name": name, "in": "header", "description": description, "schema": _TEXT}


def _responses(
    route: Route, components: Components, further: Iterable[str]
) -> Iterator[tuple[str, JsonValue]]:
    for answer in route.answers:
        yield str(answer.status), _success(answer, components)
    for status, codes in _by_status((*route.errors, *further)).items():
        retry = {"Retry-After": "Seconds to wait."} if status in ASKS_TO_RETRY else {}
        challenge = {"WWW-Authenticate": "What to send."} if status == 401 else {}
        yield (
            str(status),
            {
                "description": ", ".join(codes),
                "headers": _headers(retry | challenge),
                "content": {JSON: {"schema": components.answer(ErrorBody)}},
            },
        )


def _by_status(codes: Iterable[str]) -> dict[int, list[str]]:
    by_status: dict[int, list[str]] = {}
    for code in dict.fromkeys(codes):
        by_status.setdefault(STATUSES[code], []).append(code)
    return by_status


def _success(answer: Answer, components: Components) -> JsonObject:
    described: JsonObject = {
        "description": answer.description,
        "headers": _headers(answer.headers),
    }
    if answer.form is Form.EMPTY:
        return described
    return {**described, "content": {answer.media_type: {"schema": _schema(answer, components)}}}


def _schema(answer: Answer, components: Components) -> JsonObject:
    match answer.form:
        case Form.ONE:
            return _closed(data=components.answer(answer.model))
        case Form.PAGE:
            items: JsonObject = {"type": "array", "items": components.answer(answer.model)}
            cursor: JsonObject = {
                **_TEXT,
                "description": "The next page's cursor; empty on the last page.",
            }
            return _closed(data=items, next=cursor)
        case _:
            return {"type": "object"} if answer.media_type == JSON else dict(_TEXT)


def _closed(**members: JsonValue) -> JsonObject:
    return {"type": "object", "required": list(members), "properties": members}


def _headers(headers: Mapping[str, str]) -> JsonObject:
    named = {_REQUEST_ID: "The request's id in the service's logs.", **headers}
    return {
        name: {"description": description, "schema": _TEXT} for name, description in named.items()
    }
