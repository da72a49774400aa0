"""Authentication before every route: without a token, with a wrong one, and with a valid one."""

import hashlib
import json
import re
from collections.abc import AsyncIterator

import pytest
import structlog

from gpuruntime.api.auth.access import Open, Principal, Role
from gpuruntime.api.auth.tokens import TokenGuard
from gpuruntime.api.http.routing import Route
from tests.rooms.api.service import POOLS, UNITS, Service, service, unit_order
from tests.rooms.operations.cluster import Cluster

pytestmark = pytest.mark.looptime

TOKENS = {
    "operator-secret": Principal(name="root", role=Role.OPERATOR),
    "viewer-secret": Principal(name="screen", role=Role.VIEWER),
}
PRINCIPALS = {hashlib.sha256(token.encode()).digest(): who for token, who in TOKENS.items()}
OPEN_PATHS = {
    "/api/v1/health",
    "/openapi.json",
    "/swagger",
    "/swagger/",
    "/swagger/index.html",
    "/swagger/swagger-ui.css",
    "/swagger/swagger-ui-bundle.js",
    "/swagger/favicon-32x32.png",
}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
async def api() -> AsyncIterator[Service]:
    async with service(Cluster(), guard=TokenGuard(lambda: PRINCIPALS)) as served:
        yield served


async def status(api: Service, route: Route, headers: dict[str, str]) -> int:
    """Return the status of a request without a body, which every route that needs one refuses."""
    path = re.sub(r"\{\w+\}", "nobody", route.path)
    async with api.client.request(route.method, path, headers=headers) as response:
        if response.status == 401:
            assert response.headers["WWW-Authenticate"].startswith("Bearer ")
        return response.status


async def test_every_closed_route_answers_401_without_a_known_token(api: Service) -> None:
    for route in api.routes:
        if isinstance(route.access, Open):
            continue
        assert await status(api, route, {}) == 401, route.name
        assert await status(api, route, bearer("guessed")) == 401, route.name
        assert await status(api, route, bearer("operator-secret")) not in (401, 403), route.name


async def test_a_viewer_gets_403_on_exactly_the_routes_that_change_something(api: Service) -> None:
    for route in api.routes:
        answered = await status(api, route, bearer("viewer-secret"))
        is_read = route.method in ("GET", "OPTIONS", "PROPFIND")
        assert (answered == 403) != is_read, f"{route.name}: {answered}"


async def test_only_health_and_the_document_are_open(api: Service) -> None:
    open_ones = [route for route in api.routes if isinstance(route.access, Open)]
    assert {route.path for route in open_ones} == OPEN_PATHS
    for route in open_ones:
        assert await status(api, route, {}) == 200


@pytest.mark.parametrize(
    "value",
    ["", "Bearer", "Bearer ", "Basic b3A6c2VjcmV0", "operator-secret", "Bearer a b", "Bearer é"],
)
async def test_a_malformed_authorization_header_is_401(api: Service, value: str) -> None:
    answer = await api.call("GET", UNITS, headers={"Authorization": value})
    assert (answer.status, answer.code) == (401, "unauthenticated")
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="gpuruntime", error="invalid_token"'


async def test_the_bearer_scheme_ignores_case(api: Service) -> None:
    answer = await api.call("GET", UNITS, headers={"Authorization": "bearer viewer-secret"})
    assert answer.status == 200


async def test_a_caller_without_the_right_is_refused_before_the_body_is_read(api: Service) -> None:
    for headers, code in (({}, 401), (bearer("viewer-secret"), 403)):
        answer = await api.call("POST", POOLS, data=b"\xff not JSON", headers=headers)
        assert answer.status == code


async def test_a_changed_token_table_counts_for_the_next_request() -> None:
    table = dict(PRINCIPALS)
    async with service(Cluster(), guard=TokenGuard(lambda: table)) as api:
        assert (await api.call("GET", UNITS, headers=bearer("viewer-secret"))).status == 200
        del table[hashlib.sha256(b"viewer-secret").digest()]
        assert (await api.call("GET", UNITS, headers=bearer("viewer-secret"))).status == 401


async def test_tokens_appear_in_no_answer_and_no_log(api: Service) -> None:
    with structlog.testing.capture_logs(
        processors=[structlog.contextvars.merge_contextvars]
    ) as logs:
        answers = [
            await api.call("POST", UNITS, unit_order(), headers=bearer("operator-secret")),
            await api.call("POST", UNITS, unit_order(), headers=bearer("guessed")),
            await api.call("POST", UNITS, unit_order(), headers=bearer("viewer-secret")),
        ]
    assert [answer.status for answer in answers] == [409, 401, 403]
    told = repr(logs) + "".join(f"{each.headers} {each.bytes!r}" for each in answers)
    assert "secret" not in told
    assert "guessed" not in told
    assert [each["caller"] for each in logs if "caller" in each] == ["root", "screen"]


async def test_the_document_declares_bearer_tokens_if_callers_are_identified(api: Service) -> None:
    document = json.loads((await api.call("GET", "/openapi.json")).bytes)
    assert document["components"]["securitySchemes"] == {
        "token": {"type": "http", "scheme": "bearer"}
    }
    unit = document["paths"][UNITS]["get"]
    assert unit["security"] == [{"token": []}]
    assert {"401", "403", "429", "503"} <= set(unit["responses"])
    assert "security" not in document["paths"]["/api/v1/health"]["get"]


async def test_the_document_declares_no_security_without_authentication() -> None:
    async with service(Cluster()) as api:
        document = json.loads((await api.call("GET", "/openapi.json")).bytes)
    assert "securitySchemes" not in document["components"]
    assert "security" not in document["paths"][UNITS]["get"]
