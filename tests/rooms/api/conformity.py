"""Checks of answers against the OpenAPI document."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

TYPES = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


class Promises:
    """The document, read more strictly than OpenAPI: an undescribed member is a fault."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document

    def assert_kept(
        self, method: str, path: str, status: int, headers: Mapping[str, str], body: object
    ) -> None:
        operation = self.operation(method, path)
        if operation is None:
            assert status in (404, 405), f"{method} {path} is not described"
            answer = {"content": {"application/json": {"schema": _ref("ErrorBody")}}}
        else:
            responses = operation["responses"]
            assert str(status) in responses, f"{method} {path}: {status} is not described"
            answer = responses[str(status)]
        if status >= 400 and isinstance(body, dict):
            code = body["error"]["code"]
            told = str(answer.get("description", "not_found, method_not_allowed")).split(", ")
            assert code in told, f"{method} {path}: {code} is not described"
        for name in answer.get("headers", {}):
            is_optional = name in ("Idempotent-Replay", "Server-Timing", "Retry-After", "ETag")
            assert name in headers or (is_optional and status >= 400), f"{name} is missing"
        content = answer.get("content", {})
        if method == "HEAD":
            return
        if not content:
            assert body == b"", f"{method} {path}: {status} has a body"
            return
        ((media_type, described),) = content.items()
        assert headers["Content-Type"].startswith(media_type)
        if media_type == "application/json":
            faults = list(self.faults(described["schema"], body, "$"))
            assert not faults, f"{method} {path}: {faults}"

    def operation(self, method: str, path: str) -> Any:
        for pattern, operations in self.document["paths"].items():
            if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", pattern), path):
                return operations.get("get" if method == "HEAD" else method.lower())
        return None

    def faults(self, schema: Mapping[str, Any], value: object, path: str) -> Iterator[str]:
        if value is None:
            if not schema.get("nullable"):
                yield f"{path} is null"
            return
        if "$ref" in schema:
            schema = self.document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        if choices := [list(self.faults(part, value, path)) for part in schema.get("anyOf", ())]:
            yield from min(choices, key=len)
        for part in schema.get("allOf", ()):
            yield from self.faults(part, value, path)
        if "type" in schema:
            yield from self._typed(schema, value, path)

    def _typed(self, schema: Mapping[str, Any], value: object, path: str) -> Iterator[str]:
        is_bool = isinstance(value, bool) and schema["type"] != "boolean"
        if not isinstance(value, TYPES[schema["type"]]) or is_bool:
            yield f"{path} is no {schema['type']}: {value!r}"
        elif isinstance(value, dict):
            yield from self._members(schema, value, path)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                yield from self.faults(schema["items"], item, f"{path}[{index}]")
        elif "enum" in schema and value not in schema["enum"]:
            yield f"{path} is none of {schema['enum']}: {value!r}"
        elif schema.get("format") == "date-time":
            assert datetime.fromisoformat(str(value)).tzinfo

    def _members(
        self, schema: Mapping[str, Any], value: Mapping[str, Any], path: str
    ) -> Iterator[str]:
        properties = schema.get("properties", {})
        others = schema.get("additionalProperties")
        for name in schema.get("required", ()):
            if name not in value:
                yield f"{path}.{name} is missing"
        for name, member in value.items():
            if name in properties:
                yield from self.faults(properties[name], member, f"{path}.{name}")
            elif isinstance(others, dict):
                yield from self.faults(others, member, f"{path}.{name}")
            elif properties:
                yield f"{path}.{name} is not described"


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}
