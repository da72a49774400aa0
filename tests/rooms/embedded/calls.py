"""A server with a fixed clock and seed, and short functions to call it."""

import json
import random
from datetime import UTC, datetime
from typing import Any

from gpuruntime.embedded.apiserver.server import Server, ServerOptions
from gpuruntime.kube.transport import JSON, MERGE_PATCH, Request

Document = dict[str, Any]

MOMENT = datetime(2025, 1, 1, tzinfo=UTC)
MAPS = "/api/v1/namespaces/default/configmaps"


def new_server(*, seed: int = 7, history_limit: int = 1_000) -> Server:
    options = ServerOptions(history_limit=history_limit)
    return Server(now=lambda: MOMENT, rng=random.Random(seed), options=options)


def ask(
    method: str, path: str, body: Any = None, content_type: str = JSON, **query: str
) -> Request:
    return Request(
        method=method,
        path=path,
        query=tuple((name.rstrip("_"), value) for name, value in query.items()),
        body=None if body is None else json.dumps(body).encode(),
        content_type=content_type,
    )


def call(server: Server, method: str, path: str, body: Any = None, **query: str) -> Document:
    """Return the body of the answer, whatever its status."""
    content_type = MERGE_PATCH if method == "PATCH" else JSON
    answer = server.handle(ask(method, path, body, content_type, **query))
    document: Document = json.loads(answer.body)
    return document


def make(server: Server, name: str, **members: Any) -> Document:
    """Create a ConfigMap in the default namespace and return the answer."""
    metadata = {"name": name, **members.pop("metadata", {})}
    return call(server, "POST", MAPS, {"metadata": metadata, **members})


def names(answer: Document) -> list[str]:
    return [item["metadata"]["name"] for item in answer["items"]]
