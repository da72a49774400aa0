"""Exactly the bearers of a token for the unit, its use, its port and this moment are admitted."""

from datetime import timedelta
from typing import Any

import attrs
import pytest

from gpuruntime.gateway.errors import Code, GatewayError
from gpuruntime.gateway.gate import Presented, Visitor, Wanted, demand_reachable
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.requests.tickets import Use
from gpuruntime.tickets.addresses import slug_of
from gpuruntime.tickets.keys import KeyRing, TicketKey
from gpuruntime.tickets.tokens import TokenType
from tests.rooms.gateway.visitors import (
    NOW,
    RING,
    claims,
    gate_of,
    http,
    presented,
    ticket,
    unit,
)

DEMO, OTHER = unit("demo"), unit("other")
SLUG = slug_of("demo", DEMO.metadata.uid)
SECOND = int(NOW.timestamp())


def outcome(
    asked: Wanted, *units: GPUUnit, token: Presented, age: float = 0.0, ring: KeyRing | None = RING
) -> Visitor | tuple[Code, str]:
    try:
        visitor = gate_of(*units, age=age, ring=ring).recognize(token, asked)
        demand_reachable(visitor.unit)
    except GatewayError as error:
        return error.code, error.reason
    return visitor


@pytest.mark.parametrize(
    ("asked", "port"),
    [
        pytest.param(http(), 8080, id="by name and number"),
        pytest.param(http(port="http"), 8080, id="by the port's name"),
        pytest.param(Wanted(use=Use.HTTP, slug=SLUG, port="8080"), 8080, id="by slug"),
        pytest.param(Wanted(use=Use.EXEC, name="demo"), None, id="exec needs no port"),
        pytest.param(
            Wanted(use=Use.FORWARD, name="demo", port="8080", only_declared=False),
            8080,
            id="forward to the port of the ticket",
        ),
    ],
)
def test_a_ticket_reaches_its_unit(asked: Wanted, port: int | None) -> None:
    visitor = outcome(asked, DEMO, OTHER, token=presented(DEMO))
    assert visitor == Visitor(claims=claims(DEMO), unit=DEMO, use=asked.use, port=port)


def test_a_ticket_for_no_port_forwards_to_any() -> None:
    asked = Wanted(use=Use.FORWARD, name="demo", port="5000", only_declared=False)
    visitor = outcome(asked, DEMO, token=presented(DEMO, port=None))
    assert isinstance(visitor, Visitor)
    assert visitor.port == 5000


NOTHING = Presented(kind=TokenType.TICKET)
AGAIN = unit("demo", uid="another-uid")


@pytest.mark.parametrize(
    ("asked", "units", "token", "code", "reason"),
    [
        pytest.param(http(), (DEMO,), NOTHING, "ticket_missing", "", id="no ticket"),
        pytest.param(
            http("none"), (DEMO,), NOTHING, "ticket_missing", "", id="no ticket, and no unit"
        ),
        pytest.param(
            http(), (DEMO,), presented(OTHER), "ticket_refused", "unit", id="another unit's"
        ),
        pytest.param(
            http("none"),
            (DEMO,),
            presented(DEMO),
            "ticket_refused",
            "unit",
            id="for a unit that does not exist, like one that does",
        ),
        pytest.param(
            http(), (OTHER,), presented(DEMO), "unit_unknown", "", id="its own unit is gone"
        ),
        pytest.param(
            http(), (AGAIN,), presented(DEMO), "ticket_refused", "unit", id="created again"
        ),
        pytest.param(
            Wanted(use=Use.HTTP, slug=slug_of("demo", "another-uid"), port="8080"),
            (AGAIN,),
            presented(DEMO),
            "ticket_refused",
            "unit",
            id="the slug of a unit that was created again",
        ),
        pytest.param(
            http(),
            (unit(generation=1),),
            presented(DEMO),
            "ticket_refused",
            "revoked",
            id="revoked",
        ),
        pytest.param(
            http(),
            (DEMO,),
            presented(DEMO, use=(Use.EXEC,)),
            "ticket_refused",
            "use",
            id="another use",
        ),
        pytest.param(
            http(port="9100"),
            (DEMO,),
            presented(DEMO),
            "ticket_refused",
            "port",
            id="another port",
        ),
        pytest.param(
            http(port="5000"),
            (DEMO,),
            presented(DEMO, port=5000),
            "ticket_refused",
            "port",
            id="a port that is not declared any more",
        ),
        pytest.param(
            http(port="5000"),
            (DEMO,),
            presented(DEMO, port=None),
            "ticket_refused",
            "port",
            id="a port that is not declared, with a ticket for no port",
        ),
        pytest.param(
            http(),
            (DEMO,),
            presented(DEMO, exp=SECOND),
            "ticket_refused",
            "expired",
            id="expired now",
        ),
        pytest.param(
            http(),
            (unit(suspended=True),),
            presented(DEMO),
            "unit_suspended",
            "",
            id="a suspended unit",
        ),
        pytest.param(
            http(),
            (attrs.evolve(DEMO, metadata=attrs.evolve(DEMO.metadata, deletionTimestamp=NOW)),),
            presented(DEMO),
            "unit_unknown",
            "",
            id="a unit that is being deleted",
        ),
    ],
)
def test_others_are_refused(
    asked: Wanted, units: tuple[GPUUnit, ...], token: Presented, code: str, reason: str
) -> None:
    assert outcome(asked, *units, token=token) == (code, reason)


