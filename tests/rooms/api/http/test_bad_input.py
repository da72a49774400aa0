"""Bad input: every field at fault is named at once, and nothing is created."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gpuruntime.models.kinds.pools import STOCK_POOLS
from tests.rooms.api.service import JOBS, POOLS, STOCK_UNITS, UNITS, Service, service, unit_order
from tests.rooms.operations.cluster import STOCK, Cluster
from tests.row_ids import in_words

pytestmark = pytest.mark.looptime


@pytest.fixture
async def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
async def api(cluster: Cluster) -> AsyncIterator[Service]:
    cluster.add_stock(1)
    async with service(cluster) as served:
        yield served
        assert served.replica.transport.written() == [], "bad input reached the cluster"


def template(**members: object) -> dict[str, object]:
    return {"template": members}


def ports(*numbers: object) -> dict[str, object]:
    return template(ports=[{"name": f"p{i}", "port": port} for i, port in enumerate(numbers)])


def envs(*names: object) -> dict[str, object]:
    return template(envs=[{"name": name, "value": ""} for name in names])


BAD_UNITS: list[tuple[dict[str, Any], list[str]]] = [
    ({"name": "Upper"}, ["name"]),
    ({"name": "with.dot"}, ["name"]),
    ({"name": "-a"}, ["name"]),
    ({"name": "x" * 64}, ["name"]),
    ({"name": ""}, ["name"]),
    ({"name": "op-mine"}, ["name"]),
    ({"name": "a\n"}, ["name"]),
    ({"name": "a\0"}, ["name"]),
    ({"name": "\u00fcnit"}, ["name"]),
    ({"name": None}, ["name"]),
    ({"operationID": ""}, ["operationID"]),
    ({"operationID": "a b"}, ["operationID"]),
    ({"operationID": "x" * 129}, ["operationID"]),
    ({"operationID": "gpuruntime:mine"}, ["operationID"]),
    ({"operationID": 7}, ["operationID"]),
    ({"namespace": "default"}, ["namespace"]),
    ({"stockNamespace": "default"}, ["stockNamespace"]),
    ({"specName": "G1"}, ["specName"]),
    ({"specName": "x" * 64}, ["specName"]),
    ({"image": ""}, ["image"]),
    ({"image": "a b"}, ["image"]),
    ({"image": 7}, ["image"]),
    ({"tenant": "a/b"}, ["tenant"]),
    ({"gpu": 1}, ["gpu"]),
    ({"memory": "1Gi"}, ["memory"]),
    ({"suspended": True}, ["suspended"]),
    (ports(0), ["template.ports[0].port"]),
    (ports(65536), ["template.ports[0].port"]),
    (ports("80"), ["template.ports[0].port"]),
    (ports(80.0), ["template.ports[0].port"]),
    (ports(True), ["template.ports[0].port"]),
    (ports(-1, 10**30), ["template.ports[0].port", "template.ports[1].port"]),
    (ports(80, 80), ["template.ports"]),
    (template(ports=[{"name": "a", "port": 1}, {"name": "a", "port": 2}]), ["template.ports"]),
    (template(ports=[{"port": 1}]), ["template.ports[0].name"]),
    (template(ports={"name": "a"}), ["template.ports"]),
    (envs("A", "A"), ["template.envs"]),
    (envs("1A"), ["template.envs[0].name"]),
    (envs("A=B"), ["template.envs[0].name"]),
    (envs("SPEC_NAME"), ["template.envs[0].name"]),
    (envs("UNIT_NAME"), ["template.envs[0].name"]),
    (envs("GPU_COUNT"), ["template.envs[0].name"]),
    (envs("MEMORY_LIMIT"), ["template.envs[0].name"]),
    (template(command="python"), ["template.command"]),
    (template(args=["a", 1]), ["template.args[1]"]),
    ({"access": {"primaryPort": "http"}}, ["access.primaryPort"]),
    ({"access": {"readiness": "http"}}, ["access.readiness"]),
    ({"access": []}, ["access"]),
    ({"storageMounts": [{"name": "a", "mountPath": "relative"}]}, ["storageMounts[0].mountPath"]),
    ({"storageMounts": [{"name": "a", "mountPath": "/proc/x"}]}, ["storageMounts[0].mountPath"]),
    ({"serverless": {"requestID": "Fn"}}, ["serverless.requestID"]),
    (
        {"serverless": {"requestID": "fn", "workerOf": {"name": "a", "uid": "b"}}},
        ["serverless.workerOf"],
    ),
    (
        {"name": "A", "image": 1, "unknown": 1, **ports(0), "access": {"primaryPort": "x"}},
        ["name", "image", "unknown", "template.ports[0].port", "access.primaryPort"],
    ),
]


@pytest.mark.parametrize(("members", "fields"), BAD_UNITS, ids=in_words)
async def test_a_bad_unit_is_refused_by_every_field_at_fault(
    api: Service, members: dict[str, Any], fields: list[str]
) -> None:
    answer = await api.create(**members)
    assert (answer.status, answer.code) == (400, "invalid_request")
    assert sorted(answer.fields) == sorted(fields)


async def test_every_missing_field_is_named(api: Service) -> None:
    answer = await api.call("POST", UNITS, {})
    assert sorted(answer.fields) == ["image", "operationID", "specName"]


BAD_STOCK: list[tuple[dict[str, Any], list[str]]] = [
    ({"replicas": 0}, ["replicas"]),
    ({"replicas": -1}, ["replicas"]),
    ({"replicas": 10**9}, ["replicas"]),
    ({"replicas": "7"}, ["replicas"]),
    ({"replicas": 1.0}, ["replicas"]),
    ({"replicas": True}, ["replicas"]),
    ({"replicas": None}, ["replicas"]),
    ({"memory": "-1Gi"}, ["memory"]),
    ({"memory": "0"}, ["memory"]),
    ({"memory": "1e999"}, ["memory"]),
    ({"memory": "16GiB"}, ["memory"]),
    ({"memory": "1Ei"}, ["memory"]),
    ({"memory": 16}, ["memory"]),
    ({"memory": ""}, ["memory"]),
    ({"cpu": "one"}, ["cpu"]),
    ({"cpu": "-1", "memory": "x", "gpu": -1}, ["cpu", "gpu", "memory"]),
    ({"gpu": 10**9}, ["gpu"]),
    ({"gpuProduct": "a b"}, ["gpuProduct"]),
    ({"name": "Mine"}, ["name"]),
]


@pytest.mark.parametrize(("members", "fields"), BAD_STOCK, ids=in_words)
async def test_bad_stock_is_refused_by_every_field_at_fault(
    api: Service, members: dict[str, Any], fields: list[str]
) -> None:
    body = {"operationID": "s", "specName": "g1.1", "replicas": 1, **members}
    answer = await api.call("POST", STOCK_UNITS, body)
    assert (answer.status, sorted(answer.fields)) == (400, fields)


BAD_POOLS: list[tuple[dict[str, Any], list[str]]] = [
    ({"replicas": -1}, ["replicas"]),
    ({"replicas": 10_001}, ["replicas"]),
    ({"name": "x" * 53}, ["name"]),
    ({"namespace": "runtime-instance"}, ["namespace"]),
    ({"refill": "always"}, ["refill"]),
    ({"refill": None}, ["refill"]),
    ({"template": {"ports": [{"name": "a", "port": 0}]}}, ["template.ports[0].port"]),
]


@pytest.mark.parametrize(("members", "fields"), BAD_POOLS, ids=in_words)
async def test_a_bad_pool_is_refused_by_every_field_at_fault(
    api: Service, cluster: Cluster, members: dict[str, Any], fields: list[str]
) -> None:
    body = {"operationID": "s", "specName": "g1.1", "replicas": 1, **members}
    answer = await api.call("POST", POOLS, body)
    assert (answer.status, sorted(answer.fields)) == (400, fields)
    assert cluster.objects(STOCK_POOLS, STOCK) == []


BAD_UPDATES: list[tuple[str, dict[str, Any], list[str]]] = [
    (UNITS, {"suspended": 1, "image": 7}, ["image", "suspended"]),
    (UNITS, {"name": "b", "tenant": "t"}, ["name", "tenant"]),
    (UNITS, {"cpu": "1", "memory": "1Gi", "gpu": 1}, ["cpu", "gpu", "memory"]),
    (UNITS, {"specName": "g2", "gpuProduct": "x"}, ["gpuProduct", "specName"]),
    (UNITS, ports(0, 65536), ["template.ports[0].port", "template.ports[1].port"]),
    (UNITS, envs("UNIT_NAME"), ["template.envs[0].name"]),
    (POOLS, {"replicas": None, "refill": None}, ["refill", "replicas"]),
    (POOLS, {"replicas": 10**9, "refill": "never"}, ["refill", "replicas"]),
    (POOLS, {"operationID": "a", "memory": "1Gi"}, ["memory", "operationID"]),
]


@pytest.mark.parametrize(("path", "body", "fields"), BAD_UPDATES, ids=in_words)
async def test_a_bad_change_is_refused_by_every_field_at_fault(
    api: Service, path: str, body: dict[str, Any], fields: list[str]
) -> None:
    answer = await api.call("PUT", f"{path}/demo", body)
    assert (answer.status, sorted(answer.fields)) == (400, fields)


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (b"", [""]),
        (b"null", [""]),
        (b"[]", [""]),
        (b'"text"', [""]),
        (b"{}{}", [""]),
        (b"{}\n{}", [""]),
        (b"{'a': 1}", [""]),
        (b'{"replicas": 01}', [""]),
        (b"\xef\xbb\xbf{}", [""]),
        ("{}".encode("utf-16"), [""]),
        (b'{"image": "\xff"}', [""]),
        (b"[" * 100_000, [""]),
    ],
    ids=in_words,
)
async def test_a_body_that_is_not_an_object_is_refused_as_a_whole(
    api: Service, body: bytes, fields: list[str]
) -> None:
    answer = await api.call("POST", UNITS, data=body)
    assert (answer.status, answer.fields) == (400, fields)


async def test_faults_of_json_and_of_fields_are_named_together(api: Service) -> None:
    text = json.dumps(unit_order(name="Upper"))[:-1]
    repeated = f'{text}, "image": "b", "tenant": "\\ud800", "access": {{"scheme": NaN}}}}'
    answer = await api.call("POST", UNITS, data=repeated.encode())
    assert answer.status == 400
    assert sorted(answer.fields) == ["access.scheme", "image", "name", "tenant"]


BAD_QUERIES: list[tuple[str, list[str]]] = [
    ("limit=0", ["limit"]),
    ("limit=-1", ["limit"]),
    ("limit=1001", ["limit"]),
    ("limit=1e2", ["limit"]),
    ("limit=010", ["limit"]),
    ("limit=+5", ["limit"]),
    ("limit=%20", ["limit"]),
    ("limit=", ["limit"]),
    ("limit=1&limit=1", ["limit"]),
    (f"limit={'9' * 5000}", ["limit"]),
    ("cursor=", ["cursor"]),
    ("cursor=nonsense", ["cursor"]),
    ("cursor=%F0%9F%98%80", ["cursor"]),
    ("cursor=WyJhIl0", ["cursor"]),
    ("cursor=WyJhIiwiYiJd%3D", ["cursor"]),
    (f"cursor={'A' * 2000}", ["cursor"]),
    ("phase=ready", ["phase"]),
    ("lifecycle=Stock", ["lifecycle"]),
    ("specName=G1", ["specName"]),
    ("tenant=a%2Fb", ["tenant"]),
    ("Limit=5", ["Limit"]),
    ("limit=0&phase=x&foo=1&foo=2&tenant=", ["foo", "limit", "phase", "tenant"]),
]


@pytest.mark.parametrize(("query", "fields"), BAD_QUERIES, ids=in_words)
async def test_a_bad_query_is_refused_by_every_parameter_at_fault(
    api: Service, query: str, fields: list[str]
) -> None:
    answer = await api.call("GET", f"{UNITS}?{query}")
    assert (answer.status, answer.code) == (400, "invalid_request")
    assert sorted(answer.fields) == fields


@pytest.mark.parametrize("path", [POOLS, JOBS, f"{UNITS}/demo/events"])
async def test_every_list_checks_its_page_strictly(api: Service, path: str) -> None:
    for query, field in (("limit=0", "limit"), ("cursor=x", "cursor"), ("page=2", "page")):
        answer = await api.call("GET", f"{path}?{query}")
        assert (answer.status, answer.fields) == (400, [field])


async def test_routes_without_parameters_reject_any(api: Service) -> None:
    for path in ("/api/v1/operator/inventory", f"{JOBS}/x", "/openapi.json"):
        answer = await api.call("GET", f"{path}?pretty=true")
        assert (answer.status, answer.fields) == (400, ["pretty"])


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("tail=-1", ["tail"]),
        ("tail=x&follow=yes&container=A", ["container", "follow", "tail"]),
        ("previous=yes&earlier=true", ["earlier", "previous"]),
    ],
    ids=in_words,
)
async def test_the_query_of_a_log_is_checked_strictly(
    api: Service, query: str, fields: list[str]
) -> None:
    answer = await api.call("GET", f"{UNITS}/demo/logs?{query}")
    assert (answer.status, sorted(answer.fields)) == (400, fields)


@pytest.mark.parametrize("name", ["A", "a%00b", "a%2Fb", "%ff", "a" * 300], ids=in_words)
async def test_an_impossible_name_is_404_without_a_request_to_the_cluster(
    api: Service, name: str
) -> None:
    api.replica.transport.cut()
    for path in (UNITS, POOLS):
        assert (await api.call("GET", f"{path}/{name}")).status == 404
        assert (await api.call("DELETE", f"{path}/{name}")).status == 404
