"""Callers of a function that repeat each request until its outcome is certain."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Final

import aiohttp
import attrs

from tests.eventually import eventually
from tests.proofs.function_chain.function import demanded

ENDS: Final = frozenset({"succeeded", "failed", "expired", "cancelled", "dead_lettered"})
INVOCATIONS: Final = "/api/v1/serverless/invocations"
# Status codes after which the request is repeated: unknown, unavailable, or no room now.
PASSING: Final = frozenset({429, 503, 504})
PAUSE_SECONDS: Final = 0.2


@attrs.frozen(kw_only=True, slots=True)
class Ask:
    """An invocation as its caller wants it."""

    function: str
    name: str
    payload: Any
    mode: str = "async"
    life_seconds: int = 600

    @property
    def body(self) -> dict[str, Any]:
        return {
            "invocationID": self.name,
            "serverlessRequestID": self.function,
            "mode": self.mode,
            "payload": self.payload,
            "lifeSeconds": self.life_seconds,
        }


@attrs.frozen(slots=True)
class Reply:
    """An answer of the API; status 0 means that there was none."""

    status: int
    data: Any = None
    error: Any = None


class Calls:
    """Calls any replica of the API; `addresses` is evaluated for each attempt."""

    def __init__(
        self, session: aiohttp.ClientSession, addresses: Callable[[], list[str]], rng: Random
    ) -> None:
        self._session = session
        self._addresses = addresses
        self._rng = rng

    async def once(self, method: str, path: str, body: object = None) -> Reply:
        address = self._rng.choice(self._addresses())
        try:
            async with self._session.request(method, address + path, json=body) as response:
                document = await response.json() if response.status != 204 else {}
        except (aiohttp.ClientError, OSError, TimeoutError):
            return Reply(0)
        return Reply(response.status, document.get("data"), document.get("error"))

    async def accept(self, ask: Ask) -> Any:
        """Send the invocation and return the API's answer; a synchronous one is its end."""
        while True:
            reply = await self.once("POST", INVOCATIONS, ask.body)
            if reply.status in (200, 202):
                return reply.data
            assert reply.status in PASSING or not reply.status, (ask.name, reply)
            await asyncio.sleep(PAUSE_SECONDS)

    async def read(self, function: str, name: str) -> Any:
        path = f"{INVOCATIONS}/{name}?serverlessRequestID={function}"
        while True:
            reply = await self.once("GET", path)
            if reply.status == 200:
                return reply.data
            assert reply.status in PASSING or not reply.status, (name, reply)
            await asyncio.sleep(PAUSE_SECONDS)

    async def ended(self, function: str, name: str, *, within_seconds: float = 120.0) -> Any:
        """Poll until the invocation has ended, and return its view."""
        return await eventually(
            lambda: self.read(function, name),
            lambda view: view["state"] in ENDS,
            within_seconds=within_seconds,
            poll_seconds=PAUSE_SECONDS,
        )

    async def call(self, ask: Ask, *, within_seconds: float = 120.0) -> Any:
        """Send the invocation and wait for its end."""
        data = await self.accept(ask)
        if ask.mode == "sync" and data.get("state") in ENDS:
            return data
        return await self.ended(ask.function, ask.name, within_seconds=within_seconds)


@asynccontextmanager
async def calls(addresses: Callable[[], list[str]], rng: Random) -> AsyncIterator[Calls]:
    timeout = aiohttp.ClientTimeout(total=60)
    connector = aiohttp.TCPConnector(limit=200)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        yield Calls(session, addresses, rng)


def payload(number: int, rng: Random, *, seconds: float = 0.0) -> dict[str, Any]:
    """Return different invocations: some answers are long, some need a second attempt."""
    return {
        "number": number,
        "text": f"{number} {rng.randbytes(8).hex()} grüße",
        "seconds": seconds,
        "long": 200_000 if rng.random() < 0.01 else 0,
        "failures": int(rng.random() < 0.05),
    }


def assert_right(ask: Ask, view: Any) -> None:
    assert view["state"] == "succeeded", view
    assert view["body"] == demanded(ask.payload), ask.name
