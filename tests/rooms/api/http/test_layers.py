"""Layers around every route: request ids, methods, limits, deadlines and unexpected errors."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import structlog

from gpuruntime.api.app import BODY_LIMIT
from gpuruntime.api.auth.access import Principal, Role
from gpuruntime.api.auth.rate_limits import Limits
from gpuruntime.api.auth.tokens import TokenGuard
from gpuruntime.api.cluster_link import ClusterLink
from gpuruntime.models.kubernetes.cluster import Node
from gpuruntime.models.kubernetes.metadata import Key
from tests.faults import slow
from tests.options import configured
from tests.rooms.api.service import UNITS, Service, service, unit_order
from tests.rooms.operations.cluster import Cluster
from tests.row_ids import in_words

pytestmark = pytest.mark.looptime

HEALTH = "/api/v1/health"
INVENTORY = "/api/v1/operator/inventory"


class CountingMeter:
    def __init__(self) -> None:
        self.counted: list[dict[str, str]] = []

    def count(self, name: str, amount: float = 1, /, **labels: str) -> None:
        pass

    def gauge(self, name: str, value: float, /, **labels: str) -> None:
        pass

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        if name == "http_request_seconds" and seconds >= 0:
            self.counted.append(labels)


@pytest.fixture
def meter() -> CountingMeter:
    return CountingMeter()


@pytest.fixture
async def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
async def api(cluster: Cluster, meter: CountingMeter) -> AsyncIterator[Service]:
    async with service(cluster, meter=meter) as served:
        yield served


# A fault for each layer that can refuse a request, in the layers' order, and its answer.
FAULTS: dict[str, tuple[int, str]] = {
    "too many requests": (503, "service_unavailable"),
    "no token": (401, "unauthenticated"),
    "too many of this caller": (429, "too_many_requests"),
    "no right": (403, "forbidden"),
    "another media type": (415, "unsupported_media_type"),
    "an unknown parameter": (400, "invalid_request: parameter"),
    "a bad body": (400, "invalid_request: image"),
    "no cluster": (503, "service_unavailable"),
}


@pytest.mark.parametrize("outermost", range(len(FAULTS)), ids=list(FAULTS))
async def test_of_all_faults_of_a_request_the_outermost_layer_answers_its_own(
    cluster: Cluster, outermost: int
) -> None:
    faults = list(FAULTS)[outermost:]
    role = Role.VIEWER if "no right" in faults else Role.OPERATOR
    callers = {hashlib.sha256(b"token").digest(): Principal(name="a", role=role)}
    body = unit_order(image=7) if "a bad body" in faults else unit_order()
    media_type = "text/plain" if "another media type" in faults else "application/json"
    token = {} if "no token" in faults else {"Authorization": "Bearer token"}
    async with service(
        cluster,
        guard=TokenGuard(lambda: callers),
        most_requests=0 if "too many requests" in faults else 1,
        limits=configured(Limits, burst=0 if "too many of this caller" in faults else 1),
    ) as api:
        api.connection = ClusterLink(is_connected=False, is_synced=False)
        answer = await api.call(
            "POST",
            f"{UNITS}?parameter=1" if "an unknown parameter" in faults else UNITS,
            body,
            headers={"Content-Type": media_type, **token},
        )
    code = ": ".join([answer.code, *answer.fields])
    assert (answer.status, code) == FAULTS[faults[0]]


async def test_a_page_of_another_site_is_refused_before_its_body_is_read(api: Service) -> None:
    headers = {"Origin": "http://elsewhere.example", "Content-Type": "text/plain"}
    answer = await api.call("POST", UNITS, {}, headers=headers)
    assert (answer.status, answer.code) == (403, "forbidden")


async def test_a_sane_request_id_comes_back_on_every_answer(api: Service) -> None:
    headers = {"X-Request-Id": "trace-1:a.b_C"}
    for method, path in (("GET", HEALTH), ("GET", "/nowhere"), ("PATCH", UNITS), ("POST", UNITS)):
        answer = await api.call(method, path, headers=headers)
        assert answer.headers["X-Request-Id"] == "trace-1:a.b_C"


@pytest.mark.parametrize("given", ["", "a b", "x" * 129, "ü", 'a"b'], ids=in_words)
async def test_another_request_id_is_replaced_by_one_of_ours(api: Service, given: str) -> None:
    answer = await api.call("GET", HEALTH, headers={"X-Request-Id": given})
    assert len(answer.headers["X-Request-Id"]) == 32


async def test_two_requests_never_share_an_id_of_ours(api: Service) -> None:
    ids = {(await api.call("GET", HEALTH)).headers["X-Request-Id"] for _ in range(3)}
    assert len(ids) == 3


async def test_unknown_paths_are_404_in_the_apis_own_shape(api: Service) -> None:
    for path in (
        "/index.html",
        "/api/v1",
        f"{UNITS}/",
        f"{UNITS}/a/b",
        "/api/v2/health",
        "/swagger/x",
    ):
        answer = await api.call("GET", path)
        assert (answer.status, answer.code) == (404, "not_found")


@pytest.mark.parametrize(
    ("path", "successor"),
    [
        ("/api/v1/stocks", "/api/v1/operator/stockpools"),
        ("/api/v1/stocks/a", "/api/v1/operator/stockpools"),
        ("/stocks", "/api/v1/operator/stockpools"),
        ("/api/v1/vms", "/api/v1/gpu-units"),
        ("/api/v1/vms/a/b", "/api/v1/gpu-units"),
        ("/vms", "/api/v1/gpu-units"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_a_path_of_the_original_is_404_and_names_its_successor(
    api: Service, method: str, path: str, successor: str
) -> None:
    answer = await api.call(method, path)
    assert (answer.status, answer.code) == (404, "not_found")
    assert f"use {successor} instead" in answer.body["error"]["message"]
    assert (await api.call("GET", successor)).status == 200


@pytest.mark.parametrize("path", ["/api/v1/stocksx", "/api/v2/vms", "/api/v1/vm"])
async def test_a_path_that_only_resembles_one_names_no_successor(api: Service, path: str) -> None:
    answer = await api.call("GET", path)
    assert "instead" not in answer.body["error"]["message"]


async def test_another_method_is_405_and_says_which_are_allowed(api: Service) -> None:
    for method, path, allowed in (
        ("PATCH", UNITS, "GET, HEAD, POST"),
        ("POST", f"{UNITS}/demo", "DELETE, GET, HEAD, PUT"),
        ("DELETE", HEALTH, "GET, HEAD"),
        ("OPTIONS", UNITS, "GET, HEAD, POST"),
    ):
        answer = await api.call(method, path)
        assert (answer.status, answer.code) == (405, "method_not_allowed")
        assert answer.headers["Allow"] == allowed


async def test_head_is_get_without_the_body(api: Service) -> None:
    get, head = await api.call("GET", UNITS), await api.call("HEAD", UNITS)
    assert (head.status, head.bytes) == (200, b"")
    assert head.headers["Content-Length"] == get.headers["Content-Length"]


def order_of_size(size: int) -> bytes:
    """Return a body of this size; its size is checked before its unknown field."""
    body = json.dumps(unit_order(padding="")).encode()
    return body.replace(b'"padding": ""', b'"padding": "' + b"x" * (size - len(body)) + b'"')


async def test_a_body_may_have_one_mebibyte_and_not_a_byte_more(api: Service) -> None:
    whole = await api.call("POST", UNITS, data=order_of_size(BODY_LIMIT))
    assert (whole.status, whole.fields) == (400, ["padding"])
    over = await api.call("POST", UNITS, data=order_of_size(BODY_LIMIT + 1))
    assert (over.status, over.code) == (413, "body_too_large")


async def test_a_body_that_hides_its_length_is_cut_at_the_limit(api: Service) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b" " * 65_536

    headers = {"Content-Type": "application/json"}
    async with api.client.post(UNITS, data=chunks(), headers=headers) as response:
        assert response.status == 413


@pytest.mark.parametrize(
    "media_type", ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""]
)
async def test_a_body_of_another_media_type_is_415(api: Service, media_type: str) -> None:
    answer = await api.call("POST", UNITS, {}, headers={"Content-Type": media_type})
    assert (answer.status, answer.code) == (415, "unsupported_media_type")


async def test_a_charset_beside_the_media_type_is_accepted(api: Service) -> None:
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    answer = await api.call("POST", UNITS, {}, headers=headers)
    assert answer.status == 400


async def test_a_request_past_its_deadline_is_504(cluster: Cluster) -> None:
    async with service(cluster, deadline_seconds=5.0) as api:
        api.replica.transport.on("GET", "gpuunits/nobody", slow(before=20.0))
        answer = await api.call("GET", f"{UNITS}/nobody")
        assert (answer.status, answer.code) == (504, "timeout")


async def test_a_creation_past_its_deadline_goes_on_and_is_replayed(cluster: Cluster) -> None:
    cluster.add_stock(1)
    async with service(cluster, deadline_seconds=5.0) as api:
        api.replica.transport.on("POST", "gpuunits", slow(before=20.0))
        assert (await api.create(name="demo")).status == 504
        await asyncio.sleep(30)
        assert (await api.create(name="demo")).status == 200
    assert len(cluster.units) == 1


async def test_an_unexpected_error_is_500_and_its_text_is_only_logged(
    api: Service,
) -> None:
    broken = Node(status=None)  # type: ignore[arg-type]  # which no decoder lets through
    api.nodes.put(Key("", "broken"), broken)
    with structlog.testing.capture_logs() as logs:
        answer = await api.call("GET", INVENTORY, headers={"X-Request-Id": "trace-1"})
    assert (answer.status, answer.code) == (500, "internal_error")
    assert b"capacity" not in answer.bytes
    assert "trace-1" in answer.body["error"]["message"]
    (failure,) = [line for line in logs if line["log_level"] == "error"]
    assert failure["exc_info"]


async def test_requests_are_counted_by_the_routes_pattern(
    api: Service, meter: CountingMeter
) -> None:
    for method, path in (("GET", f"{UNITS}/demo"), ("GET", "/nowhere"), ("LOCK", UNITS)):
        await api.call(method, path)
    labels = [each for each in meter.counted if each["route"] != "/openapi.json"]
    assert labels == [
        {"code": "404", "method": "GET", "route": f"{UNITS}/{{name}}"},
        {"code": "404", "method": "GET", "route": "unknown"},
        {"code": "405", "method": "other", "route": "unknown"},
    ]


@pytest.mark.parametrize(
    ("method", "is_told"),
    [
        *((method, True) for method in ("PUT", "PATCH", "DELETE", "MKCOL", "COPY", "MOVE")),
        *((method, False) for method in ("GET", "HEAD", "OPTIONS", "PROPFIND")),
    ],
)
async def test_changes_of_files_are_logged_and_reads_are_not(
    method: str, is_told: bool, api: Service, meter: CountingMeter
) -> None:
    path = "/api/v1/gpu-storages/models/files/a"
    with structlog.testing.capture_logs() as logs:
        answer = await api.client.request(method, path, headers={"Destination": f"{path}-b"})
        assert answer.status == 404
        await asyncio.sleep(0)
    told = [(line["method"], line["path"]) for line in logs if line["event"] == "request served"]
    assert told == ([(method, path)] if is_told else [])
    assert [each["method"] for each in meter.counted] == [method]


async def test_an_answer_is_neither_stored_nor_sniffed(api: Service) -> None:
    headers: Any = (await api.call("GET", HEALTH)).headers
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Server"] == "gpuruntime"
