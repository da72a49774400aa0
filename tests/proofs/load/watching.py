"""How each process of the product does over a stretch of the run, looked at from outside."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import attrs

from tests.proofs.bench.connections import Address, connections
from tests.proofs.load.scrapes import Scrape, read
from tests.proofs.real_cluster.product import Process

# A look costs the process about 10 ms: rare enough to be no load, often enough for a peak.
LOOK_SECONDS = 2.0
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@attrs.frozen
class Look:
    """One process at one moment."""

    text: str
    resident_bytes: int
    processor_seconds: float


@attrs.frozen
class Stay:
    """One process over one stretch."""

    looks: tuple[Look, ...]
    scrapes: tuple[Scrape, ...]

    @property
    def added(self) -> Scrape:
        return self.scrapes[-1] - self.scrapes[0]

    @property
    def processor_seconds(self) -> float:
        return self.looks[-1].processor_seconds - self.looks[0].processor_seconds

    @property
    def peak_bytes(self) -> int:
        return max(each.resident_bytes for each in self.looks)

    def peak(self, gauge: str, **labels: str) -> float:
        return max(each.most(gauge, **labels) for each in self.scrapes)


@attrs.define
class Stretch:
    """Whole once it has ended."""

    name: str
    seconds: float = 0.0
    stays: dict[str, Stay] = attrs.field(factory=dict)

    def total(self, name: str, **labels: str) -> float:
        """Added over all processes."""
        return sum(each.added.total(name, **labels) for each in self.stays.values())


class Watched:
    """The operations listener and the /proc of one process."""

    def __init__(self, name: str, process: Process) -> None:
        self.name = name
        self.process = process
        self._address = Address(process.operations)

    async def look(self) -> Look:
        async with connections(self._address, 1) as (connection,):
            answer = await connection.send("GET", "/metrics")
        folder = Path(f"/proc/{self.process.pid}")
        return Look(
            answer.body.decode(),
            resident_bytes=_resident_bytes((folder / "status").read_text()),
            processor_seconds=_processor_seconds((folder / "stat").read_text()),
        )


@asynccontextmanager
async def watched(
    name: str, processes: Iterable[Watched], *, look_seconds: float = LOOK_SECONDS
) -> AsyncIterator[Stretch]:
    """Looks at its beginning, at its end, and now and then in between.

    What was seen is read only then: to read it takes longer than a caller waits for an answer.
    """
    stretch = Stretch(name)
    looks: dict[str, list[Look]] = {each.name: [await each.look()] for each in processes}
    begun = time.perf_counter()

    async def keep_looking() -> None:
        while True:
            await asyncio.sleep(look_seconds)
            for each in processes:
                looks[each.name].append(await each.look())

    async with asyncio.TaskGroup() as tasks:
        looking = tasks.create_task(keep_looking(), name=f"look at {name}")
        yield stretch
        looking.cancel()
    stretch.seconds = time.perf_counter() - begun
    for each in processes:
        looks[each.name].append(await each.look())
    for name, seen in looks.items():
        stretch.stays[name] = Stay(tuple(seen), tuple(read(each.text) for each in seen))


def _resident_bytes(status: str) -> int:
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS:"))
    return 1024 * int(line.split()[1])


def _processor_seconds(stat: str) -> float:
    """Of all its threads; the command's name, which may hold spaces, ends with a bracket."""
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND
