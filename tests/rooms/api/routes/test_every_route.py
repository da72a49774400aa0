"""Every served route with every kind of caller.

The table must match the application's own router, so that a new route has to be added here.
"""

import hashlib
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from enum import Enum, auto
from typing import Any

import attrs
import pytest

from gpuruntime.api.auth.access import Known, Open, Principal, Role
from gpuruntime.api.auth.kubernetes import KubernetesGuard
from gpuruntime.api.auth.rate_limits import Limits
from gpuruntime.api.auth.tokens import TokenGuard
from gpuruntime.api.console.static_files import PAGE, file_names
from gpuruntime.api.console.streams import EVENT_STREAM
from gpuruntime.kube.client import Client
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.operations.options import Namespaces
from tests.options import configured
from tests.rooms.api.auth.reviews import Reviews
from tests.rooms.api.service import SECRETS, STORAGES, UNITS, Service, service, unit_order
from tests.rooms.operations.cluster import INSTANCE, STOCK, Cluster

pytestmark = pytest.mark.looptime

API = "/api/v1"
FOREIGN, UNKNOWN = "foreign", "unknown"
FILES = f"{API}/gpu-storages/{{name}}/files"
CREDENTIALS = ("", "guessed", "expired", "elsewhere", "of-nobody")


class Kind(Enum):
    # Open to every caller.
    OPEN = auto()
    # Shows the same to every known caller.
    KNOWN = auto()
    # Never for tenants.
    OPERATORS = auto()
    # About one object of a tenant; for other tenants it looks missing.
    THING = auto()
    # Lists the caller's own objects.
    LIST = auto()
    # Creates an object for the caller's own tenant.
    MAKES = auto()
    # Reads the owner from the broker; serverless/calling/test_dead_letters.py shows another
    # tenant's.
    LETTER = auto()


@attrs.frozen
class Served:
    """A row of the table; a caller sends `body`, with `query` and `headers`."""

    kind: Kind
    body: JsonObject | None = None
    query: str = ""
    headers: Mapping[str, str] = attrs.field(factory=dict)


