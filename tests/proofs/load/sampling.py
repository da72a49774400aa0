"""Samples of each process of the product during a stage, taken from outside the process."""

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

# A sample costs the process about 10 ms. Every 2 s is no load, and often enough to see a peak.
SAMPLE_SECONDS = 2.0
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@attrs.frozen
class Sample:
    """Metrics, memory and processor time of one process at one moment."""

    text: str
    resident_bytes: int
    processor_seconds: float


@attrs.frozen
class ProcessSamples:
    """The samples of one process during one stage."""

    samples: tuple[Sample, ...]
    scrapes: tuple[Scrape, ...]

    @property
    def added(self) -> Scrape:
        return self.scrapes[-1] - self.scrapes[0]

    @property
    def processor_seconds(self) -> float:
        return self.samples[-1].processor_seconds - self.samples[0].processor_seconds

    @property
    def peak_bytes(self) -> int:
        return max(each.resident_bytes for each in self.samples)

    def peak(self, gauge: str, **labels: str) -> float:
        return max(each.most(gauge, **labels) for each in self.scrapes)


@attrs.define
class StageSamples:
    """The samples of all processes during one stage; complete when the stage has ended."""

    name: str
    seconds: float = 0.0
    processes: dict[str, ProcessSamples] = attrs.field(factory=dict)

    def total(self, name: str, **labels: str) -> float:
        """Return how much this metric grew, summed over all processes."""
        return sum(each.added.total(name, **labels) for each in self.processes.values())


class ObservedProcess:
    """A process that is observed through its operations listener and `/proc`."""

    def __init__(self, name: str, process: Process) -> None:
        self.name = name
        self.process = process
        self._address = Address(process.operations)

    async def sample(self) -> Sample:
        async with connections(self._address, 1) as (connection,):
            answer = await connection.send("GET", "/metrics")
        folder = Path(f"/proc/{self.process.pid}")
        return Sample(
            answer.body.decode(),
            resident_bytes=_resident_bytes((folder / "status").read_text()),
            processor_seconds=_processor_seconds((folder / "stat").read_text()),
        )


@asynccontextmanager
async def sampled(
    name: str, processes: Iterable[ObservedProcess], *, sample_seconds: float = SAMPLE_SECONDS
) -> AsyncIterator[StageSamples]:
    """Sample the processes at the start of the block, at its end, and every `sample_seconds`.

    The metrics are parsed after the block, because parsing takes longer than a caller waits for an
    answer.
    """
    stage = StageSamples(name)
    samples: dict[str, list[Sample]] = {each.name: [await each.sample()] for each in processes}
    begun = time.perf_counter()

    async def keep_sampling() -> None:
        while True:
            await asyncio.sleep(sample_seconds)
            for each in processes:
                samples[each.name].append(await each.sample())

    async with asyncio.TaskGroup() as tasks:
        sampling = tasks.create_task(keep_sampling(), name=f"look at {name}")
        yield stage
        sampling.cancel()
    stage.seconds = time.perf_counter() - begun
    for each in processes:
        samples[each.name].append(await each.sample())
    for name, seen in samples.items():
        stage.processes[name] = ProcessSamples(
            tuple(seen), tuple(read(each.text) for each in seen)
        )


def _resident_bytes(status: str) -> int:
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS:"))
    return 1024 * int(line.split()[1])


def _processor_seconds(stat: str) -> float:
    """Return the processor time of all threads. The command in brackets may contain spaces."""
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND
