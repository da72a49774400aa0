"""An entry enters once, for a minute, and becomes a session of one origin."""

from datetime import timedelta
from typing import Final

import pytest

from gpuruntime.gateway.sessions import UsedEntries
from gpuruntime.tickets.tokens import TokenType
from tests.rooms.gateway.service import DEMO, gateway, host_of, upstream
from tests.rooms.gateway.test_app import echo
from tests.rooms.gateway.visitors import NOW, ticket, unit

SECOND: Final = int(NOW.timestamp())


def entry(**changed: object) -> str:
    """Return an entry for a minute into a session of a quarter of an hour."""
    return ticket(DEMO, TokenType.ENTRY, **{"exp": SECOND + 60, "until": SECOND + 900, **changed})


def path_of(token: str, to: str = "%2F") -> str:
    return f"/.gpuruntime/enter?ticket={token}&to={to}"


async def test_an_entry_becomes_a_session_that_reaches_the_unit() -> None:
    async with upstream(echo) as port, gateway(port) as caller:
        async with caller.request("GET", path_of(entry(), "%2Flab%3Fa%3D1")) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "/lab?a=1")
            assert answer.headers["Server"] == "gpuruntime"
            assert answer.headers["Referrer-Policy"] == "no-referrer"
            assert answer.headers["Cache-Control"] == "no-store"
            cookie, *attributes = answer.headers["Set-Cookie"].split("; ")
        assert cookie.startswith("__Host-gpuruntime=")
        assert attributes == ["Path=/", "Max-Age=900", "HttpOnly", "SameSite=Lax", "Secure"]
        async with caller.request("GET", "/", headers={"Cookie": cookie}) as answer:
            assert answer.status == 200
        caller.world.now = NOW + timedelta(seconds=900)
        async with caller.request("GET", "/", headers={"Cookie": cookie}) as answer:
            assert (answer.status, (await answer.json())["error"]["reason"]) == (403, "expired")


async def test_over_plain_http_the_cookie_has_no_prefix() -> None:
    async with gateway(None, publicURL="http://*.localhost:8090") as caller:
        host = host_of().replace("units.example.com", "localhost:8090")
        async with caller.request("GET", path_of(entry()), host=host) as answer:
            cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith("gpuruntime=")
    assert "Secure" not in cookie


@pytest.mark.parametrize(
    ("to", "location"),
    [
        ("", "/"),
        ("%2F", "/"),
        ("%2Flab%2Ftree%3Fa%3D1%23x", "/lab/tree?a=1#x"),
        ("%2F%2Fevil.org", "/"),
        ("%2F%5Cevil.org", "/"),
        ("%2F%09%2Fevil.org", "/"),
        ("https%3A%2F%2Fevil.org", "/"),
        ("evil.org", "/"),
        ("%2Fa%0D%0ASet-Cookie%3A%20x", "/"),
        ("%2F%C3%A9", "/%C3%A9"),
    ],
)
async def test_a_browser_stays_within_the_origin(to: str, location: str) -> None:
    async with gateway(None) as caller, caller.request("GET", path_of(entry(), to)) as answer:
        assert (answer.status, answer.headers["Location"]) == (303, location)


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        pytest.param(entry(exp=SECOND), "expired", id="too late"),
        pytest.param(entry(until=None), "expired", id="into no session"),
        pytest.param(ticket(DEMO), "invalid", id="a ticket"),
        pytest.param(ticket(DEMO, TokenType.SESSION), "invalid", id="a session"),
        pytest.param(ticket(unit("other"), TokenType.ENTRY), "unit", id="another unit's"),
        pytest.param(entry(port=9100), "port", id="another port's"),
        pytest.param(entry(gen=-1), "revoked", id="revoked"),
    ],
)
async def test_other_tokens_do_not_enter(token: str, reason: str) -> None:
    async with gateway(None) as caller, caller.request("GET", path_of(token)) as answer:
        assert (answer.status, (await answer.json())["error"]["reason"]) == (403, reason)
        assert "Set-Cookie" not in answer.headers


async def test_an_entry_enters_once() -> None:
    async with gateway(None) as caller:
        token = entry()
        for status in (303, 403):
            async with caller.request("GET", path_of(token)) as answer:
                assert answer.status == status


async def test_the_gateways_own_paths_never_reach_the_unit() -> None:
    headers = {"Authorization": f"Bearer {ticket(DEMO)}"}
    async with upstream(echo) as port, gateway(port) as caller:
        async with caller.request("GET", "/.gpuruntime/other", headers=headers) as answer:
            assert answer.status == 404
        async with caller.request("POST", path_of(entry()), headers=headers) as answer:
            assert answer.status == 405
        assert caller.world.mapped == []


class Moment(float):
    """A time that counts how often any of its kind is compared."""

    compared = 0

    def __le__(self, other: float) -> bool:
        Moment.compared += 1
        return super().__le__(other)


def test_an_entry_counts_once_and_is_forgotten_when_it_expires() -> None:
    used = UsedEntries()
    assert [used.add("a", 60.0, 0.0), used.add("b", 61.0, 1.0), used.add("a", 60.0, 59.0)] == [
        True,
        True,
        False,
    ]
    assert used.add("c", 121.0, 61.0)
    assert len(used) == 1


def test_an_entry_looks_at_one_other_however_many_were_used() -> None:
    used = UsedEntries()
    for number in range(1000):
        used.add(str(number), Moment(60 + number), 0.0)
    before = Moment.compared
    used.add("one more", Moment(2000), 0.0)
    assert Moment.compared - before == 1
