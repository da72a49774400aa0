"""10,000 mutations of tokens at every address of a unit: all refused, and none is a fault."""

from collections import Counter
from collections.abc import Iterator, Mapping
from random import Random
from typing import Final
from urllib.parse import quote

import attrs
import pytest
from structlog.testing import capture_logs

from gpuruntime.gateway.app import Gateway
from gpuruntime.gateway.errors import GatewayError
from gpuruntime.gateway.ssh.logins import Logins
from gpuruntime.settings.gateway import GatewaySettings
from gpuruntime.tickets.addresses import ENTER
from gpuruntime.tickets.tokens import TokenType
from tests.rooms.gateway.places import Answer, Place, answer, places_of, whole_gateway
from tests.rooms.gateway.service import DEMO, DOMAIN, World
from tests.rooms.gateway.visitors import NOW, gate_of, ticket

# A token of each type for every use and port of the unit, which would be let in as it is.
TOKENS: Final[Mapping[TokenType, str]] = {
    kind: ticket(DEMO, kind, port=None, until=int(NOW.timestamp()) + 900) for kind in TokenType
}
ALPHABET: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/ é%"
TIMES: Final = 10_000


def mutated(token: str, rng: Random) -> str:
    text = list(token)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(text))
        match rng.randrange(4):
            case 0:
                text[at] = rng.choice(ALPHABET)
            case 1:
                del text[at]
            case 2:
                text.insert(at, rng.choice(ALPHABET))
            case _:
                text[at : at + rng.randint(2, 40)] = []
    return "".join(text)


@attrs.frozen
class Way:
    """A place, and where a request to it presents a token; without a header, at the entrance."""

    place: Place
    kind: TokenType
    header: str
    prefix: str

    async def answer(self, gateway: Gateway, token: str) -> Answer:
        path = self.place.path if self.header else f"{ENTER}?ticket={quote(token)}"
        # A session counts for its own origin alone.
        headers = {"Sec-Fetch-Site": "same-origin"}
        if self.header:
            headers[self.header] = f"{self.prefix}{token}"
        return await answer(gateway, self.place.host, path, headers)


@pytest.fixture
def world() -> World:
    made = World(GatewaySettings(publicURL=f"https://*.{DOMAIN}", plainHosts=True))
    made.put(DEMO)
    made.serve(DEMO)
    return made


def ways_of(place: Place) -> Iterator[Way]:
    """Yield how a token of each type is presented at the place."""
    yield Way(place, TokenType.TICKET, "Authorization", "Bearer ")
    yield Way(place, TokenType.TICKET, "Sec-WebSocket-Protocol", "gpuruntime.ticket.")
    if place.is_origin:
        yield Way(place, TokenType.SESSION, "Cookie", "__Host-gpuruntime=")
        yield Way(place, TokenType.ENTRY, "", "")


WAYS: Final = tuple(way for place in places_of(DEMO) for way in ways_of(place))


async def test_no_mutated_token_passes_and_none_is_a_fault(world: World) -> None:
    rng, gateway = Random(7), whole_gateway(world)
    statuses: Counter[tuple[TokenType, int]] = Counter()
    with capture_logs() as logs:
        for _ in range(TIMES):
            way = rng.choice(WAYS)
            token = mutated(TOKENS[way.kind], rng)
            if token.strip() == TOKENS[way.kind]:
                continue
            given = await way.answer(gateway, token)
            statuses[way.kind, given.status] += 1
            assert token not in str(logs)
            assert token.encode() not in given.body
            logs.clear()
    assert statuses.total() > TIMES * 0.99
    # Nothing may be left of a token in a cookie or in a list of sub-protocols.
    assert {status for _, status in statuses} <= {401, 403}
    assert all(statuses[kind, 403] > TIMES * 0.05 for kind in {way.kind for way in WAYS})
    assert world.mapped == []


async def test_the_same_tokens_pass_as_they_are(world: World) -> None:
    """Refusals of mutations prove something only if the token itself is let in."""
    gateway = whole_gateway(world)
    is_entered = False
    for way in WAYS:
        given = await way.answer(gateway, TOKENS[way.kind])
        if way.kind is TokenType.ENTRY:
            # An entry counts once.
            assert given.status == (403 if is_entered else 303)
            is_entered = True
        else:
            assert given.status in (400, 502), (way, given)


def test_no_mutated_ticket_is_a_password_of_ssh() -> None:
    rng = Random(11)
    logins = Logins(gate_of(DEMO), now=lambda: NOW, longest_seconds=60)
    reasons: Counter[tuple[int, str]] = Counter()
    token = TOKENS[TokenType.TICKET]
    assert logins.by_ticket("demo", token).uid == DEMO.metadata.uid
    for _ in range(TIMES):
        if (given := mutated(token, rng)) == token:
            continue
        try:
            logins.by_ticket("demo", given)
        except GatewayError as error:
            reasons[error.status, error.reason] += 1
        else:
            reasons[200, ""] += 1
    assert reasons.keys() == {(403, "invalid")}
    assert reasons.total() > TIMES * 0.99
