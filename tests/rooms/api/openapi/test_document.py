"""The document is made from the routes, complete, and valid OpenAPI 3.0.3."""

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.rooms.api.service import (
    INVOCATIONS,
    POOLS,
    SECRETS,
    STOCK_UNITS,
    STORAGES,
    UNITS,
    Service,
    service,
)
from tests.rooms.operations.cluster import Cluster

pytestmark = pytest.mark.looptime

ROUTES = {
    "/api/v1/health": {"get"},
    "/api/v1/flavours": {"get"},
    "/api/v1/operator/stock-units": {"post"},
    "/api/v1/operator/jobs": {"get"},
    "/api/v1/operator/jobs/{operationID}": {"get"},
    "/api/v1/operator/stockpools": {"get", "post"},
    "/api/v1/operator/stockpools/{name}": {"get", "put", "delete"},
    "/api/v1/operator/inventory": {"get"},
    "/api/v1/operator/audit": {"get"},
    "/api/v1/gpu-units": {"get", "post"},
    "/api/v1/gpu-units/{name}": {"get", "put", "delete"},
    "/api/v1/gpu-units/{name}/events": {"get"},
    "/api/v1/gpu-units/{name}/logs": {"get"},
    "/api/v1/gpu-units/{name}/tickets": {"post"},
    "/api/v1/gpu-units/{name}/tickets/revoke": {"post"},
    "/api/v1/gpu-units/{name}/wake": {"post"},
    "/api/v1/secrets": {"get", "post"},
    "/api/v1/secrets/{name}": {"delete"},
    "/api/v1/gpu-storages": {"get", "post"},
    "/api/v1/gpu-storages/{name}": {"get", "put", "delete"},
    "/api/v1/gpu-storages/{name}/recover": {"post"},
    "/api/v1/gpu-storages/{name}/files/": {"get", "options"},
    "/api/v1/gpu-storages/{name}/files/{path}": {"get", "options", "put", "patch", "delete"},
    "/api/v1/serverless/invocations": {"get", "post"},
    "/api/v1/serverless/invocations/{invocationID}": {"get", "delete"},
    "/api/v1/serverless/functions": {"get"},
    "/api/v1/serverless/functions/{serverlessRequestID}": {"get"},
    "/api/v1/serverless/dead-letters": {"get"},
    "/api/v1/serverless/dead-letters/{deadLetterID}": {"delete"},
    "/api/v1/serverless/dead-letters/{deadLetterID}/redrive": {"post"},
    "/openapi.json": {"get"},
    "/swagger/index.html": {"get"},
}


@pytest.fixture
async def api() -> AsyncIterator[Service]:
    async with service(Cluster()) as served:
        yield served


@pytest.fixture
async def document(api: Service) -> Any:
    answer = await api.call("GET", "/openapi.json")
    return answer.body


def operations(document: Any) -> Iterator[tuple[str, Any]]:
    for path, methods in document["paths"].items():
        for operation in methods.values():
            yield path, operation


def nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for item in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from nodes(item)


async def test_every_route_of_the_contract_is_described(document: Any) -> None:
    assert document["openapi"] == "3.0.3"
    assert {path: set(methods) for path, methods in document["paths"].items()} == ROUTES


@pytest.mark.parametrize("path", [UNITS, POOLS, STORAGES])
async def test_changes_and_deletions_document_if_match(document: Any, path: str) -> None:
    for method in ("put", "delete"):
        operation = document["paths"][f"{path}/{{name}}"][method]
        assert "If-Match" in {each["name"] for each in operation["parameters"]}
        assert operation["responses"]["412"]["description"] == "precondition_failed"


async def test_every_operation_has_a_name_of_its_own(document: Any) -> None:
    names = [operation["operationId"] for _, operation in operations(document)]
    assert len(names) == len(set(names))


async def test_every_reference_resolves_and_has_no_siblings(document: Any) -> None:
    schemas = document["components"]["schemas"]
    for node in nodes(document):
        if "$ref" in node:
            assert list(node) == ["$ref"]
            assert node["$ref"].removeprefix("#/components/schemas/") in schemas


async def test_every_parameter_of_a_path_is_declared(document: Any) -> None:
    for path, operation in operations(document):
        declared = [each["name"] for each in operation["parameters"] if each["in"] == "path"]
        assert declared == re.findall(r"\{(\w+)\}", path)


