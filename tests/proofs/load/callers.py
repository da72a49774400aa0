"""Callers of the product over keep-alive connections: many concurrent callers, or a single one."""

import json
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

import attrs

from tests.proofs.bench.connections import Address, Connection, connections
from tests.proofs.bench.unit_requests import spread


class RefusedError(Exception):
    """An answer with a status that a healthy product never gives here."""


@attrs.frozen(kw_only=True)
class Request:
    method: str
    path: str
    body: bytes = b""


@attrs.frozen
class ServedRequest:
    """Status and latency of one answered request."""

    status: int
    seconds: float


@attrs.frozen
class BurstResult:
    """The answers to all requests of a burst, and how long the whole burst took."""

    served: Sequence[ServedRequest]
    seconds: float

    @property
    def rate(self) -> float:
        return len(self.served) / self.seconds

    def refused(self, expected: int) -> int:
        statuses = Counter(each.status for each in self.served)
        return len(self.served) - statuses[expected]

    def slowest(self, share: float) -> float:
        """Return the number of seconds within which this share of the requests was answered."""
        ordered = sorted(each.seconds for each in self.served)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def send_burst(
    apis: Sequence[Address], requests: Sequence[Request], *, callers: int
) -> BurstResult:
    """Send all requests; each caller sends its next one as soon as the last one is answered."""
    served: list[ServedRequest] = []

    async def serve(connection: Connection, request: Request) -> None:
        begun = time.perf_counter()
        answer = await connection.send(request.method, request.path, request.body)
        served.append(ServedRequest(answer.status, time.perf_counter() - begun))

    async with AsyncExitStack() as stack:
        opened = [
            each
            for address in apis
            for each in await stack.enter_async_context(connections(address, callers // len(apis)))
        ]
        begun = time.perf_counter()
        await spread(opened, requests, serve)
        return BurstResult(served, time.perf_counter() - begun)


async def ask(address: Address, path: str) -> Any:
    return await _expect(address, Request(method="GET", path=path), 200)


async def order(address: Address, path: str, body: object, *, status: int) -> Any:
    request = Request(method="POST", path=path, body=json.dumps(body).encode())
    return await _expect(address, request, status)


async def _expect(address: Address, request: Request, status: int) -> Any:
    async with connections(address, 1) as (connection,):
        answer = await connection.send(request.method, request.path, request.body)
    if answer.status != status:
        what = f"{request.method} {request.path}: {answer.status}, not {status}"
        raise RefusedError(f"{what}: {answer.body[:500].decode(errors='replace')}")
    return answer.document