OPEN, OPERATORS, THING = Served(Kind.OPEN), Served(Kind.OPERATORS), Served(Kind.THING)
LIST, MAKES, LETTER = Served(Kind.LIST), Served(Kind.MAKES), Served(Kind.LETTER)
OF_FUNCTION = Served(Kind.THING, query="?serverlessRequestID={name}")
WITHIN = Served(Kind.THING, headers={"Destination": f"{FILES}/b".replace("{name}", FOREIGN)})
ROUTES: dict[str, Served] = {
    f"GET {API}/health": OPEN,
    "GET /": OPEN,
    "GET /openapi.json": OPEN,
    "GET /swagger": OPEN,
    "GET /swagger/": OPEN,
    "GET /swagger/index.html": OPEN,
    "GET /swagger/swagger-ui.css": OPEN,
    "GET /swagger/swagger-ui-bundle.js": OPEN,
    "GET /swagger/favicon-32x32.png": OPEN,
    "GET /console": OPEN,
    "GET /console/": OPEN,
    **{f"GET /console/{name}": OPEN for name in file_names() if name != PAGE},
    "GET /console/events/units": LIST,
    "GET /console/events/stock": LIST,
    "GET /console/events/storages": LIST,
    "GET /console/events/pools": OPERATORS,
    "GET /console/events/fleet": OPERATORS,
    f"GET {API}/flavours": Served(Kind.KNOWN),
    f"GET {API}/operator/inventory": OPERATORS,
    f"GET {API}/operator/audit": OPERATORS,
    f"GET {API}/operator/jobs": OPERATORS,
    f"GET {API}/operator/jobs/{{operationID}}": OPERATORS,
    f"POST {API}/operator/stock-units": OPERATORS,
    f"POST {API}/operator/stockpools": OPERATORS,
    f"GET {API}/operator/stockpools": OPERATORS,
    f"GET {API}/operator/stockpools/{{name}}": OPERATORS,
    f"PUT {API}/operator/stockpools/{{name}}": OPERATORS,
    f"DELETE {API}/operator/stockpools/{{name}}": OPERATORS,
    f"POST {API}/gpu-units": MAKES,
    f"GET {API}/gpu-units": LIST,
    f"GET {API}/gpu-units/{{name}}": THING,
    f"PUT {API}/gpu-units/{{name}}": Served(Kind.THING, body={"image": "other:1"}),
    f"DELETE {API}/gpu-units/{{name}}": THING,
    f"GET {API}/gpu-units/{{name}}/events": THING,
    f"GET {API}/gpu-units/{{name}}/logs": THING,
    f"POST {API}/gpu-units/{{name}}/tickets": Served(Kind.THING, body={"uses": ["forward"]}),
    f"POST {API}/gpu-units/{{name}}/tickets/revoke": THING,
    f"POST {API}/gpu-units/{{name}}/wake": THING,
    f"POST {API}/gpu-storages": MAKES,
    f"GET {API}/gpu-storages": LIST,
    f"GET {API}/gpu-storages/{{name}}": THING,
    f"PUT {API}/gpu-storages/{{name}}": Served(Kind.THING, body={"size": "2Gi"}),
    f"DELETE {API}/gpu-storages/{{name}}": THING,
    f"POST {API}/gpu-storages/{{name}}/recover": THING,
    f"POST {API}/secrets": MAKES,
    f"GET {API}/secrets": LIST,
    f"DELETE {API}/secrets/{{name}}": THING,
    **{f"{method} {FILES}/": THING for method in ("GET", "OPTIONS")},
    **{
        f"{method} {FILES}{{path}}": THING
        for method in ("GET", "OPTIONS", "PROPFIND", "PUT", "PATCH", "DELETE", "MKCOL")
    },
    **{f"{method} {FILES}{{path}}": WITHIN for method in ("COPY", "MOVE")},
    f"POST {API}/serverless/invocations": MAKES,
    f"GET {API}/serverless/invocations/{{invocationID}}": OF_FUNCTION,
    f"DELETE {API}/serverless/invocations/{{invocationID}}": OF_FUNCTION,
    f"GET {API}/serverless/invocations": Served(
        Kind.LIST, query=f"?serverlessRequestID={FOREIGN}"
    ),
    f"GET {API}/serverless/functions": LIST,
    f"GET {API}/serverless/functions/{{serverlessRequestID}}": THING,
    f"GET {API}/serverless/dead-letters": Served(
        Kind.LIST, query=f"?serverlessRequestID={FOREIGN}"
    ),
    f"POST {API}/serverless/dead-letters/{{deadLetterID}}/redrive": LETTER,
    f"DELETE {API}/serverless/dead-letters/{{deadLetterID}}": LETTER,
}
PRINCIPALS = (
    Principal(name="root", role=Role.OPERATOR),
    Principal(name="a", role=Role.TENANT, tenants=frozenset({"a"})),
    Principal(name="b", role=Role.TENANT, tenants=frozenset({"b"})),
)
TABLE = {hashlib.sha256(who.name.encode()).digest(): who for who in PRINCIPALS}


@attrs.frozen
class Reply:
    status: int
    headers: Mapping[str, str]
    text: str


def served_by(api: Service) -> Iterator[tuple[str, str]]:
    """Return method and path of every route of the router."""
    for route in api.client.app.router.routes():
        assert route.resource is not None
        yield route.method, route.resource.canonical


def closed(*kinds: Kind) -> list[str]:
    """Return the rows of these kinds, with HEAD beside each GET."""
    names = [
        name
        for name, served in ROUTES.items()
        if served.kind is not Kind.OPEN and (not kinds or served.kind in kinds)
    ]
    return [*names, *(name.replace("GET", "HEAD", 1) for name in names if name[:4] == "GET ")]


async def ask(api: Service, name: str, who: str, *, of: str = FOREIGN, **headers: str) -> Reply:
    """Send a valid request, with an Authorization header unless `who` is empty."""
    method, path = name.split(" ")
    served = ROUTES[name.replace("HEAD", "GET", 1)]
    path = path.replace("{path}", "/a") + served.query.replace("{name}", of)
    given = {
        key: value.replace(FOREIGN, of) for key, value in {**served.headers, **headers}.items()
    }
    if who:
        given["Authorization"] = f"Bearer {who}"
    url = re.sub(r"\{\w+\}", of, path)
    async with api.client.request(method, url, json=served.body, headers=given) as response:
        is_endless = response.content_type == EVENT_STREAM and method != "HEAD"
        first = (await response.content.readuntil(b"\n\n")).decode() if is_endless else ""
        return Reply(response.status, response.headers, first or await response.text())


