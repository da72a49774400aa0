"""Tickets of four tenants at all their units, ports and uses, by every presentation."""

import asyncio
import base64
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import attrs
import pytest
from aiohttp import web

from gpuruntime.gateway.app import Gateway
from gpuruntime.gateway.errors import GatewayError
from gpuruntime.gateway.ssh.logins import Logins
from gpuruntime.models.kinds.templates import Port
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.requests.tickets import Use
from gpuruntime.settings.gateway import GatewaySettings
from gpuruntime.tickets.addresses import ENTER, PROGRAMS
from gpuruntime.tickets.tokens import TokenType
from tests.rooms.gateway.places import (
    UNDECLARED,
    Answer,
    Place,
    answer,
    places_of,
    whole_gateway,
)
from tests.rooms.gateway.service import (
    DOMAIN,
    Caller,
    World,
    gateway,
    host_of,
    service_of,
    upstream,
)
from tests.rooms.gateway.visitors import NOW, PORTS, gate_of, ticket, unit

UNITS: Final = tuple(unit(f"{tenant}-{number}") for tenant in "abcd" for number in range(2))
NOBODY: Final = unit("nobody")
ADDRESSES: Final = {each.metadata.uid: f"10.96.0.{n}" for n, each in enumerate(UNITS, 1)}


@attrs.frozen(kw_only=True)
class Pass:
    """A ticket is for a unit, a use, and a port if it is bound to one."""

    owner: GPUUnit
    use: Use
    port: int | None = None

    def token(self, kind: TokenType = TokenType.TICKET) -> str:
        until = int(NOW.timestamp()) + 900 if kind is TokenType.ENTRY else None
        jti = f"{self.owner.metadata.uid}-{self.use}-{self.port}"
        return ticket(self.owner, kind, jti=jti, use=(self.use,), port=self.port, until=until)

    def opens(self, place: Place, of: GPUUnit) -> bool:
        is_declared = place.use is not Use.HTTP or place.port in {each.port for each in PORTS}
        is_its_port = self.port in (None, place.port)
        return of is self.owner and place.use is self.use and is_its_port and is_declared


def passes_of(owner: GPUUnit) -> Iterator[Pass]:
    yield Pass(owner=owner, use=Use.HTTP, port=8080)
    yield Pass(owner=owner, use=Use.FORWARD, port=8080)
    yield Pass(owner=owner, use=Use.FORWARD)
    yield Pass(owner=owner, use=Use.EXEC)
    yield Pass(owner=owner, use=Use.SSH)


def basic(password: str) -> str:
    return base64.b64encode(f"demo:{password}".encode()).decode()


# Returns the headers that present the pass.
Present = Callable[[Pass], dict[str, str]]
PRESENTATIONS: Final[dict[str, Present]] = {
    "Bearer": lambda each: {"Authorization": f"Bearer {each.token()}"},
    "sub-protocol": lambda each: {
        "Sec-WebSocket-Protocol": f"v5.channel.k8s.io, gpuruntime.ticket.{each.token()}"
    },
}
SESSION: Final[Present] = lambda each: {  # noqa: E731 - beside the other presentations
    "Cookie": f"a=b; __Host-gpuruntime={each.token(TokenType.SESSION)}",
    "Sec-Fetch-Site": "same-origin",
}
# No ticket counts like this; the code is the one at any place.
NOWHERE: Final[dict[str, tuple[Present, str]]] = {
    "nothing": (lambda _: {}, "ticket_missing"),
    "Basic": (
        lambda each: {"Authorization": f"Basic {basic(each.token())}"},
        "ticket_missing",
    ),
    "no scheme": (lambda each: {"Authorization": each.token()}, "ticket_missing"),
    "the proxy's header": (
        lambda each: {"Proxy-Authorization": f"Bearer {each.token()}"},
        "ticket_missing",
    ),
    "a header of its own": (lambda each: {"X-Gpuruntime-Ticket": each.token()}, "ticket_missing"),
    "another cookie": (lambda each: {"Cookie": f"ticket={each.token()}"}, "ticket_missing"),
    "the cookie of plain HTTP": (
        lambda each: {"Cookie": f"gpuruntime={each.token(TokenType.SESSION)}"},
        "ticket_missing",
    ),
    "the cookie in other letters": (
        lambda each: {"Cookie": f"__host-gpuruntime={each.token(TokenType.SESSION)}"},
        "ticket_missing",
    ),
    "a sub-protocol without its prefix": (
        lambda each: {"Sec-WebSocket-Protocol": each.token()},
        "ticket_missing",
    ),
    "a session as Bearer": (
        lambda each: {"Authorization": f"Bearer {each.token(TokenType.SESSION)}"},
        "ticket_refused",
    ),
    "an entry as Bearer": (
        lambda each: {"Authorization": f"Bearer {each.token(TokenType.ENTRY)}"},
        "ticket_refused",
    ),
    "a session as sub-protocol": (
        lambda each: {
            "Sec-WebSocket-Protocol": f"gpuruntime.ticket.{each.token(TokenType.SESSION)}"
        },
        "ticket_refused",
    ),
}


