"""A Transport that answers reviews for some known tokens and rights, and nothing else."""

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import attrs

from gpuruntime.kube.errors import UnreachableError
from gpuruntime.kube.transport import Request, Response, Socket, StreamResponse
from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
RIGHTS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


@attrs.define
class Reviews:
    """`tokens` maps token and audience to a user; `rights` holds (user, verb, resource, place).

    Like a real API server it sends back the request, the token included.
    """

    tokens: dict[tuple[str, str], str] = attrs.field(factory=dict)
    rights: set[tuple[str, str, str, str]] = attrs.field(factory=set)
    seconds: float = 0.0
    is_away: bool = False
    forbids: bool = False
    garbles: bool = False
    asked: list[Any] = attrs.field(factory=list)

    async def request(self, request: Request) -> Response:
        body = codec.decode(request.body or b"", dict[str, Any])
        self.asked.append((request.path, body["spec"]))
        await asyncio.sleep(self.seconds)
        if self.is_away:
            raise UnreachableError("nobody answers")
        if self.forbids:
            refusal: JsonObject = {
                "kind": "Status",
                "code": 403,
                "reason": "Forbidden",
                "message": "no",
            }
            return Response(status=403, body=codec.encode(refusal))
        status = self._status(request.path, body["spec"])
        kind = "Nonsense" if self.garbles else body["kind"]
        metadata = {"creationTimestamp": None}
        answer = {**body, "kind": kind, "metadata": metadata, "status": status}
        return Response(status=201, body=codec.encode(answer))

    def stream(self, _: Request) -> AbstractAsyncContextManager[StreamResponse]:
        raise UnreachableError("nothing is watched here")

    def socket(
        self, request: Request, protocol: str
    ) -> AbstractAsyncContextManager[Socket | Response]:
        raise NotImplementedError(f"no test here opens a {protocol}: {request.path}")

    def _status(self, path: str, spec: Mapping[str, Any]) -> JsonObject:
        if path == RIGHTS:
            attributes = spec["resourceAttributes"]
            names = [attributes["resource"], attributes["subresource"]]
            resource = "/".join(name for name in names if name)
            asked = (spec["user"], attributes["verb"], resource, attributes["namespace"])
            return {"allowed": asked in self.rights}
        for audience in spec["audiences"]:
            if user := self.tokens.get((spec["token"], audience)):
                known: JsonObject = {
                    "username": user,
                    "uid": "1",
                    "groups": ["all"],
                    "extra": {"k": ["v"]},
                }
                return {"authenticated": True, "user": known, "audiences": [audience]}
        if user := self.tokens.get((spec["token"], "")):
            return {"authenticated": True, "user": {"username": user}}
        return {"authenticated": False, "error": "unknown"}