@asynccontextmanager
async def tenants() -> AsyncIterator[Service]:
    """Yield an API with a function's unit, a storage and a secret of tenant a, each named FOREIGN.

    A test that counts requests opens it itself, as fixtures run on another clock.
    """
    cluster = Cluster()
    cluster.add_stock(3)
    unbounded = configured(Limits, per_second=1e6, burst=1_000_000)
    async with service(cluster, guard=TokenGuard(lambda: TABLE), limits=unbounded) as served:
        headers = {"Authorization": "Bearer a"}
        unit = unit_order("first", name=FOREIGN, serverless={"requestID": FOREIGN})
        storage = {"name": FOREIGN, "size": "1Gi", "operationID": "second"}
        accessor = {"accessor": {"enabled": True, "writable": True}}
        assert (await served.call("POST", UNITS, unit, headers=headers)).status == 201
        made = await served.call("POST", STORAGES, {**storage, **accessor}, headers=headers)
        assert made.status == 201
        secret = {"name": FOREIGN, "data": {"token": "value"}}
        stored = await served.call("POST", SECRETS, secret, headers=headers)
        assert stored.status == 201
        yield served


@pytest.fixture
async def api() -> AsyncIterator[Service]:
    async with tenants() as served:
        yield served


async def test_the_table_has_every_route_that_is_served_and_no_other(api: Service) -> None:
    served = {f"{method} {path}" for method, path in served_by(api)}
    reads = {name for name in ROUTES if name.startswith("GET ")}
    assert served == {*ROUTES, *(name.replace("GET", "HEAD", 1) for name in reads)}


@pytest.mark.parametrize("credential", CREDENTIALS)
async def test_a_caller_without_a_known_token_gets_401_and_nothing_else(
    api: Service, credential: str
) -> None:
    before = api.replica.transport.written()
    for name in closed():
        answer = await ask(api, name, credential)
        assert answer.status == 401, name
        assert answer.headers["WWW-Authenticate"].startswith("Bearer "), name
        assert ("invalid_token" in answer.headers["WWW-Authenticate"]) == bool(credential), name
        assert FOREIGN not in answer.text, name
    assert api.replica.transport.written() == before


async def test_operator_routes_are_403_for_tenants_even_for_missing_objects() -> None:
    async with tenants() as api:
        for name in closed(Kind.OPERATORS):
            known, unknown = await ask(api, name, "a"), await ask(api, name, "a", of=UNKNOWN)
            assert known.status == unknown.status == 403, name
            assert known.text == unknown.text, name


async def test_another_tenants_object_and_a_missing_one_look_the_same() -> None:
    """This holds for every method, and whatever ETag the caller knows."""
    async with tenants() as api:
        etag = (await ask(api, f"GET {API}/gpu-units/{{name}}", "a")).headers["ETag"]
        knowing: tuple[dict[str, str], ...] = (
            {},
            {"If-Match": etag},
            {"If-None-Match": etag},
            {"If-Match": "*"},
        )
        for name in closed(Kind.THING):
            for headers in knowing:
                foreign = await ask(api, name, "b", of=FOREIGN, **headers)
                unknown = await ask(api, name, "b", of=UNKNOWN, **headers)
                assert foreign.status == 404, f"{name} {headers}"
                assert foreign.text.replace(FOREIGN, UNKNOWN) == unknown.text, name
                assert told(foreign) == told(unknown), name
        for name in closed(Kind.THING):
            if "logs" not in name and "invocations" not in name and not name.startswith("DELETE"):
                assert (await ask(api, name, "a")).status != 404, (
                    f"{name}: it is there for its own"
                )


def told(reply: Reply) -> dict[str, str]:
    """Return the headers that depend on the object."""
    changing = {"x-request-id", "date", "content-length"}
    return {name: value for name, value in reply.headers.items() if name.lower() not in changing}


