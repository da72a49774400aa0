"""Secrets over HTTP: stored, listed by name and deleted, and never shown."""

import base64
import hashlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gpuruntime.api.auth.access import Principal, Role
from gpuruntime.api.auth.tokens import TokenGuard
from gpuruntime.models.kinds.secrets import MOST_BYTES, MOST_KEYS
from tests.rooms.api.service import SECRETS, Answer, Service, service
from tests.rooms.operations.cluster import Cluster
from tests.row_ids import in_words

pytestmark = pytest.mark.looptime

CANARY = "canary4711"
LOGIN = {"server": "registry.example.com", "username": "ann", "password": CANARY}
TENANTS = {"root": None, "a": {"a"}, "b": {"b"}, "both": {"a", "b"}}
PRINCIPALS = {
    hashlib.sha256(name.encode()).digest(): Principal(
        name=name,
        role=Role.OPERATOR if tenants is None else Role.TENANT,
        tenants=frozenset(tenants or ()),
    )
    for name, tenants in TENANTS.items()
} | {hashlib.sha256(b"screen").digest(): Principal(name="screen", role=Role.VIEWER)}


@pytest.fixture
async def api() -> AsyncIterator[Service]:
    async with service(Cluster(), guard=TokenGuard(lambda: PRINCIPALS)) as served:
        yield served


async def call(
    api: Service, method: str, path: str = "", body: object = None, *, who: str = "root"
) -> Answer:
    headers = {"Authorization": f"Bearer {who}"}
    return await api.call(method, f"{SECRETS}{path}", body, headers=headers)


async def store(api: Service, name: str = "hub", *, who: str = "root", **members: Any) -> Answer:
    body = {"name": name, "data": {"token": CANARY}, **members}
    return await call(api, "POST", "", body, who=who)


async def names(api: Service, path: str = "", *, who: str = "root") -> list[tuple[str, str]]:
    answer = await call(api, "GET", path, who=who)
    assert answer.status == 200
    return [(each["tenant"], each["name"]) for each in answer.data]


async def test_a_secret_is_created_replaced_listed_and_deleted(api: Service) -> None:
    first, again = await store(api), await store(api, data={"other": "x"})
    assert (first.status, again.status) == (201, 200)
    assert first.data["createdAt"] == again.data["createdAt"]
    assert set(first.data) == {"name", "tenant", "type", "createdAt", "updatedAt"}
    assert await names(api) == [("", "hub")]
    assert (await call(api, "DELETE", "/hub")).status == 204
    gone = await call(api, "DELETE", "/hub")
    assert (gone.status, gone.code) == (404, "secret_not_found")
    assert await names(api) == []


async def test_a_registry_login_is_a_secret_of_its_own_type(api: Service) -> None:
    login = {"name": "images", "type": "registry", "registry": LOGIN}
    stored = await call(api, "POST", "", login)
    assert (stored.status, stored.data["type"]) == (201, "registry")
    assert CANARY not in stored.bytes.decode()
    taken = await store(api, "images")
    assert (taken.status, taken.code) == (409, "name_taken")


async def test_each_tenant_has_its_own_secrets(api: Service) -> None:
    for who in ("a", "b"):
        assert (await store(api, who=who)).data["tenant"] == who
    assert (await store(api, tenant="a", who="b")).code == "forbidden"
    assert (await store(api, who="both")).fields == ["tenant"]
    assert await names(api, who="a") == [("a", "hub")]
    assert await names(api, "?tenant=a", who="b") == []
    assert await names(api, who="both") == [("a", "hub"), ("b", "hub")]
    assert await names(api) == []
    assert await names(api, "?tenant=b") == [("b", "hub")]
    assert (await call(api, "DELETE", "/hub?tenant=a", who="b")).code == "secret_not_found"
    assert (await call(api, "DELETE", "/hub", who="both")).fields == ["tenant"]
    assert (await call(api, "DELETE", "/hub?tenant=b", who="both")).status == 204
    assert await names(api, who="both") == [("a", "hub")]


