"""10,000 mutations of one ticket through the gateway's handler: all refused, by none a fault."""

from collections import Counter
from random import Random
from typing import Final

from aiohttp.test_utils import make_mocked_request
from structlog.testing import capture_logs

from gpuruntime.gateway.app import Gateway, Handlers
from gpuruntime.settings.gateway import GatewaySettings
from tests.rooms.gateway.service import DEMO, DOMAIN, World, host_of
from tests.rooms.gateway.visitors import ticket

TICKET: Final = ticket(DEMO)
ALPHABET: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/ é%"
TIMES: Final = 10_000


def mutated(rng: Random) -> str:
    text = list(TICKET)
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


def headers_of(token: str, rng: Random) -> dict[str, str]:
    """Present the token in one of the four places of a ticket or a session."""
    match rng.randrange(3):
        case 0:
            return {"Authorization": f"Bearer {token}"}
        case 1:
            return {"Cookie": f"__Host-gpuruntime={token}"}
        case _:
            return {"Sec-WebSocket-Protocol": f"gpuruntime.ticket.{token}"}


async def test_no_mutated_ticket_passes_and_none_is_a_fault() -> None:
    rng = Random(7)
    world = World(GatewaySettings(publicURL=f"https://*.{DOMAIN}"))
    world.put(DEMO)
    world.serve(DEMO)
    gateway = Gateway(world.context, Handlers())
    statuses: Counter[int] = Counter()
    first = make_mocked_request("GET", "/")
    with capture_logs() as logs:
        for _ in range(TIMES):
            token = mutated(rng)
            request = first.clone(headers={"Host": host_of(), **headers_of(token, rng)})
            if token.strip() != TICKET:
                statuses[(await gateway.serve(request)).status] += 1
            assert token not in str(logs)
            logs.clear()
    assert statuses.total() > TIMES * 0.99
    assert statuses.keys() <= {401, 403}
    assert statuses[403] > TIMES * 0.9
    assert world.mapped == []