@attrs.frozen
class Scene:
    world: World
    gateway: Gateway

    async def ask(self, place: Place, headers: dict[str, str], query: str = "") -> Answer:
        mark = "&" if "?" in place.path else "?"
        path = f"{place.path}{mark}{query}" if query else place.path
        return await answer(self.gateway, place.host, path, headers)

    def reached(self) -> list[tuple[str, int]]:
        """Return the addresses that were reached since the last look."""
        found = list(self.world.mapped)
        self.world.mapped.clear()
        return found


@asynccontextmanager
async def scene(*units: GPUUnit) -> AsyncIterator[Scene]:
    world = World(GatewaySettings(publicURL=f"https://*.{DOMAIN}", plainHosts=True))
    for each in units:
        world.put(each)
        world.serve(each, service_of(each, address=ADDRESSES.get(each.metadata.uid, "10.97.0.1")))
    async with asyncio.TaskGroup() as tasks:
        pools = tasks.create_task(world.context.upstreams.run())
        yield Scene(world, whole_gateway(world))
        pools.cancel()


def is_let_in(place: Place, given: Answer) -> bool:
    """Return whether the request passed the gate: only then it fails for want of a server."""
    if place.use is Use.HTTP:
        return (given.status, given.code) == (502, "upstream_fault")
    return given.status == 400 and b"this path is a WebSocket" in given.body


async def test_exactly_the_owners_pass_by_every_presentation() -> None:
    async with scene(*UNITS) as at:
        let_in: Counter[tuple[str, Use]] = Counter()
        refused: Counter[tuple[int, str, str]] = Counter()
        for each in (each for owner in UNITS for each in passes_of(owner)):
            for of in (*UNITS, NOBODY):
                for place in places_of(of):
                    found = (
                        {**PRESENTATIONS, "cookie": SESSION} if place.is_origin else PRESENTATIONS
                    )
                    for name, present in found.items():
                        given = await at.ask(place, present(each))
                        reached = at.reached()
                        if is_let_in(place, given):
                            assert each.opens(place, of), (name, each, place)
                            let_in[name, place.use] += 1
                            its = [(ADDRESSES[of.metadata.uid], place.port)]
                            assert reached == (its if place.use is Use.HTTP else [])
                        else:
                            assert not each.opens(place, of), (name, each, place, given)
                            refused[given.status, given.code, given.reason] += 1
                            assert reached == []
        count = len(UNITS)
        by_use = {Use.HTTP: 3, Use.FORWARD: 1 + 3, Use.EXEC: 2, Use.SSH: 1}
        assert let_in == {
            **{(name, use): count * by_use[use] for name in PRESENTATIONS for use in by_use},
            ("cookie", Use.HTTP): count * 2,
            ("cookie", Use.EXEC): count,
        }
        assert {key[:2] for key in refused} == {(403, "ticket_refused")}
        assert {reason for *_, reason in refused} == {"unit", "use", "port"}
        assert refused.total() > 9_000


@pytest.mark.parametrize(("present", "code"), NOWHERE.values(), ids=NOWHERE)
async def test_a_ticket_of_the_unit_counts_nowhere_else(present: Present, code: str) -> None:
    async with scene(*UNITS) as at:
        owner = UNITS[0]
        for each in passes_of(owner):
            for place in places_of(owner):
                given = await at.ask(place, present(each))
                assert given.code == code, (place, given)
        assert at.reached() == []


@pytest.mark.parametrize("name", ["ticket", "access_token", "token", "gpuruntime"])
async def test_a_ticket_in_a_query_counts_at_the_entrance_alone(name: str) -> None:
    async with scene(*UNITS) as at:
        owner = UNITS[0]
        for each in passes_of(owner):
            for place in places_of(owner):
                for kind in TokenType:
                    given = await at.ask(place, {}, f"{name}={each.token(kind)}")
                    # A forward takes one parameter, whatever is presented beside it.
                    is_faulty = place.use is Use.FORWARD
                    assert given.code == ("invalid_request" if is_faulty else "ticket_missing")
                    assert not is_let_in(place, given)
        assert at.reached() == []


async def test_a_browsers_session_is_no_pass_of_programs() -> None:
    async with scene(*UNITS) as at:
        owner = UNITS[0]
        for each in passes_of(owner):
            for place in (place for place in places_of(owner) if not place.is_origin):
                assert (await at.ask(place, SESSION(each))).code == "ticket_missing"
                as_ticket = {"Cookie": f"__Host-gpuruntime={each.token()}"}
                assert (await at.ask(place, as_ticket)).code == "ticket_missing"


