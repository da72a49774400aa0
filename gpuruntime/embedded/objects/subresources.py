"""The subresources binding, eviction and scale."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import attrs
import msgspec

from gpuruntime.embedded.apiserver.body_reader import media_type
from gpuruntime.embedded.apiserver.documents import Document, encode
from gpuruntime.embedded.apiserver.patch_requests import patch_of
from gpuruntime.embedded.apiserver.resources import Call, shown
from gpuruntime.embedded.apiserver.status_errors import (
    STALE,
    bad_request,
    conflict,
    invalid,
    invalid_patch,
    method_not_allowed,
    not_found,
)
from gpuruntime.embedded.objects.deletion import DeleteOptions, Deletions
from gpuruntime.embedded.objects.registry import Kind, Target
from gpuruntime.embedded.objects.store import Store
from gpuruntime.embedded.objects.versions import Stored
from gpuruntime.embedded.objects.writes import Writes
from gpuruntime.embedded.schemas.faults import invalid_value
from gpuruntime.kube.transport import Request, Response
from gpuruntime.models.kubernetes.timestamps import rfc3339

CREATED: Final = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Success",
    "code": 201,
}


SCALES: Final = Kind(group="autoscaling", kind="Scale", plural="scales")


class _Meta(msgspec.Struct):
    name: str = ""
    uid: str = ""


class _Node(msgspec.Struct):
    name: str = ""
    kind: str = ""


class _Binding(msgspec.Struct):
    target: _Node
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class _ScaleMeta(msgspec.Struct):
    resourceVersion: str | None = None


class _ScaleSpec(msgspec.Struct):
    replicas: int | None = None


class _Scale(msgspec.Struct):
    metadata: _ScaleMeta | None = None
    spec: _ScaleSpec | None = None


class Subresources:
    def __init__(
        self, store: Store, writes: Writes, deletions: Deletions, now: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._writes = writes
        self._deletions = deletions
        self._now = now

    def answer(self, call: Call) -> Response:
        match call.target.subresource, call.request.method:
            case "binding", "POST":
                return self._bind(call)
            case "eviction", "POST":
                return self._evict(call)
            case "scale", "GET":
                return shown(encode(_scale(call.target, self._stored(call.target))))
            case "scale", "PUT" | "PATCH":
                return self._rescale(call)
            case _:
                raise method_not_allowed()

    def _stored(self, target: Target) -> Stored:
        stored = self._store.collection(target.kind).get(target.path)
        if stored is None:
            raise not_found(target.kind, target.name)
        return stored

    def _bind(self, call: Call) -> Response:
        """Assign a Pod to its node, which succeeds only once; nothing else of its spec changes."""
        target, binding = call.target, _binding(call.request.body)
        refused = attrs.evolve(target.kind, plural="pods/binding")
        if not binding.target.name:
            raise bad_request("target.name: Required value")
        document = self._stored(target).document()
        spec, metadata = document["spec"], document["metadata"]
        if binding.metadata.uid not in ("", metadata["uid"]):
            raise conflict(refused, target.name, STALE)
        if "deletionTimestamp" in metadata:
            why = f"pod {target.name} is being deleted, cannot be assigned to a host"
            raise conflict(refused, target.name, why)
        if spec.get("nodeName"):
            why = f'pod {target.name} is already assigned to node "{spec["nodeName"]}"'
            raise conflict(refused, target.name, why)
        spec["nodeName"] = binding.target.name
        conditions = document["status"].get("conditions") or []
        others = [each for each in conditions if each["type"] != "PodScheduled"]
        document["status"]["conditions"] = [*others, self._scheduled(metadata)]
        self._store.write(target.kind, target.path, document)
        return shown(encode(CREATED), 201)

    def _scheduled(self, metadata: Document) -> Document:
        return {
            "type": "PodScheduled",
            "observedGeneration": metadata["generation"],
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": rfc3339(self._now()),
        }

    def _evict(self, call: Call) -> Response:
        """Delete the Pod; disruption budgets are not checked."""
        self._deletions.delete(attrs.evolve(call.target, subresource=""), DeleteOptions())
        return shown(encode(CREATED), 201)

    def _rescale(self, call: Call) -> Response:
        target = attrs.evolve(call.target, subresource="")
        current = _scale(target, self._stored(target))
        asked = _scale_asked(call.request, current)
        replicas = (asked.spec or _ScaleSpec()).replicas or 0
        if replicas < 0:
            fault = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
            raise invalid(SCALES, target.name, [fault])
        version = (asked.metadata or _ScaleMeta()).resourceVersion

        def amend(document: Document) -> Document:
            document["spec"]["replicas"] = replicas
            if version:
                document["metadata"]["resourceVersion"] = version
            return document

        written = self._writes.patch(target, amend)
        return shown(encode(_scale(target, written.stored)))


def _binding(body: bytes | None) -> _Binding:
    try:
        return msgspec.json.decode(body or b"", type=_Binding)
    except msgspec.DecodeError as error:
        message = "the object provided is unrecognized (must be of type Binding)"
        raise bad_request(f"{message}: {error}") from error


def _scale_asked(request: Request, current: Document) -> _Scale:
    body = request.body or b""
    if request.method == "PATCH":
        patched = patch_of(SCALES, media_type(request.content_type), body)(current)
        try:
            return msgspec.convert(patched, _Scale)
        except msgspec.ValidationError as error:
            raise invalid_patch(encode(patched).decode(), str(error)) from error
    try:
        return msgspec.json.decode(body, type=_Scale)
    except (ValueError, RecursionError) as error:
        message = "the object provided is unrecognized (must be of type Scale)"
        raise bad_request(f"{message}: {error}") from error


def _scale(target: Target, stored: Stored) -> dict[str, Any]:
    document = stored.document()
    metadata, spec = document["metadata"], document["spec"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    labels = spec["selector"].get("matchLabels", {})
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in kept},
        "spec": {"replicas": spec["replicas"]} if spec["replicas"] else {},
        "status": {
            "replicas": document.get("status", {}).get("replicas", 0),
            "selector": ",".join(f"{name}={value}" for name, value in sorted(labels.items())),
        },
    }
