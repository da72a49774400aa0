"""Discovery: version, groups, resources and schemas."""

from typing import Any

import pytest

from tests.proofs.conformance.calls import Api

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


async def test_the_version_is_one_that_kubectl_supports(api: Api) -> None:
    version = (await api.get("/version")).ok(200)
    assert version["major"] == "1"
    assert version["gitVersion"].startswith("v1.34")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_health_is_answered_with_ok(api: Api, path: str) -> None:
    answer = await api.get(path, accept="*/*")
    assert (answer.status, answer.body) == (200, b"ok")


async def test_the_core_group_is_listed(api: Api) -> None:
    found = (await api.get("/api")).ok(200)
    assert (found["kind"], found["versions"]) == ("APIVersions", ["v1"])


@pytest.mark.usefixtures("widgets")
async def test_groups_are_listed_with_their_versions(api: Api) -> None:
    async def look() -> dict[str, Any]:
        groups = (await api.get("/apis")).ok(200)["groups"]
        return {one["name"]: one["preferredVersion"]["groupVersion"] for one in groups}

    found = await api.until(look, lambda seen: "conformance.example.com" in seen)
    assert found["apps"] == "apps/v1"
    assert found["batch"] == "batch/v1"
    assert found["conformance.example.com"] == "conformance.example.com/v1"


async def test_a_group_is_described(api: Api) -> None:
    group = (await api.get("/apis/apps")).ok(200)
    assert (group["kind"], group["name"]) == ("APIGroup", "apps")
    assert group["versions"] == [{"groupVersion": "apps/v1", "version": "v1"}]


@pytest.mark.parametrize(
    ("path", "name", "kind", "short_names", "is_namespaced"),
    [
        ("/api/v1", "configmaps", "ConfigMap", ["cm"], True),
        ("/api/v1", "pods", "Pod", ["po"], True),
        ("/api/v1", "nodes", "Node", ["no"], False),
        ("/api/v1", "namespaces", "Namespace", ["ns"], False),
        ("/api/v1", "services", "Service", ["svc"], True),
        ("/api/v1", "persistentvolumeclaims", "PersistentVolumeClaim", ["pvc"], True),
        ("/apis/apps/v1", "deployments", "Deployment", ["deploy"], True),
        ("/apis/apps/v1", "replicasets", "ReplicaSet", ["rs"], True),
        ("/apis/networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", ["netpol"], True),
        ("/apis/scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", ["pc"], False),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
async def test_a_resource_is_described(
    api: Api, path: str, name: str, kind: str, short_names: list[str], is_namespaced: bool
) -> None:
    listed = (await api.get(path)).ok(200)["resources"]
    one = next(one for one in listed if one["name"] == name)
    assert (one["kind"], one["namespaced"]) == (kind, is_namespaced)
    assert one["shortNames"] == short_names
    assert {"create", "delete", "get", "list", "patch", "update", "watch"} <= set(one["verbs"])


async def test_subresources_are_listed(api: Api) -> None:
    names = {one["name"] for one in (await api.get("/apis/apps/v1")).ok(200)["resources"]}
    assert {"deployments/status", "deployments/scale"} <= names


@pytest.mark.parametrize("path", ["/api", "/apis"])
async def test_all_resources_are_listed_in_one_answer(api: Api, path: str) -> None:
    answer = await api.get(path, accept=f"{AGGREGATED},application/json")
    found = answer.ok(200)
    assert found["kind"] == "APIGroupDiscoveryList"
    assert found["apiVersion"] == "apidiscovery.k8s.io/v2"
    assert "APIGroupDiscoveryList" in answer.headers["content-type"]
    resources = {
        one["resource"]: one
        for group in found["items"]
        for version in group["versions"]
        for one in version["resources"]
    }
    wanted = {"/api": "pods", "/apis": "deployments"}[path]
    assert resources[wanted]["scope"] == "Namespaced"
    assert "status" in {one["subresource"] for one in resources[wanted]["subresources"]}


@pytest.mark.usefixtures("widgets")
async def test_a_custom_kind_has_an_openapi_document(api: Api) -> None:
    name = "apis/conformance.example.com/v1"

    async def look() -> dict[str, Any]:
        paths: dict[str, Any] = (await api.get("/openapi/v3")).ok(200)["paths"]
        return paths

    index = await api.until(look, lambda seen: name in seen)
    assert {"api/v1", "apis/apps/v1"} <= index.keys()
    path, _, query = index[name]["serverRelativeURL"].partition("?")
    document = (await api.get(path, **dict([query.split("=", 1)] if query else []))).ok(200)
    schemas = document["components"]["schemas"].values()
    kinds = [
        one["kind"]
        for schema in schemas
        for one in schema.get("x-kubernetes-group-version-kind", [])
    ]
    assert "Widget" in kinds