async def test_exactly_the_owners_enter_and_by_an_entry_alone() -> None:
    async with scene(*UNITS) as at:
        entered = 0
        for each in (each for owner in UNITS for each in passes_of(owner)):
            for of in (*UNITS, NOBODY):
                for place in (place for place in places_of(of) if place.is_origin):
                    door = attrs.evolve(place, path=ENTER)
                    for kind in TokenType:
                        given = await at.ask(door, {}, f"ticket={each.token(kind)}")
                        if given.status == 303:
                            assert kind is TokenType.ENTRY
                            assert each.opens(place, of)
                            entered += 1
                        else:
                            # The hosts of a unit share its entries, which count once.
                            is_used = given.reason == "expired"
                            assert (
                                not each.opens(place, of) or kind is not TokenType.ENTRY or is_used
                            )
                            assert (given.status, given.code) == (403, "ticket_refused")
        # Each unit has an entry for its port and one for its terminal.
        assert entered == 2 * len(UNITS)


STATES: Final = {
    "running": {},
    "suspended": {"suspended": True},
    "suspended, and to be woken": {"suspended": True, "wake": True},
    "revoked": {"generation": 7},
    "without ports": {"ports": ()},
    "with other ports": {"ports": (Port(name="web", port=UNDECLARED),)},
}


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
async def test_a_unit_of_another_tenant_is_answered_like_one_that_does_not_exist(
    state: dict[str, object],
) -> None:
    mine, theirs = UNITS[0], unit("b-0", **state)  # type: ignore[arg-type]  # rows of a table
    async with scene(mine, theirs) as at:
        given = (*PRESENTATIONS.values(), SESSION, *(present for present, _ in NOWHERE.values()))
        for each in passes_of(mine):
            for place, nowhere in zip(places_of(theirs), places_of(NOBODY), strict=True):
                for present in given:
                    found = await at.ask(place, present(each))
                    assert found == await at.ask(nowhere, present(each))
                    assert theirs.metadata.name.encode() not in found.body
                doors = [
                    attrs.evolve(one, path=ENTER) for one in (place, nowhere) if one.is_origin
                ]
                query = f"ticket={each.token(TokenType.ENTRY)}"
                assert len({await at.ask(door, {}, query) for door in doors}) <= 1
        assert at.reached() == []


def test_exactly_the_owners_tickets_are_passwords_of_ssh() -> None:
    logins = Logins(gate_of(*UNITS), now=lambda: NOW, longest_seconds=60)

    def outcome(user: str, password: str) -> tuple[str, str]:
        try:
            return "let in", logins.by_ticket(user, password).uid
        except GatewayError as error:
            return error.code, error.reason

    counts: Counter[str] = Counter()
    for each in (each for owner in UNITS for each in passes_of(owner)):
        for of in (*UNITS, NOBODY):
            for kind in TokenType:
                found = outcome(of.metadata.name, each.token(kind))
                if kind is not TokenType.TICKET:
                    assert found == ("ticket_refused", "invalid")
                elif of is not each.owner:
                    assert found == ("ticket_refused", "unit")
                elif each.use is not Use.SSH:
                    assert found == ("ticket_refused", "use")
                else:
                    assert found == ("let in", of.metadata.uid)
                counts[found[0]] += 1
    assert counts["let in"] == len(UNITS)


async def test_over_sockets_a_tenant_receives_bytes_of_its_own_unit_alone() -> None:
    ports = {f"{tenant}-0": 8080 + number for number, tenant in enumerate("abcd")}
    mine = [unit(name, ports=(Port(name="http", port=port),)) for name, port in ports.items()]
    answered: Counter[tuple[bool, int, bool]] = Counter()
    async with AsyncExitStack() as opened:
        caller = await opened.enter_async_context(gateway(None, *mine))
        for name, port in ports.items():

            async def say(_: web.Request, name: str = name) -> web.Response:
                return web.Response(text=f"I am {name}")

            place = await opened.enter_async_context(upstream(say))
            caller.world.places[port] = ("127.0.0.1", place)
        for owner in mine:
            each = Pass(owner=owner, use=Use.HTTP, port=ports[owner.metadata.name])
            presented = [present(each) for present in PRESENTATIONS.values()]
            browser = {"Cookie": await cookie_of(caller, each)}
            for of in (*mine, NOBODY):
                port = ports.get(of.metadata.name, 8080)
                asked = [(host_of(of, str(port)), "/", given) for given in (*presented, browser)]
                path = f"/units/{of.metadata.name}/ports/{port}/"
                asked += [(f"{PROGRAMS}.{DOMAIN}", path, given) for given in presented]
                for host, path, headers in asked:
                    async with caller.request(path=path, host=host, headers=headers) as got:
                        is_its = await got.text() == f"I am {owner.metadata.name}"
                        answered[of is owner, got.status, is_its] += 1
    assert answered == {
        (True, 200, True): 5 * len(mine),
        (False, 403, False): 5 * len(mine) * len(mine),
    }


async def cookie_of(caller: Caller, each: Pass) -> str:
    """Enter with an entry of the pass, and return the cookie of its session."""
    path = f"{ENTER}?ticket={each.token(TokenType.ENTRY)}"
    async with caller.request(path=path, host=host_of(each.owner, str(each.port))) as got:
        assert got.status == 303
        return str(got.headers["Set-Cookie"]).partition(";")[0]
