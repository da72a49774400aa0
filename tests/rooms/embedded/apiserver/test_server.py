"""Behaviour that only this server has: its limits, its hooks and its bounds."""

import json
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gpuruntime.embedded.apiserver.in_process_transport import InProcessTransport
from gpuruntime.embedded.apiserver.pod_logs import LogRequest
from gpuruntime.embedded.apiserver.server import Server
from gpuruntime.kube.transport import Request
from tests.rooms.embedded.calls import MAPS, MOMENT, ask, call, make, new_server

PODS = "/api/v1/namespaces/default/pods"
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "x"}]}}


class Logs:
    """Logs that repeat the request."""

    def read(self, request: LogRequest) -> bytes:
        return f"{request.pod}/{request.container} {request.tail}\n".encode()

    async def follow(self, request: LogRequest) -> AsyncIterator[bytes]:
        yield self.read(request)
        yield b"more\n"


def with_pod() -> Server:
    server = Server(now=lambda: MOMENT, rng=random.Random(7), logs=Logs())
    call(server, "POST", PODS, POD)
    return server


def test_a_log_comes_from_the_configured_source() -> None:
    answer = with_pod().handle(ask("GET", f"{PODS}/p/log", tailLines="5"))
    assert (answer.status, answer.body) == (200, b"p/a 5\n")
    assert answer.headers["content-type"] == "text/plain"


async def test_a_log_is_followed_as_a_stream() -> None:
    transport = InProcessTransport(with_pod())
    request = ask("GET", f"{PODS}/p/log", follow="true")
    async with transport.stream(request) as stream:
        assert [chunk async for chunk in stream.chunks()] == [b"p/a None\n", b"more\n"]


@pytest.mark.parametrize(
    ("content_type", "hint"),
    [
        ("application/vnd.kubernetes.protobuf", "send JSON"),
        ("application/apply-patch+yaml", "apply on the client's side"),
    ],
)
def test_an_unsupported_media_type_is_refused_with_a_remedy(content_type: str, hint: str) -> None:
    server = new_server()
    make(server, "a")
    method, path = ("PATCH", f"{MAPS}/a") if "patch" in content_type else ("POST", MAPS)
    answer = server.handle(ask(method, path, {}, content_type))
    assert answer.status == 415
    assert hint in json.loads(answer.body)["message"]


def test_a_pod_is_bound_once_and_its_node_cannot_change_afterwards() -> None:
    server = with_pod()
    binding = {"target": {"kind": "Node", "name": "n"}}
    assert call(server, "POST", f"{PODS}/p/binding", binding)["status"] == "Success"
    assert call(server, "GET", f"{PODS}/p")["spec"]["nodeName"] == "n"
    assert call(server, "POST", f"{PODS}/p/binding", binding)["code"] == 409
    assert call(server, "PATCH", f"{PODS}/p", {"spec": {"nodeName": "m"}})["code"] == 422


def test_a_grace_period_can_only_be_shortened() -> None:
    server = with_pod()
    call(server, "POST", f"{PODS}/p/binding", {"target": {"name": "n"}})

    def grace(**query: str) -> Any:
        marked = call(server, "DELETE", f"{PODS}/p", **query)
        return marked["metadata"]["deletionGracePeriodSeconds"]

    assert grace() == 30
    assert grace(gracePeriodSeconds="5") == 5
    assert grace(gracePeriodSeconds="60") == 5
    assert call(server, "GET", f"{PODS}/p")["metadata"]["deletionTimestamp"] == (
        "2025-01-01T00:00:05Z"
    )
    call(server, "DELETE", f"{PODS}/p", gracePeriodSeconds="0")
    assert call(server, "GET", f"{PODS}/p")["code"] == 404


def test_service_addresses_are_assigned_in_turn() -> None:
    server = new_server()
    path = "/api/v1/namespaces/default/services"

    def address(name: str) -> str:
        body = {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}}
        return str(call(server, "POST", path, body)["spec"]["clusterIP"])

    first = address("a")
    call(server, "DELETE", f"{path}/a")
    assert address("b") != first


def test_the_hash_of_an_openapi_document_changes_only_with_the_document() -> None:
    server = new_server()

    def url() -> str:
        index = call(server, "GET", "/openapi/v3")
        return str(index["paths"]["apis/apps/v1"]["serverRelativeURL"])

    before = url()
    assert url() == before
    path, _, query = before.partition("?")
    document = call(server, "GET", path, hash=query)
    containers = document["components"]["schemas"]["io.k8s.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"


def test_a_deeply_nested_body_is_400() -> None:
    body = b'{"metadata":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    answer = new_server().handle(Request(method="POST", path=MAPS, body=body))
    assert answer.status == 400
