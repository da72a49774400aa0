"""POST gpu-units beside the two writes it leads to: `python -m tests.proofs.bench.creating`.

There is one real control plane, and one api for each number of existing units. All are measured in
turns, so that other work on the machine affects all of them alike.
"""

import asyncio
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import AsyncExitStack
from itertools import count
from statistics import median, quantiles

import attrs

from gpuruntime.operations.options import Namespaces
from tests.options import configured
from tests.proofs.bench.connections import Address, Connection, connections
from tests.proofs.bench.product import address_of, health, prepared_plane, replica
from tests.proofs.bench.rows import Row
from tests.proofs.bench.unit_requests import Pair, add_stock, add_units, ask, pair, spread
from tests.proofs.real_cluster.controlplane import ControlPlane

EXISTING_UNITS = (0, 1_000, 10_000)
ROUNDS = 5
TURNS = 40
CALLERS = 32
BURST = 4 * CALLERS
STOCK = ROUNDS * (TURNS + BURST)
WRITERS = 16
RAW = "raw"
SPEC = "g1"

# Seconds of each answer, by RAW or the number of existing units.
Seconds = Mapping[str, list[float]]


def place_of(existing: int) -> Namespaces:
    return configured(
        Namespaces, stock=f"stock-{existing}", instance=f"units-{existing}", system="system"
    )


@attrs.frozen(kw_only=True)
class CreateContext:
    """The addresses that are measured, and the raw writes that are left to send."""

    plane: Address
    apis: Mapping[int, Address]
    pairs: Iterator[Pair]
    numbers: Iterator[int] = attrs.field(factory=count)

    async def write_pair(self, connection: Connection) -> None:
        await next(self.pairs).write(connection)

    async def create(self, connection: Connection) -> None:
        status = await ask(connection, f"unit-{next(self.numbers)}", SPEC)
        assert status == 201, status


async def timed(work: Awaitable[None]) -> float:
    begun = time.perf_counter()
    await work
    return time.perf_counter() - begun


async def measure_single(context: CreateContext) -> Seconds:
    """Measure one caller that sends one request after the other."""
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    async with AsyncExitStack() as stack:
        (raw,) = await stack.enter_async_context(connections(context.plane, 1))
        apis = {
            existing: await stack.enter_async_context(connections(address, 1))
            for existing, address in context.apis.items()
        }
        for _ in range(TURNS):
            seconds[RAW].append(await timed(context.write_pair(raw)))
            for existing, (api,) in apis.items():
                seconds[str(existing)].append(await timed(context.create(api)))
    return seconds


async def measure_concurrent(context: CreateContext) -> Seconds:
    """Measure many callers at once, first of the raw writes, then of the api without units."""
    seconds: defaultdict[str, list[float]] = defaultdict(list)

    async def write(connection: Connection, _: int) -> None:
        seconds[RAW].append(await timed(context.write_pair(connection)))

    async def create(connection: Connection, _: int) -> None:
        seconds["0"].append(await timed(context.create(connection)))

    async with connections(context.plane, CALLERS) as raw:
        await spread(raw, range(BURST), write)
    async with connections(context.apis[0], CALLERS) as api:
        await spread(api, range(BURST), create)
    return seconds


async def measured(plane: ControlPlane) -> tuple[list[Seconds], list[Seconds]]:
    address = address_of(plane)
    async with AsyncExitStack() as stack:
        apis = {}
        async with connections(address, WRITERS) as writers:
            bare = await add_stock(writers, place_of(0), "bare", STOCK)
            for existing in EXISTING_UNITS:
                place = place_of(existing)
                await add_units(writers, place, existing)
                await add_stock(writers, place, SPEC, STOCK)
                apis[existing] = await stack.enter_async_context(replica(plane.kubeconfig, place))
                await health(apis[existing], "readyStockCount", least=STOCK)
        pairs = [pair(place_of(0), each, f"pair-{each.metadata.name}") for each in bare]
        context = CreateContext(plane=address, apis=apis, pairs=iter(pairs))
        return (
            [await measure_single(context) for _ in range(ROUNDS)],
            [await measure_concurrent(context) for _ in range(ROUNDS)],
        )


def share(rounds: list[Seconds], name: str, of: str) -> float:
    """Return the median of each round's ratio of medians."""
    return median(median(each[name]) / median(each[of]) for each in rounds)


def undisturbed(rounds: list[Seconds], name: str, of: str) -> float:
    """Return the ratio of the fastest tenths, which other work on the machine affects least."""
    tenths = [quantiles([each for one in rounds for each in one[who]], n=10) for who in (name, of)]
    return tenths[0][0] / tenths[1][0]


def milliseconds(rounds: list[Seconds], name: str) -> float:
    return 1000 * median(median(each[name]) for each in rounds)


def rows() -> Iterator[Row]:
    with prepared_plane(*map(place_of, EXISTING_UNITS)) as plane:
        single, many = asyncio.run(measured(plane))
    raw = milliseconds(single, RAW)
    yield Row(name="claim: two raw writes, p50", value=raw, unit="ms")
    none = milliseconds(single, "0")
    yield Row(name="POST gpu-units, one caller, p50", value=none, unit="ms")
    name = "POST gpu-units, one caller ÷ two raw writes"
    yield Row(name=name, value=share(single, "0", RAW), unit="ratio", at_most=1.35)
    name = "the same, by the fastest tenth of each"
    yield Row(name=name, value=undisturbed(single, "0", RAW), unit="ratio")
    for existing in EXISTING_UNITS[1:]:
        name = f"POST gpu-units, with {existing:,} units ÷ two raw writes"
        yield Row(name=name, value=share(single, str(existing), RAW), unit="ratio")
    name = "POST gpu-units, with 10,000 units ÷ without units"
    yield Row(name=name, value=share(single, "10000", "0"), unit="ratio", at_most=1.1)
    name = f"POST gpu-units, {CALLERS} callers, p50"
    yield Row(name=name, value=milliseconds(many, "0"), unit="ms")
    name = f"POST gpu-units, {CALLERS} callers ÷ two raw writes of as many callers"
    yield Row(name=name, value=share(many, "0", RAW), unit="ratio")


if __name__ == "__main__":
    for row in rows():
        sys.stdout.write(f"{row}\n")
        sys.stdout.flush()
