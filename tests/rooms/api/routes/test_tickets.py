"""Tickets over HTTP: their rights in each mode, their revocation, and waking by the gateway."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs
import pytest
import structlog

from gpuruntime.api.auth.access import Principal, Role
from gpuruntime.api.auth.authentication import Guard
from gpuruntime.api.auth.kubernetes import KubernetesGuard
from gpuruntime.api.auth.rate_limits import Limits
from gpuruntime.api.auth.tokens import TokenGuard
from gpuruntime.api.tickets.issuer import NO_GATEWAY, GatewayOptions
from gpuruntime.api.tickets.session_events import RecordOfUnit, ignore
from gpuruntime.kube.client import Client
from gpuruntime.kube.events import Note
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.requests.tickets import Use
from gpuruntime.operations.options import Namespaces
from gpuruntime.tickets.addresses import parse_public_url
from gpuruntime.tickets.keys import KeyRing, TicketKey
from gpuruntime.tickets.tokens import (
    Claims,
    Refusal,
    Target,
    TokenType,
    refusal_of,
    sign,
    verify,
)
from tests.faults import ANSWER_LOST
from tests.options import configured
from tests.rooms.api.auth.reviews import Reviews
from tests.rooms.api.service import LIMITS, UNITS, Answer, Service, service, unit_order
from tests.rooms.operations.cluster import INSTANCE, Cluster, clock

pytestmark = pytest.mark.looptime

DEMO: Final = f"{UNITS}/demo"
TICKETS: Final = f"{DEMO}/tickets"
REVOKE: Final = f"{TICKETS}/revoke"
WAKE: Final = f"{DEMO}/wake"
KEY: Final = TicketKey(id="k1", secret=b"1" * 32)
RING: Final = KeyRing((KEY,))
GATEWAY: Final = GatewayOptions(
    address=parse_public_url("https://*.units.example.com"),
    ssh_address=None,
    host_keys=(),
    has_exec=True,
)
TEMPLATE: Final = {"ports": [{"name": "http", "port": 8080}]}
PRINCIPALS: Final = (
    Principal(name="root", role=Role.OPERATOR),
    Principal(name="screen", role=Role.VIEWER),
    Principal(name="blue", role=Role.TENANT, tenants=frozenset({"blue"})),
    Principal(name="green", role=Role.TENANT, tenants=frozenset({"green"})),
    Principal(name="blue-screen", role=Role.VIEWER, tenants=frozenset({"blue"})),
)
TABLE: Final = {hashlib.sha256(who.name.encode()).digest(): who for who in PRINCIPALS}


@asynccontextmanager
async def served(
    *,
    guard: Guard | None = None,
    gateway: GatewayOptions = GATEWAY,
    ring: KeyRing | None = RING,
    limits: Limits = LIMITS,
    record: RecordOfUnit = ignore,
    **access: Any,
) -> AsyncIterator[Service]:
    """Yield an API with the unit demo, which belongs to the tenant blue."""
    cluster = Cluster()
    cluster.add_stock(2)
    async with service(
        cluster,
        guard=guard,
        gateway=gateway,
        limits=limits,
        ticket_keys=lambda: ring,
        record=record,
    ) as api:
        order = unit_order(name="demo", template=TEMPLATE, tenant="blue", access=access)
        await api.replica.create("one", **{n: v for n, v in order.items() if n != "operationID"})
        yield api


async def ask(
    api: Service, path: str, body: object = None, who: str = "", **headers: str
) -> Answer:
    given = {"Authorization": f"Bearer {who}"} if who else {}
    return await api.call("POST", path, body, headers={**given, **headers})


async def change(api: Service, **members: object) -> None:
    assert (await api.call("PUT", DEMO, members)).status == 200


def word(kind: TokenType = TokenType.WAKE, uid: str = "", *, age: int = 0) -> str:
    now = int(clock().timestamp()) - age
    claims = Claims(
        jti="7", uid=uid, unit="demo", gen=0, use=(), iat=now, exp=now + 60, sub="gateway"
    )
    return sign(claims, kind, KEY)


async def uid_of(api: Service) -> str:
    return (await api.replica.inventory.units.get("demo")).metadata.uid


async def test_a_ticket_is_201_and_verified_by_every_replica_with_the_key() -> None:
    async with served() as api:
        answer = await ask(api, TICKETS, {"uses": ["http"], "port": 8080, "label": "notebook"})
        assert answer.status == 201
        assert answer.headers["Cache-Control"] == "no-store"
        again = KeyRing((TicketKey(id="k0", secret=b"0" * 32), KEY))
        claims = verify(answer.data["ticket"], TokenType.TICKET, again, clock().timestamp())
        assert (claims.unit, claims.port, claims.sub) == ("demo", 8080, "anybody")
        assert answer.data["unit"] == {"name": "demo", "uid": await uid_of(api), "generation": 0}
        assert answer.data["expiresAt"] == "2025-01-01T00:15:00Z"


async def test_neither_a_ticket_nor_its_urls_are_logged() -> None:
    async with served() as api:
        with structlog.testing.capture_logs() as logs:
            body = {"uses": ["http", "exec"], "port": "http", "label": "for ann"}
            answer = await ask(api, TICKETS, body)
    (told,) = (each for each in logs if each["event"] == "ticket created")
    assert (told["unit"], told["uses"], told["label"]) == ("demo", ["http", "exec"], "for ann")
    assert answer.data["ticket"].split(".")[1] not in str(logs)
    assert "enter" not in str(logs)


REFUSED: Final = {
    "no gateway": (NO_GATEWAY, RING, {"uses": ["exec"]}, "gateway_off"),
    "no keys": (GATEWAY, None, {"uses": ["exec"]}, "gateway_off"),
    "an unknown port": (GATEWAY, RING, {"uses": ["http"], "port": 81}, "port_unknown"),
    "no exec": (
        attrs.evolve(GATEWAY, has_exec=False),
        RING,
        {"uses": ["exec"]},
        "exec_off",
    ),
}


@pytest.mark.parametrize(("gateway", "ring", "body", "code"), REFUSED.values(), ids=REFUSED)
async def test_what_cannot_be_reached_is_409(
    gateway: GatewayOptions, ring: KeyRing | None, body: object, code: str
) -> None:
    async with served(gateway=gateway, ring=ring) as api:
        answer = await ask(api, TICKETS, body)
        assert (answer.status, answer.code) == (409, code)


async def test_a_suspended_unit_gets_its_ticket_all_the_same() -> None:
    async with served() as api:
        await change(api, suspended=True)
        assert (await ask(api, TICKETS, {"uses": ["exec"]})).status == 201


async def test_an_unknown_unit_is_404_even_without_a_gateway() -> None:
    async with served(gateway=NO_GATEWAY) as api:
        for path in ("tickets", "tickets/revoke", "wake"):
            body = {"uses": ["exec"]} if path == "tickets" else None
            answer = await ask(api, f"{UNITS}/none/{path}", body)
            assert (answer.status, answer.code) == (404, "gpuunit_not_found"), path


# Status of tickets, revoke and wake for each caller of mode token.
ROLES: Final = {
    "root": (201, 200, 202),
    "blue": (201, 200, 202),
    "green": (404, 404, 404),
    "screen": (403, 403, 403),
    "blue-screen": (403, 403, 403),
    "unknown": (401, 401, 401),
}


@pytest.mark.parametrize(("who", "expected"), ROLES.items(), ids=ROLES)
async def test_tickets_are_for_those_who_may_change_the_unit(
    who: str, expected: tuple[int, ...]
) -> None:
    async with served(guard=TokenGuard(lambda: TABLE), wake=True) as api:
        answers = [await ask(api, TICKETS, {"uses": [use]}, who) for use in ("exec", "forward")]
        assert {each.status for each in answers} == {expected[0]}
        assert (await ask(api, REVOKE, None, who)).status == expected[1]
        assert (await ask(api, WAKE, None, who)).status == expected[2]


TICKETS_RIGHT: Final = ("ann", "create", "gpuunits/tickets", INSTANCE)
EXEC_RIGHT: Final = ("ann", "create", "gpuunits/exec", INSTANCE)
UPDATE_RIGHT: Final = ("ann", "update", "gpuunits", INSTANCE)
# Rights in the cluster, and the status of http, exec, ssh, http beside exec, revoke and wake.
CLUSTER: Final = {
    "no right": (set(), (403, 403, 403, 403, 403, 403)),
    "tickets": ({TICKETS_RIGHT}, (201, 403, 403, 403, 200, 403)),
    "exec alone": ({EXEC_RIGHT}, (403, 403, 403, 403, 403, 403)),
    "both": ({TICKETS_RIGHT, EXEC_RIGHT}, (201, 201, 201, 201, 200, 403)),
    "update": ({UPDATE_RIGHT}, (403, 403, 403, 403, 403, 202)),
}


@pytest.mark.parametrize(("rights", "expected"), CLUSTER.values(), ids=CLUSTER)
async def test_the_cluster_judges_tickets_and_exec_each_by_a_right_of_its_own(
    rights: set[tuple[str, str, str, str]], expected: tuple[int, ...]
) -> None:
    reviews = Reviews(tokens={("good", "gpuruntime"): "ann"}, rights=rights)
    guard = KubernetesGuard(
        Client(reviews), audience="gpuruntime", namespaces=configured(Namespaces)
    )
    async with served(guard=guard, wake=True) as api:
        uses: list[list[str]] = [["http"], ["exec"], ["ssh"], ["http", "exec"]]
        bodies = [{"uses": each, **({"port": 8080} if "http" in each else {})} for each in uses]
        found = [(await ask(api, TICKETS, body, "good")).status for body in bodies]
        found += [(await ask(api, path, None, "good")).status for path in (REVOKE, WAKE)]
        assert tuple(found) == expected


async def test_a_revocation_ends_the_tickets_of_before_and_no_later_ones() -> None:
    async with served() as api:
        before = (await ask(api, TICKETS, {"uses": ["forward"]})).data["ticket"]
        revoked = await ask(api, REVOKE)
        assert (revoked.status, revoked.data["access"]["generation"]) == (200, 1)
        after = (await ask(api, TICKETS, {"uses": ["forward"]})).data["ticket"]
        target = Target(uid=await uid_of(api), generation=1, use=Use.FORWARD, port=8080)
        now = clock().timestamp()
        assert [
            refusal_of(verify(each, TokenType.TICKET, RING, now), target)
            for each in (before, after)
        ] == [Refusal.REVOKED, None]


async def test_a_revocation_whose_answer_was_lost_raises_the_generation_once() -> None:
    async with served() as api:
        api.replica.transport.on("PUT", "demo", ANSWER_LOST)
        assert (await ask(api, REVOKE)).data["access"]["generation"] == 1


async def test_a_revocation_keeps_everything_else_of_the_unit() -> None:
    async with served(wake=True, scheme="https") as api:
        before = (await api.call("GET", DEMO)).data
        after = (await ask(api, REVOKE)).data
        assert after["access"] == {**before["access"], "generation": 1}
        assert {**after, "access": 0, "generation": 0} == {
            **before,
            "access": 0,
            "generation": 0,
        }


async def test_waking_resumes_a_unit_that_allows_it_and_writes_once() -> None:
    async with served(wake=True) as api:
        await change(api, suspended=True)
        woken = await ask(api, WAKE)
        assert (woken.status, woken.data["suspended"]) == (202, False)
        writes = len(api.replica.transport.written())
        assert (await ask(api, WAKE)).status == 202
        assert len(api.replica.transport.written()) == writes


async def test_tickets_and_wakes_are_events_of_their_unit_which_show_no_ticket() -> None:
    told: list[tuple[str, Note]] = []

    def record(unit: GPUUnit, note: Note) -> None:
        told.append((unit.metadata.name, note))

    async with served(guard=TokenGuard(lambda: TABLE), wake=True, record=record) as api:
        body = {"uses": ["http"], "port": "http", "label": "from ci"}
        ticket = (await ask(api, TICKETS, body, "blue")).data["ticket"]
        assert (await ask(api, TICKETS, {**body, "port": "ssh"}, "blue")).status == 409
        root = {"Authorization": "Bearer root"}
        await api.call("PUT", DEMO, {"suspended": True}, headers=root)
        for _ in range(2):
            bearer = word(uid=await uid_of(api))
            assert (await ask(api, WAKE, who=bearer)).status == 202
        await api.call("PUT", DEMO, {"suspended": True}, headers=root)
        assert (await ask(api, WAKE, who="root")).status == 202
    assert told == [
        ("demo", Note("SessionOpened", "blue has a ticket for http (from ci)")),
        (
            "demo",
            Note(
                "SessionRefused",
                "blue gets no ticket: unit demo declares no TCP port ssh",
                is_warning=True,
            ),
        ),
        ("demo", Note("Woken", "a request to the gateway has resumed the unit")),
        ("demo", Note("Woken", "root has resumed the unit")),
    ]
    assert ticket not in str(told)


async def test_waking_a_unit_that_does_not_allow_it_is_409_and_changes_nothing() -> None:
    async with served() as api:
        await change(api, suspended=True)
        answer = await ask(api, WAKE)
        assert (answer.status, answer.code) == (409, "wake_off")
        assert (await api.call("GET", DEMO)).data["suspended"] is True


async def test_the_gateways_wake_token_resumes_its_unit_and_does_nothing_else() -> None:
    async with served(guard=TokenGuard(lambda: TABLE), wake=True) as api:
        headers = {"Authorization": "Bearer root"}
        await api.call("PUT", DEMO, {"suspended": True}, headers=headers)
        token = word(uid=await uid_of(api))
        for path, body in ((TICKETS, {"uses": ["exec"]}), (REVOKE, None)):
            assert (await ask(api, path, body, token)).status == 401
        for method in ("GET", "DELETE"):
            answer = await api.call(method, DEMO, headers={"Authorization": f"Bearer {token}"})
            assert answer.status == 401
        woken = await ask(api, WAKE, None, token)
        assert (woken.status, woken.data["suspended"]) == (202, False)


TOKENS: Final = {
    "a wake token of another incarnation": (TokenType.WAKE, "77aa", 0, 404),
    "an expired wake token": (TokenType.WAKE, "", 60, 401),
    "a ticket": (TokenType.TICKET, "", 0, 401),
    "a session": (TokenType.SESSION, "", 0, 401),
    "an entry": (TokenType.ENTRY, "", 0, 401),
}


@pytest.mark.parametrize(("kind", "uid", "age", "status"), TOKENS.values(), ids=TOKENS)
async def test_nothing_but_a_valid_wake_token_of_the_unit_wakes_it(
    kind: TokenType, uid: str, age: int, status: int
) -> None:
    async with served(guard=TokenGuard(lambda: TABLE), wake=True) as api:
        headers = {"Authorization": "Bearer root"}
        await api.call("PUT", DEMO, {"suspended": True}, headers=headers)
        token = word(kind, uid or await uid_of(api), age=age)
        assert (await ask(api, WAKE, None, token)).status == status
        assert (await api.call("GET", DEMO, headers=headers)).data["suspended"] is True


async def test_wake_tokens_of_one_unit_do_not_use_up_the_rate_of_others() -> None:
    few = Limits(per_second=0.001, burst=2, at_once=2)
    async with served(guard=TokenGuard(lambda: TABLE), wake=True, limits=few) as api:
        other, own = word(uid="77aa"), word(uid=await uid_of(api))
        statuses = [(await ask(api, WAKE, None, token)).status for token in [other] * 3 + [own]]
    assert statuses == [404, 404, 429, 202]


async def test_a_wake_token_counts_for_nothing_without_keys() -> None:
    async with served(guard=TokenGuard(lambda: TABLE), wake=True, ring=None) as api:
        assert (await ask(api, WAKE, None, word(uid=await uid_of(api)))).status == 401


async def test_a_page_of_another_origin_creates_no_ticket_and_wakes_nothing() -> None:
    async with served(wake=True) as api:
        for path, body in ((TICKETS, {"uses": ["exec"]}), (REVOKE, None), (WAKE, None)):
            answer = await ask(api, path, body, Origin="https://evil.example")
            assert answer.status == 403, path
