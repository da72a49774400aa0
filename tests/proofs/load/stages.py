"""The stages of the run: seed, claim, rest, delete. Each ends when no process writes any more."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any

import attrs

from tests.proofs.bench import unit_requests
from tests.proofs.bench.connections import Address
from tests.proofs.load import callers
from tests.proofs.load.callers import BurstResult, Request
from tests.proofs.load.mirrors import Mirrors
from tests.proofs.load.sampling import ObservedProcess
from tests.proofs.load.scrapes import read

OPERATOR = "/api/v1/operator"
POLL_SECONDS = 0.5
# Longer than any write of the product is delayed.
QUIET_SECONDS = 4.0
# Shares of the whole stock. The size of the first pool matters most.
SHARES = {"load.a": 0.7, "load.b": 0.2, "load.c": 0.1}
ENVELOPE = {"cpu": "10m", "memory": "16Mi", "gpu": 1}
REQUESTS = "gpuruntime_kube_requests_total"
WRITES = frozenset({"create", "patch", "replace", "delete"})
LEASES = "leases.coordination.k8s.io"


class TooSlowError(Exception):
    """An expected state was not reached within its time."""


@attrs.frozen(kw_only=True)
class Size:
    stock: int
    active: int
    callers: int
    rest_seconds: float

    @property
    def pools(self) -> dict[str, int]:
        """Return the size of each pool by its specName."""
        sizes = {name: int(share * self.stock) for name, share in SHARES.items()}
        first = next(iter(sizes))
        return {**sizes, first: sizes[first] + self.stock - sum(sizes.values())}

    @property
    def patience_seconds(self) -> float:
        """Return how long to wait for a state before the run fails."""
        return 120.0 + 0.1 * self.stock

    @property
    def claims(self) -> list[Request]:
        """Return the claims, their specNames mixed in the proportions of the stock."""
        names = [name for name, size in self.pools.items() for _ in range(size)]
        wanted = Random(0).sample(names, self.active)
        bodies = [
            unit_requests.order(unit_name(number), spec) for number, spec in enumerate(wanted)
        ]
        return [
            Request(method="POST", path=unit_requests.UNITS, body=json.dumps(body).encode())
            for body in bodies
        ]

    @property
    def deletions(self) -> list[Request]:
        """Return the deletions of every other unit."""
        names = [unit_name(number) for number in range(0, self.active, 2)]
        return [Request(method="DELETE", path=f"{unit_requests.UNITS}/{name}") for name in names]


@attrs.frozen
class Seeded:
    created_seconds: float
    ready_seconds: float


@attrs.frozen
class CompletedBurst:
    """A burst, and the seconds until the cluster showed the result of all its requests."""

    burst: BurstResult
    seconds: float


class Stages:
    def __init__(
        self,
        size: Size,
        apis: Sequence[Address],
        mirrors: Mirrors,
        product: Sequence[ObservedProcess],
    ) -> None:
        self._size = size
        self._apis = apis
        self._mirrors = mirrors
        self._product = product

    async def seed(self) -> Seeded:
        begun = time.perf_counter()
        for spec, replicas in self._size.pools.items():
            body = pool(spec, replicas)
            await callers.order(self._apis[0], f"{OPERATOR}/stockpools", body, status=202)
        await self._until("stock units created", self._stock("total"), self._size.stock)
        created = time.perf_counter() - begun
        await self._until("stock units ready", self._stock("available"), self._size.stock)
        ready = time.perf_counter() - begun
        await self.quiet()
        return Seeded(created, ready)

    async def claim(self) -> CompletedBurst:
        begun = time.perf_counter()
        done = await callers.send_burst(self._apis, self._size.claims, callers=self._size.callers)
        await self._until("units ready", self._active("ready"), self._size.active)
        seconds = time.perf_counter() - begun
        left = self._size.stock - self._size.active
        await self._until("stock units left", self._stock("total"), left)
        await self.quiet()
        return CompletedBurst(done, seconds)

    async def rest(self) -> None:
        await asyncio.sleep(self._size.rest_seconds)

    async def delete(self) -> CompletedBurst:
        begun, asked = time.perf_counter(), self._size.deletions
        done = await callers.send_burst(self._apis, asked, callers=self._size.callers)
        left = self._size.active - len(asked)
        await self._until("units left", self._active("total"), left)
        await self._until("Pods left", self._mirrors.active_pods, left)
        seconds = time.perf_counter() - begun
        await self.quiet()
        return CompletedBurst(done, seconds)

    async def quiet(self) -> None:
        """Wait until no process has written for QUIET_SECONDS."""
        since, known = time.perf_counter(), -1.0

        async def seconds() -> int:
            nonlocal since, known
            written = await self._written()
            if written != known:
                since, known = time.perf_counter(), written
            return int(time.perf_counter() - since >= QUIET_SECONDS)

        await self._until("processes that write nothing", seconds, 1)

    async def breaches(self) -> list[Any]:
        """Return the breaches, once the audit has found one or has no suspicion left."""
        found: list[Any] = []

        async def settled() -> int:
            audit = (await callers.ask(self._apis[0], f"{OPERATOR}/audit"))["data"]
            found[:] = audit["breaches"]
            return int(bool(found) or not audit["suspicions"])

        await self._until("audits that have ended", settled, 1)
        return found

    def _stock(self, state: str) -> Callable[[], Awaitable[int]]:
        return lambda: self._counted("stock", state)

    def _active(self, state: str) -> Callable[[], Awaitable[int]]:
        return lambda: self._counted("active", state)

    async def _counted(self, kind: str, state: str) -> int:
        data = (await callers.ask(self._apis[0], f"{OPERATOR}/inventory"))["data"]
        return sum(int(each[kind][state]) for each in data["specs"])

    async def _written(self) -> float:
        """Return the number of writes so far, without Leases: a leader renews its own forever."""
        samples = [await each.sample() for each in self._product]
        counted = [read(sample.text).by(REQUESTS, "verb", "resource") for sample in samples]
        return sum(
            count
            for each in counted
            for (verb, resource), count in each.items()
            if verb in WRITES and resource != LEASES
        )

    async def _until(self, what: str, count: Callable[[], Awaitable[int]], wanted: int) -> None:
        deadline = time.perf_counter() + self._size.patience_seconds
        while (seen := await count()) != wanted:
            if time.perf_counter() > deadline:
                seconds = self._size.patience_seconds
                raise TooSlowError(f"{what}: {seen}, not {wanted}, after {seconds:.0f} s")
            await asyncio.sleep(POLL_SECONDS)


def unit_name(number: int) -> str:
    return f"load-{number:05}"


def pool(spec: str, replicas: int) -> dict[str, Any]:
    """Return a pool that is never refilled, so that all numbers of the run stay fixed."""
    name = spec.replace(".", "-")
    return {
        "operationID": f"seed-{name}",
        "name": name,
        "specName": spec,
        "replicas": replicas,
        "refill": "Never",
        **ENVELOPE,
    }
