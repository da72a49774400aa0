"""The page for readers of the Go original: its answers are real, and its lists are complete."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gpuruntime.manifests import overlays
from tests.proofs.docs.pages import ROOT, page_of
from tests.rooms.api.openapi.test_document import ROUTES
from tests.rooms.api.service import POOLS, UNITS, Service, service, unit_order
from tests.rooms.operations.cluster import Cluster

pytestmark = pytest.mark.looptime

PAGE = page_of("docs/from-the-original.md")
ROUTE = re.compile(r"(GET|PUT|POST|DELETE) (/\S+)")
DIFFERENCES = PAGE.table("in the chapters")
BODIES = {
    UNITS: unit_order(),
    POOLS: {"operationID": "pool", "specName": "g1.1", "replicas": 1},
}
FIELDS = PAGE.table("request", "required")
# Routes for a browser or for one method of files more are on pages of their own.
ELSEWHERE = {"/openapi.json", "/swagger/index.html"}


def spans(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def routes_in(text: str) -> set[tuple[str, str]]:
    found = (ROUTE.fullmatch(each) for each in spans(text))
    return {(match[1].lower(), match[2]) for match in found if match}


@pytest.fixture
async def api() -> AsyncIterator[Service]:
    async with service(Cluster()) as served:
        yield served


@pytest.mark.parametrize("row", DIFFERENCES, ids=lambda row: row[0])
async def test_what_differs_is_answered_as_the_page_says(api: Service, row: list[str]) -> None:
    request, *members = spans(row[0])
    method, path = request.split()
    body = BODIES[path] | json.loads(members[0]) if members else None
    answer = await api.call(method, path, body)
    status, code = row[1].split()
    assert (answer.status, answer.code) == (int(status), code.strip("`"))
    if members:
        assert answer.fields == [*json.loads(members[0])]
        member, namespace = spans(row[2])
        corrected = await api.call(method, path, BODIES[path] | {member: namespace})
        assert "invalid_request" not in str(corrected.body)
    else:
        [(_, successor)] = routes_in(row[2])
        assert successor in answer.body["error"]["message"]
        assert (await api.call(method, successor)).status == 200


def test_the_routes_are_those_of_the_product() -> None:
    shown = {path for row in PAGE.table("task", "route") for _, path in routes_in(row[1])}
    assert shown == set(ROUTES) - ELSEWHERE


@pytest.mark.parametrize("row", FIELDS, ids=lambda row: row[0])
async def test_the_fields_are_those_of_the_document(api: Service, row: list[str]) -> None:
    document: Any = (await api.call("GET", "/openapi.json")).body
    [(method, path)] = routes_in(row[0])
    content = document["paths"][path][method]["requestBody"]["content"]["application/json"]
    schema = document["components"]["schemas"][content["schema"]["$ref"].rpartition("/")[2]]
    assert set(spans(row[1])) == set(schema["required"])
    assert set(spans(row[1])) | set(spans(row[2])) == set(schema["properties"])


def test_the_policy_and_the_commands_that_the_page_names_exist() -> None:
    assert "name: gpuruntime-namespaces" in overlays.text_of(overlays.Overlay.MINIMAL)
    commands = " ".join(row[1] for row in PAGE.table("task", "command"))
    [overlay] = re.findall(r"kubectl apply -k (\S+)`", commands)
    assert (ROOT / overlay / "kustomization.yaml").exists()
    assert (ROOT / "Containerfile").exists()
    assert not (ROOT / "Makefile").exists()