async def test_a_viewer_lists_names_and_changes_nothing(api: Service) -> None:
    await store(api)
    assert await names(api, who="screen") == [("", "hub")]
    assert (await store(api, "own", who="screen")).status == 403
    assert (await call(api, "DELETE", "/hub", who="screen")).status == 403


async def test_pages_go_on_across_tenants(api: Service) -> None:
    for tenant in ("b", "a"):
        for name in ("y", "x"):
            await store(api, name, tenant=tenant)
    found, query = [], "?limit=1"
    while query:
        page = (await call(api, "GET", query, who="both")).body
        found += [(each["tenant"], each["name"]) for each in page["data"]]
        query = f"?limit=1&cursor={page['next']}" if page["next"] else ""
    assert found == [("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")]


LARGE = base64.b64encode(b"x" * MOST_BYTES).decode()
BAD: list[tuple[dict[str, Any], list[str]]] = [
    ({"name": "A"}, ["name"]),
    ({"data": {}}, ["data"]),
    ({"data": None}, ["data"]),
    ({"data": CANARY}, ["data"]),
    ({"data": {"token": 1}}, ["data.token"]),
    ({"data": {"a b": CANARY}}, ["data.a b"]),
    ({"data": {"..a": CANARY}}, ["data...a"]),
    ({"data": {".": CANARY}}, ["data.."]),
    ({"data": {f"k{n}": CANARY for n in range(MOST_KEYS + 1)}}, ["data"]),
    ({"data": {"a": "x" * (MOST_BYTES + 1)}}, ["data"]),
    ({"binaryData": {"b": LARGE}}, ["data"]),
    ({"binaryData": {"b": f"{CANARY}?"}}, ["binaryData.b"]),
    ({"binaryData": {"token": "YQ=="}}, ["binaryData.token"]),
    ({"type": CANARY}, ["type"]),
    ({"type": "registry"}, ["registry", "data"]),
    ({"type": "registry", "registry": LOGIN}, ["data"]),
    ({"registry": LOGIN}, ["registry"]),
    ({"registry": {**LOGIN, "username": "a:b"}}, ["registry", "registry.username"]),
    ({"registry": {**LOGIN, "password": ""}}, ["registry", "registry.password"]),
    ({"registry": {**LOGIN, "email": CANARY}}, ["registry", "registry.email"]),
    ({"tenant": "a b"}, ["tenant"]),
    ({"value": CANARY}, ["value"]),
]


@pytest.mark.parametrize(("members", "fields"), BAD, ids=in_words)
async def test_a_bad_secret_is_refused_by_its_fields_and_without_its_values(
    api: Service, members: dict[str, Any], fields: list[str]
) -> None:
    answer = await store(api, **members)
    assert (answer.status, answer.code) == (400, "invalid_request")
    assert sorted(answer.fields) == sorted(fields)
    assert CANARY not in answer.bytes.decode()
    assert await names(api) == []


@pytest.mark.parametrize(
    "data",
    [
        f'{{"name": "hub", "data": {{"token": "{CANARY}"',
        f'{{"name": "hub", "data": {{"token": "{CANARY}\\ud800"}}}}',
        f'{{"name": "hub", "data": {{"a": "{CANARY}", "a": "{CANARY}"}}}}',
        f'"{CANARY}"',
    ],
    ids=["half a document", "half a surrogate pair", "a key twice", "only a text"],
)
async def test_a_malformed_body_is_not_repeated(api: Service, data: str) -> None:
    headers = {"Authorization": "Bearer root"}
    answer = await api.call("POST", SECRETS, data=data.encode(), headers=headers)
    assert answer.status == 400
    assert CANARY not in answer.bytes.decode()


async def test_the_largest_secret_is_stored(api: Service) -> None:
    assert (await store(api, data={}, binaryData={"b": LARGE})).status == 201
    keys = {f"k{number}": "" for number in range(MOST_KEYS)}
    assert (await store(api, data=keys)).status == 200
    assert len(json.dumps(keys)) < MOST_BYTES