@pytest.mark.parametrize("kind", TokenType)
@pytest.mark.parametrize("place", TokenType)
def test_a_token_counts_only_where_its_type_belongs(kind: TokenType, place: TokenType) -> None:
    token = Presented(kind=place, token=ticket(DEMO, kind))
    found = outcome(http(), DEMO, token=token)
    assert isinstance(found, Visitor) == (kind is place)
    if kind is not place:
        assert found == ("ticket_refused", "invalid")


def test_a_token_of_another_key_or_of_none_is_refused() -> None:
    other = KeyRing((TicketKey(id="k1", secret=b"2" * 32),))
    assert outcome(http(), DEMO, token=presented(DEMO), ring=other) == (
        "ticket_refused",
        "invalid",
    )
    assert outcome(http(), DEMO, token=presented(DEMO), ring=None) == ("service_unavailable", "")


@pytest.mark.parametrize(
    ("age", "is_known"), [(0.0, True), (60.0, True), (60.1, False), (float("inf"), False)]
)
def test_nobody_is_admitted_while_revocations_are_unknown(age: float, is_known: bool) -> None:
    found = outcome(http(), DEMO, token=presented(DEMO), age=age)
    assert isinstance(found, Visitor) == is_known
    if not is_known:
        assert found == ("revocation_unknown", "")


def test_pairs_of_units_uses_and_ports_admit_exactly_what_the_ticket_is_for() -> None:
    units = [unit(f"{tenant}-{number}") for tenant in "abcd" for number in range(2)]
    gate = gate_of(*units)
    wishes: list[Wanted] = []
    for each in units:
        name, slug = each.metadata.name, slug_of(each.metadata.name, each.metadata.uid)
        for use in Use:
            port = "8080" if use in (Use.HTTP, Use.FORWARD) else ""
            wishes += [
                Wanted(use=use, name=name, port=port),
                Wanted(use=use, slug=slug, port=port),
            ]
            wishes += [Wanted(use=use, name=name, port="9100")] if port else []
    passed: list[Any] = []
    statuses: set[int] = set()
    for owner in units:
        for use in Use:
            token = presented(owner, use=(use,))
            for asked in wishes:
                try:
                    visitor = gate.recognize(token, asked)
                except GatewayError as error:
                    statuses.add(error.status)
                else:
                    passed.append((owner.metadata.uid, use, visitor.uid, asked.use, visitor.port))
    assert statuses == {403}
    assert len(passed) == len(units) * len(Use) * 2
    assert all(mine == found and use == asked for mine, use, found, asked, _ in passed)
    assert {port for *_, port in passed} == {8080, None}


def test_a_session_ends_with_its_time() -> None:
    late = NOW + timedelta(seconds=899)
    gate = gate_of(DEMO)
    session = presented(DEMO, TokenType.SESSION, exp=int(late.timestamp()))
    assert gate.recognize(session, http()).claims.exp == int(late.timestamp())