async def test_lists_show_no_object_of_another_tenant(api: Service) -> None:
    for name in closed(Kind.LIST):
        shown = await ask(api, name, "b")
        assert shown.status in (200, 503), name
        assert FOREIGN not in shown.text, name


async def test_no_object_is_created_from_another_tenants_one(api: Service) -> None:
    """The refusal equals the one for a name that does not exist."""
    mount = [{"name": FOREIGN, "mountPath": "/data"}]
    orders: list[tuple[str, dict[str, Any]]] = [
        (UNITS, unit_order("new", name="own", storageMounts=mount)),
        (STORAGES, {"name": "own", "size": "1Gi", "prepare": {"fromStorageName": FOREIGN}}),
        (f"{API}/serverless/invocations", {"serverlessRequestID": FOREIGN}),
    ]
    headers = {"Authorization": "Bearer b"}
    for path, body in orders:
        unknown = renamed(body)
        foreign = await api.call("POST", path, body, headers=headers)
        nobodys = await api.call("POST", path, unknown, headers=headers)
        assert (foreign.status, foreign.code) == (404, nobodys.code), path
        assert foreign.bytes.decode().replace(FOREIGN, UNKNOWN) == nobodys.bytes.decode()


def renamed(body: Any) -> Any:
    """Return the body with an unknown name in every place of the foreign one."""
    if isinstance(body, dict):
        return {key: renamed(value) for key, value in body.items()}
    if isinstance(body, list):
        return [renamed(each) for each in body]
    return UNKNOWN if body == FOREIGN else body


async def test_a_replay_of_another_tenants_operation_is_only_a_conflict(
    api: Service,
) -> None:
    """All tenants share names and operationIDs, as docs/authentication.md says."""
    headers = {"Authorization": "Bearer b"}
    orders: list[tuple[str, dict[str, Any], str]] = [
        (UNITS, unit_order("first"), "operation_conflict"),
        (UNITS, unit_order("first", name=FOREIGN, serverless={"requestID": FOREIGN}), ""),
        (UNITS, unit_order("new", name=FOREIGN), "name_taken"),
        (STORAGES, {"name": "own", "size": "1Gi", "operationID": "second"}, ""),
        (STORAGES, {"name": FOREIGN, "size": "1Gi", "operationID": "new"}, "name_taken"),
    ]
    for path, body, code in orders:
        answer = await api.call("POST", path, body, headers=headers)
        assert answer.status == 409, body
        assert answer.code == (code or "operation_conflict"), body
        assert "Idempotent-Replay" not in answer.headers
        assert "ETag" not in answer.headers
        if body.get("name") != FOREIGN:
            assert FOREIGN not in answer.bytes.decode(), body
        assert "tenant" not in answer.bytes.decode()


async def test_the_clusters_verdicts_become_401_and_403_on_every_route() -> None:
    reviews = Reviews(tokens={("good", "gpuruntime"): "ann", ("elsewhere", "other"): "ann"})
    guard = KubernetesGuard(
        Client(reviews), audience="gpuruntime", namespaces=configured(Namespaces)
    )
    async with service(Cluster(), guard=guard) as api:
        for name in closed():
            for credential in CREDENTIALS:
                answer = await ask(api, name, credential)
                assert answer.status == 401, f"{name} {credential}"
            expected = 200 if name in closed(Kind.KNOWN) else 403
            assert (await ask(api, name, "good")).status == expected, name
        assert api.replica.transport.written() == []
        reviews.rights |= set(rights_of(api))
        late = KubernetesGuard(
            Client(reviews), audience="gpuruntime", namespaces=configured(Namespaces)
        )
    async with service(Cluster(), guard=late) as api:
        for name in closed():
            assert (await ask(api, name, "good")).status not in (401, 403), name


def rights_of(api: Service) -> Iterator[tuple[str, str, str, str]]:
    places = {"instance": INSTANCE, "stock": STOCK, "all": ""}
    for route in api.routes:
        if isinstance(route.access, Open | Known):
            continue
        parts = (route.access.resource, route.access.subresource)
        resource = "/".join(part for part in parts if part)
        yield "ann", route.access.verb.value, resource, places[route.access.place.value]
    # The stream of stock is not in the document.
    yield "ann", "list", "gpuunits", STOCK