async def test_schemas_of_bodies_are_closed_and_of_answers_open(document: Any) -> None:
    schemas = document["components"]["schemas"]
    for name in ("CreateUnit", "UpdateUnit", "SeedStock", "CreatePool", "UpdatePool", "Template"):
        assert schemas[name]["additionalProperties"] is False
    assert "additionalProperties" not in schemas["UnitView"]
    assert schemas["Serverless"]["additionalProperties"] is False
    assert "additionalProperties" not in schemas["ServerlessView"]
    assert schemas["Access"]["properties"]["slug"] == {"type": "string", "readOnly": True}
    assert schemas["Access"]["properties"]["urls"]["readOnly"] is True


async def test_bounds_and_defaults_match_the_readers(document: Any) -> None:
    schemas = document["components"]["schemas"]
    replicas = schemas["SeedStock"]["properties"]["replicas"]
    assert (replicas["minimum"], replicas["maximum"]) == (1, 10_000)
    assert schemas["CreatePool"]["properties"]["refill"]["default"] == "Always"
    assert schemas["CreateUnit"]["required"] == ["operationID", "specName", "image"]
    limit = next(
        each["schema"]
        for each in document["paths"][UNITS]["get"]["parameters"]
        if each["name"] == "limit"
    )
    assert limit == {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}


@pytest.mark.parametrize(
    "quantity",
    ["1", "+1", "1.", ".5", "0.5Gi", "500m", "1e3", "1E+3", "1e-3", "2Pi", "1n", "0.9E"],
)
async def test_every_accepted_quantity_matches_the_documents_pattern(
    api: Service, document: Any, quantity: str
) -> None:
    memory = document["components"]["schemas"]["SeedStock"]["properties"]["memory"]
    assert re.fullmatch(memory["pattern"], quantity)
    body = {"operationID": "s", "specName": "g1", "replicas": 1, "memory": quantity}
    assert (await api.call("POST", STOCK_UNITS, body)).status == 202


async def test_null_is_allowed_exactly_where_it_clears(document: Any) -> None:
    properties = document["components"]["schemas"]["UpdateUnit"]["properties"]
    assert all(member.get("nullable") for member in properties.values())
    pool = document["components"]["schemas"]["UpdatePool"]["properties"]
    assert not pool["replicas"].get("nullable")
    assert pool["template"]["nullable"]
    unit = document["components"]["schemas"]["CreateUnit"]["properties"]
    assert not any(member.get("nullable") for member in unit.values())


async def test_the_document_has_no_extensions_of_kubernetes(document: Any) -> None:
    assert not [name for node in nodes(document) for name in node if name.startswith("x-")]


async def test_the_page_and_its_files_are_served_by_this_process(api: Service) -> None:
    page = await api.call("GET", "/swagger/index.html")
    text = page.bytes.decode()
    assert page.headers["Content-Type"].startswith("text/html")
    assert "://" not in text
    for name in re.findall(r'(?:src|href)="([^"]+)"', text):
        async with api.client.get(f"/swagger/{name}") as response:
            assert response.status == 200
            assert len(await response.read()) > 500


@pytest.mark.parametrize("path", ["/swagger", "/swagger/"])
async def test_a_short_address_leads_to_the_page(api: Service, path: str) -> None:
    async with api.client.get(path, allow_redirects=False) as response:
        assert response.status == 308
    async with api.client.get(path) as response:
        assert (response.status, response.url.path) == (200, "/swagger/index.html")


async def test_the_document_and_the_page_need_no_cluster(api: Service) -> None:
    api.replica.transport.cut()
    for path in ("/openapi.json", "/swagger/index.html"):
        assert (await api.call("GET", path)).status == 200


async def test_every_body_has_an_example_that_is_accepted(api: Service, document: Any) -> None:
    bodies = {
        operation["operationId"]: operation["requestBody"]["content"]["application/json"]
        for _, operation in operations(document)
        if "requestBody" in operation
    }
    for name, path in (
        ("seedStockUnits", STOCK_UNITS),
        ("createPool", POOLS),
        ("createUnit", UNITS),
        ("createTicket", f"{UNITS}/a/tickets"),
        ("createStorage", STORAGES),
        ("createSecret", SECRETS),
        ("invoke", INVOCATIONS),
    ):
        answer = await api.call("POST", path, bodies.pop(name)["example"])
        assert answer.status != 400, answer.body
    for name, path in (
        ("updatePool", f"{POOLS}/g1-demo"),
        ("updateUnit", f"{UNITS}/a"),
        ("updateStorage", f"{STORAGES}/models"),
    ):
        answer = await api.call("PUT", path, bodies.pop(name)["example"])
        assert answer.status != 400, answer.body
    assert not bodies
