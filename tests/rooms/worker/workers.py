"""Workers in the test's own process, each with a function that the test controls."""

import asyncio
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import attrs

from gpuruntime.bus.errors import UnavailableError
from gpuruntime.bus.messages import Record
from gpuruntime.bus.names import Names
from gpuruntime.bus.pull import PullOptions
from gpuruntime.framework.calls import Call
from gpuruntime.framework.server import Handler, serving
from gpuruntime.models.kinds.functions import Framework as Where
from gpuruntime.worker.framework import framework
from gpuruntime.worker.options import WorkerOptions
from gpuruntime.worker.worker import Worker
from tests.eventually import equals, eventually
from tests.options import configured
from tests.rooms.bus.broker import FUNCTION, Bus, connection
from tests.rooms.worker.conftest import ACK_WAIT_SECONDS

QUICK = PullOptions(expires_seconds=1.0, heartbeat_seconds=0.25, pause_seconds=0.1)


class Ledger:
    """Records every start of an attempt by any worker, and can hold the calls."""

    def __init__(self) -> None:
        self.starts: Counter[tuple[str, int]] = Counter()
        self.gate = asyncio.Event()
        self.gate.set()

    async def handle(self, call: Call) -> object:
        self.starts[(call.invocationID, call.attempt)] += 1
        await self.gate.wait()
        return {"echo": call.payload, "by": call.workerName}

    @property
    def started(self) -> list[tuple[str, int]]:
        assert all(count == 1 for count in self.starts.values()), self.starts
        return sorted(self.starts)


def options(name: str, where: Where, **changes: object) -> WorkerOptions:
    made = configured(
        WorkerOptions,
        function=FUNCTION,
        name=name,
        framework=where,
        ack_wait_seconds=ACK_WAIT_SECONDS,
        drain_seconds=0.3,
        beat_seconds=0.2,
        health_seconds=0.1,
        pull=QUICK,
    )
    return attrs.evolve(made, **changes)  # type: ignore[arg-type]  # whatever the test says


@asynccontextmanager
async def working(
    made: Bus, handler: Handler, name: str = "w1", **changes: object
) -> AsyncIterator[Worker]:
    """Run a worker with its own connection, as in its own Pod."""
    with tempfile.TemporaryDirectory(prefix="fw-") as folder:
        where = Where(socketPath=str(Path(folder, "framework.sock")))
        async with (
            serving(handler, where),
            running(made.url, made.names, options(name, where, **changes)) as worker,
        ):
            yield worker


@asynccontextmanager
async def running(url: str, names: Names, chosen: WorkerOptions) -> AsyncIterator[Worker]:
    async with connection(url) as own, framework(chosen) as called:
        worker = Worker(
            own,
            called,
            chosen,
            names=names,
            now=lambda: datetime.now(UTC),
            rng=Random(chosen.name),
        )
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(worker.run())
            yield worker
            task.cancel()


async def ended(made: Bus, name: str, *, within_seconds: float = 20.0) -> Record:
    """Wait until the record is terminal, and return it."""
    stored = await eventually(
        lambda: made.records.read(FUNCTION, name),
        lambda seen: seen is not None and seen.record.state.is_terminal,
        within_seconds=within_seconds,
        despite=UnavailableError,
    )
    assert stored is not None
    return stored.record


async def left_in_stream(made: Bus) -> int:
    return await left_in(made, made.names.invocations)


async def left_in(made: Bus, stream: str) -> int:
    info = await made.jetstream.call(f"STREAM.INFO.{stream}")
    return int(info["state"]["messages"])  # type: ignore[index,call-overload,arg-type]  # plain JSON


async def until_empty(made: Bus, *, but: int = 0) -> None:
    await eventually(lambda: left_in_stream(made), equals(but))
