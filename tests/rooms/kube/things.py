"""A kind for tests, its answers, and a transport that gives them."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import attrs

from gpuruntime.kube.transport import Request, Response, Socket, StreamResponse
from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kubernetes.metadata import Key, ObjectMeta, PartialObject
from gpuruntime.models.kubernetes.resources import Resource


@attrs.frozen(kw_only=True, slots=True)
class ThingSpec:
    size: int = 0


@attrs.frozen(kw_only=True, slots=True)
class Thing:
    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    spec: ThingSpec = attrs.field(factory=ThingSpec)


THINGS = Resource(group="test.example", version="v1", kind="Thing", plural="things", type=Thing)
THING_METADATA = Resource(
    group="test.example", version="v1", kind="Thing", plural="things", type=PartialObject
)
KEY = Key("lab", "anvil")


def thing(name: str = "anvil", *, size: int = 1, version: str = "7") -> dict[str, Any]:
    return {
        "apiVersion": "test.example/v1",
        "kind": "Thing",
        "metadata": {"namespace": "lab", "name": name, "resourceVersion": version},
        "spec": {"size": size},
    }


def thing_list(*items: dict[str, Any], version: str = "9", token: str = "") -> dict[str, Any]:
    metadata = {"resourceVersion": version, "continue": token}
    return {
        "apiVersion": "test.example/v1",
        "kind": "ThingList",
        "metadata": metadata,
        "items": list(items),
    }


def failure(code: int, reason: str, message: str = "", **details: Any) -> Response:
    status: JsonObject = {
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }
    return Response(status=code, body=codec.encode(status))


def answer(body: Any, status: int = 200) -> Response:
    return Response(status=status, body=codec.encode(body))


Script = Callable[[Request], Awaitable[Response]]


class ScriptedTransport:
    """A transport that answers each request by its script and keeps the requests."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.requests: list[Request] = []

    async def request(self, request: Request) -> Response:
        self.requests.append(request)
        return await self._script(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        raise NotImplementedError(f"no test here streams through a script: {request.path}")

    def socket(
        self, request: Request, protocol: str
    ) -> AbstractAsyncContextManager[Socket | Response]:
        raise NotImplementedError(f"no test here opens a {protocol}: {request.path}")


def always(outcome: Response | Exception) -> ScriptedTransport:
    async def script(_: Request) -> Response:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return ScriptedTransport(script)
