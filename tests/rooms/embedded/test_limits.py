"""Each limit that the server lists is proven here."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from gpuruntime.embedded.apiserver.body_reader import PROTOBUF
from gpuruntime.embedded.apiserver.http_listener import serve
from gpuruntime.embedded.apiserver.patch_requests import APPLY_PATCH
from gpuruntime.embedded.apiserver.server import LIMITS
from gpuruntime.embedded.kinds.pod_objects import PODS
from gpuruntime.embedded.kinds.workload_objects import REPLICA_SETS
from gpuruntime.kube.transport import STRATEGIC_PATCH, Request, Response
from tests.proofs.conformance import objects
from tests.proofs.conformance.definitions import widget_definition
from tests.rooms.embedded.calls import MAPS, ask, call, make, new_server
from tests.rooms.embedded.world import deployment_spec, running_cluster

NAMESPACE = "/api/v1/namespaces/default"
POD = objects.pod("p")


def status(method: str, path: str, body: Any = None, content_type: str = "") -> int:
    """Return the status of a server that has a ConfigMap `a` and a Pod `p`."""
    server = new_server()
    make(server, "a")
    call(server, "POST", f"{NAMESPACE}/pods", POD)
    return server.handle(ask(method, path, body, content_type or "application/json")).status


def created(path: str, body: Any) -> None:
    assert "uid" in call(new_server(), "POST", path, body)["metadata"]


async def protobuf() -> None:
    assert status("POST", MAPS, {}, PROTOBUF) == 415
    server = new_server()
    request = Request(method="GET", path=MAPS, accept=f"{PROTOBUF},*/*")
    assert server.handle(request).headers["content-type"] == "application/json"


async def server_side_apply() -> None:
    assert status("PATCH", f"{MAPS}/a", {"data": {}}, APPLY_PATCH) == 415
    made = make(new_server(), "b", metadata={"managedFields": [{"manager": "x"}]})
    assert "managedFields" not in made["metadata"]


async def cel() -> None:
    definition = widget_definition()
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["x-kubernetes-validations"] = [{"rule": "self.metadata.name != 'nobody wrote this'"}]
    answer = call(new_server(), "POST", objects.DEFINITIONS.path(), definition)
    assert "Python twin" in answer["message"]


async def conversion() -> None:
    webhook = {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}}
    definition = widget_definition()
    definition["spec"]["conversion"] = webhook
    answer = call(new_server(), "POST", objects.DEFINITIONS.path(), definition)
    assert answer["details"]["causes"][0]["field"] == "spec.conversion.strategy"


async def schemas() -> None:
    server, definition = new_server(), widget_definition()
    properties = {"address": {"type": "string", "format": "ipv4"}}
    for version in definition["spec"]["versions"]:
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        spec["properties"] |= properties
    call(server, "POST", objects.DEFINITIONS.path(), definition)
    path = objects.WIDGETS.path(namespace="default")
    body = objects.named(objects.WIDGETS, "w", spec={"address": "no address", "size": 1})
    assert "uid" in call(server, "POST", path, body)["metadata"]


async def kinds() -> None:
    for path in (
        "/apis/apps/v1/statefulsets",
        "/apis/apps/v1/daemonsets",
        "/apis/batch/v1/cronjobs",
        "/apis/networking.k8s.io/v1/ingresses",
        "/apis/discovery.k8s.io/v1/endpointslices",
        "/apis/autoscaling/v2/horizontalpodautoscalers",
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    ):
        assert status("GET", path) == 404


async def authentication() -> None:
    headers = {"Authorization": "Bearer nobody"}
    async with serve(new_server()) as url, aiohttp.ClientSession(headers=headers) as session:
        assert (await session.get(url + MAPS)).status == 200


async def authorization() -> None:
    role = {"metadata": {"name": "r"}, "rules": []}
    created("/apis/rbac.authorization.k8s.io/v1/clusterroles", role)


async def reviews() -> None:
    assert status("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {}}) == 404
    for name in ("selfsubjectaccessreviews", "subjectaccessreviews"):
        assert status("POST", f"/apis/authorization.k8s.io/v1/{name}", {"spec": {}}) == 404


async def quotas() -> None:
    server = new_server()
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0", "count/configmaps": "0"}}}
    call(server, "POST", f"{NAMESPACE}/resourcequotas", quota)
    assert "uid" in make(server, "b")["metadata"]


async def isolation() -> None:
    """Levels and policies have no effect, because simulated Pods have no network."""
    server = new_server()
    level = {"pod-security.kubernetes.io/enforce": "restricted"}
    namespace = {"metadata": {"name": "held", "labels": level}}
    assert "uid" in call(server, "POST", "/api/v1/namespaces", namespace)["metadata"]
    pod = {**POD, "spec": {**POD["spec"], "hostNetwork": True}}
    assert "uid" in call(server, "POST", "/api/v1/namespaces/held/pods", pod)["metadata"]


async def service_account_tokens() -> None:
    assert status("POST", f"{NAMESPACE}/serviceaccounts/default/token", {"spec": {}}) == 404
    made = call(new_server(), "POST", f"{NAMESPACE}/pods", POD)
    assert "volumes" not in made["spec"]


async def eviction() -> None:
    server = new_server()
    budget = {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "p"}}}}
    path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    call(server, "POST", path, {"metadata": {"name": "b"}, **budget})
    call(server, "POST", f"{NAMESPACE}/pods", objects.pod("p", metadata={"labels": {"app": "p"}}))
    options = {"preconditions": {"uid": "another"}}
    asked = {"metadata": {"name": "p"}, "deleteOptions": options}
    assert call(server, "POST", f"{NAMESPACE}/pods/p/eviction", asked)["status"] == "Success"
    assert call(server, "GET", f"{NAMESPACE}/pods/p")["code"] == 404


async def subresources() -> None:
    for name in ("attach", "proxy", "ephemeralcontainers", "resize"):
        assert status("GET", f"{NAMESPACE}/pods/p/{name}") == 404


async def spdy() -> None:
    server = new_server()
    call(server, "POST", f"{NAMESPACE}/pods", POD)
    call(server, "POST", f"{NAMESPACE}/pods/p/binding", {"target": {"name": "n"}})
    asked = ask("GET", f"{NAMESPACE}/pods/p/portforward", ports="80")
    answer = server.upgrade(asked, ("SPDY/3.1+portforward.k8s.io",))
    assert isinstance(answer, Response)
    assert answer.status == 400


async def finalize() -> None:
    assert status("PUT", f"{NAMESPACE}/finalize", {"metadata": {"name": "default"}}) == 404


async def paths() -> None:
    assert status("GET", "/api/v1/watch/namespaces/default/configmaps") == 404
    assert status("GET", "/openapi/v2") == 404
    assert status("GET", "/openapi/v3") == 200


async def duplicate_fields() -> None:
    body = b'{"metadata": {"name": "b"}, "data": {"k": "v", "k": "w"}}'
    answer = new_server().handle(Request(method="POST", path=MAPS, body=body))
    assert json.loads(answer.body)["data"] == {"k": "w"}
    assert "warning" not in answer.headers


async def strategic_patches() -> None:
    patch = {"spec": {"containers": ["text"]}}
    assert status("PATCH", f"{NAMESPACE}/pods/p", patch, STRATEGIC_PATCH) == 422


async def waiting() -> None:
    answer = call(new_server(), "GET", MAPS, resourceVersion="999999")
    assert (answer["code"], answer["reason"]) == (504, "Timeout")


async def adoption() -> None:
    async with running_cluster() as world:
        await world.pod("orphan", metadata={"labels": {"app": "web"}})
        await world.make(REPLICA_SETS, "web", spec=deployment_spec(replicas=1))
        await asyncio.sleep(5)
        owners = {
            pod.metadata.name: pod.metadata.controller_owner for pod in await world.all(PODS)
        }
        assert owners.pop("orphan") is None
        assert len(owners) == 1


async def endpoints() -> None:
    async with running_cluster() as world:
        await world.pod("p", metadata={"labels": {"app": "web"}})
        spec = {"ports": [{"port": 80}], "selector": {"app": "web"}}
        service = objects.named(objects.SERVICES, "s", spec=spec)
        call(world.cluster.server, "POST", f"{NAMESPACE}/services", service)
        await asyncio.sleep(5)
        assert world.raw(f"{NAMESPACE}/endpoints")["items"] == []


PROOFS: dict[str, Callable[[], Awaitable[None]]] = {
    "protobuf": protobuf,
    "server-side apply": server_side_apply,
    "CEL": cel,
    "conversion": conversion,
    "schemas": schemas,
    "kinds": kinds,
    "authentication": authentication,
    "authorization": authorization,
    "reviews": reviews,
    "quotas": quotas,
    "isolation": isolation,
    "service account tokens": service_account_tokens,
    "eviction": eviction,
    "subresources": subresources,
    "SPDY": spdy,
    "finalize": finalize,
    "paths": paths,
    "duplicate fields": duplicate_fields,
    "strategic patches": strategic_patches,
    "waiting": waiting,
    "adoption": adoption,
    "endpoints": endpoints,
}


@pytest.mark.looptime
@pytest.mark.parametrize("limit", LIMITS)
async def test_a_limit_is_as_listed(limit: str) -> None:
    await PROOFS[limit]()
