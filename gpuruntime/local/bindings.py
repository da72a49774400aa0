"""Bindings: how a scheduler gives a Pod to a node, the one write that the Pod's spec allows it.

Kubernetes takes them as a collection of their own; here that collection is served beside the
server's own kinds, for whoever comes through this transport.
"""

import asyncio
import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Final

import attrs

from gpuruntime.kube.transport import JSON, Request, Response, StreamResponse
from gpuruntime.local.builtin_kinds import PODS
from gpuruntime.local.documents import decode, encode
from gpuruntime.local.server import Server
from gpuruntime.local.status import StatusError, conflict, not_found
from gpuruntime.local.stored import path_of
from gpuruntime.local.transport import InProcessTransport
from gpuruntime.models.json import JsonObject
from gpuruntime.models.metadata import Key, ObjectMeta
from gpuruntime.models.moments import rfc3339
from gpuruntime.models.resources import Resource

_PATH: Final = re.compile(r"/api/v1/namespaces/(?P<namespace>[^/]+)/bindings")


@attrs.frozen(kw_only=True, slots=True)
class Bound:
    """The answer is a Status, which has nothing of an object but its kind."""

    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)


BINDINGS: Final = Resource(group="", version="v1", kind="Status", plural="bindings", type=Bound)


def binding(key: Key, uid: str, node: str) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": key.name, "namespace": key.namespace, "uid": uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


class BindingTransport:
    """The in-process transport, and bindings beside it."""

    def __init__(self, server: Server, now: Callable[[], datetime]) -> None:
        self._server = server
        self._inner = InProcessTransport(server)
        self._now = now

    async def request(self, request: Request) -> Response:
        found = _PATH.fullmatch(request.path)
        if request.method != "POST" or found is None or request.body is None:
            return await self._inner.request(request)
        await asyncio.sleep(0)
        try:
            self._bind(found["namespace"], decode(request.body))
        except StatusError as refusal:
            return refusal.response()
        status = {"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201}
        return Response(status=201, headers={"content-type": JSON}, body=encode(status))

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        return self._inner.stream(request)

    def _bind(self, namespace: str, document: Any) -> None:
        name, node = document["metadata"]["name"], document["target"]["name"]
        path = path_of(namespace, name)
        stored = self._server.store.collection(PODS).get(path)
        if stored is None:
            raise not_found(PODS, name)
        pod = stored.document()
        if pod["metadata"]["uid"] != document["metadata"].get("uid", pod["metadata"]["uid"]):
            raise conflict(PODS, name, "the Pod of that uid is gone")
        if "deletionTimestamp" in pod["metadata"]:
            raise conflict(
                PODS, name, f"pod {name} is being deleted, cannot be assigned to a host"
            )
        if pod["spec"].get("nodeName"):
            assigned = pod["spec"]["nodeName"]
            raise conflict(PODS, name, f'pod {name} is already assigned to node "{assigned}"')
        pod["spec"]["nodeName"] = node
        status = pod.setdefault("status", {})
        others = [each for each in status.get("conditions", ()) if each["type"] != "PodScheduled"]
        moment = rfc3339(self._now())
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": moment}
        status["conditions"] = [*others, scheduled]
        self._server.store.write(PODS, path, pod)
