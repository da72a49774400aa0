"""Workers and the broker are killed, paused and cut off during invocations; nothing is lost.

Workers are processes. The function that they call is in this one, and counts each attempt.
"""

import asyncio
import os
import signal
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from random import Random

import msgspec
import pytest

from gpuruntime.bus.errors import BusError
from gpuruntime.bus.messages import Record
from gpuruntime.bus.provisioning import declare_consumer
from gpuruntime.bus.streams import consumer_declaration
from gpuruntime.framework.calls import Call, CallError
from gpuruntime.framework.server import serving
from gpuruntime.models.kinds.functions import Framework as Where
from gpuruntime.models.kinds.invocations import State
from tests.eventually import eventually
from tests.proofs.real_cluster.product import Process
from tests.rooms.bus.broker import FUNCTION, Broker, Bus, bus
from tests.rooms.roles.programs import Programs, programs
from tests.rooms.worker.conftest import ACK_WAIT_SECONDS
from tests.rooms.worker.invocations import invocation, message_id_of, queue, send
from tests.rooms.worker.workers import ended, until_empty

WORKERS = 4
INVOCATIONS = 1500
ACCEPTED_PER_SECOND = 60


class Function:
    """Take a moment, fail sometimes, and answer the payload."""

    def __init__(self, rng: Random) -> None:
        self.starts: Counter[tuple[str, int]] = Counter()
        self._rng = rng

    async def handle(self, call: Call) -> object:
        self.starts[(call.invocationID, call.attempt)] += 1
        await asyncio.sleep(self._rng.choice([0.0, 0.01, 0.05, 0.3]))
        if self._rng.random() < 0.02:
            raise CallError("bad luck")
        return call.payload


class Storm:
    """Cause one fault after the other until cancelled."""

    def __init__(self, made: Bus, broker: Broker, fleet: "Fleet", rng: Random) -> None:
        self.seen: Counter[str] = Counter()
        self._made = made
        self._broker = broker
        self._fleet = fleet
        self._rng = rng

    async def run(self, until: asyncio.Event) -> None:
        harms = (self.kill_worker, self.pause_worker, self.kill_broker, self.delete_consumer)
        while not until.is_set():
            # Each fault occurs once in a round, so none is left out by chance.
            for harm in self._rng.sample(harms, len(harms)):
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._rng.uniform(0.5, 2.0)):
                        await until.wait()
                await harm()
                self.seen[harm.__name__] += 1

    async def kill_worker(self) -> None:
        self._fleet.replace(self._rng.randrange(WORKERS))

    async def pause_worker(self) -> None:
        paused = self._fleet.processes[self._rng.randrange(WORKERS)]
        os.kill(paused.pid, signal.SIGSTOP)
        await asyncio.sleep(1.5 * ACK_WAIT_SECONDS)
        os.kill(paused.pid, signal.SIGCONT)

    async def kill_broker(self) -> None:
        self._broker.kill()
        await asyncio.sleep(self._rng.uniform(0, 0.5))
        self._broker.start()

    async def delete_consumer(self) -> None:
        stream = self._made.names.invocations
        with suppress(BusError):
            await self._made.jetstream.call(f"CONSUMER.DELETE.{stream}.{FUNCTION}")
        again = consumer_declaration(self._made.names, FUNCTION, ack_wait_seconds=ACK_WAIT_SECONDS)
        await insist(lambda: declare_consumer(self._made.jetstream, stream, again))


class Fleet:
    def __init__(self, program: Programs, made: Bus, sockets: list[str]) -> None:
        self._program = program
        self._made = made
        self._sockets = sockets
        self.processes = [self._start(place) for place in range(len(sockets))]

    def replace(self, place: int) -> None:
        self.processes[place].kill()
        self.processes[place] = self._start(place)

    def _start(self, place: int) -> Process:
        return self._program.start(
            "worker",
            nats={"url": self._made.url, "subjectPrefix": self._made.names.prefix},
            worker={
                "function": FUNCTION,
                "name": f"w{place}",
                "concurrency": 8,
                "maxAttempts": 50,
                "ackWait": ACK_WAIT_SECONDS,
                "framework": {"socketPath": self._sockets[place]},
            },
        )


async def insist(ask: Callable[[], Awaitable[object]]) -> None:
    """Retry until it succeeds: a killed broker is back in a moment."""
    await eventually(ask, lambda _: True, within_seconds=60, poll_seconds=0.1, despite=BusError)


async def call(made: Bus, name: str) -> None:
    """Repeat an uncertain publish, as the API does with a replay."""

    async def once() -> None:
        stored = await made.records.read(FUNCTION, name)
        if stored is None:
            sent = await queue(made, name, payload=name, life_seconds=300.0)
        elif stored.record.state is not State.QUEUED or stored.record.attempt:
            return
        else:
            sent = invocation(
                name,
                payload=msgspec.Raw(msgspec.json.encode(name)),
                acceptedAt=stored.record.acceptedAt,
                deadlineAt=stored.record.deadlineAt,
                revision=stored.revision,
            )
        await send(made, sent, message_id=message_id_of(sent))
        if name.endswith("7"):
            await send(made, sent, message_id=f"late {name}")

    await insist(once)


@asynccontextmanager
async def frameworks(function: Function) -> AsyncIterator[list[str]]:
    """Return the options of each worker, all in one folder."""
    with tempfile.TemporaryDirectory(prefix="fw-") as folder:
        async with AsyncExitStack() as stack:
            paths = [str(Path(folder, f"{place}.sock")) for place in range(WORKERS)]
            for path in paths:
                await stack.enter_async_context(serving(function.handle, Where(socketPath=path)))
            yield paths


@pytest.mark.serverless
async def test_every_invocation_ends_once_and_no_attempt_runs_twice(
    tmp_path: Path, own: Broker
) -> None:
    rng = Random(11)
    function = Function(rng)
    names = [f"i{number}" for number in range(INVOCATIONS)]
    async with (
        bus(own.url, "storm", ack_wait_seconds=ACK_WAIT_SECONDS) as made,
        frameworks(function) as sockets,
    ):
        with programs(tmp_path) as program:
            storm = Storm(made, own, Fleet(program, made, sockets), rng)
            last = await storm_through(made, storm, names)
            await insist(lambda: until_empty(made))
            again = [await made.records.read(FUNCTION, name) for name in names]
    assert {record.state for record in last} == {State.SUCCEEDED}
    assert [msgspec.json.decode(record.body) for record in last] == names
    assert [stored.record for stored in again if stored] == last
    assert max(function.starts.values()) == 1
    assert len(storm.seen) == 4, storm.seen


async def storm_through(made: Bus, storm: Storm, names: list[str]) -> list[Record]:
    """Return the last records, ordered by name."""
    over = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(storm.run(over))
        for name in names:
            tasks.create_task(call(made, name))
            await asyncio.sleep(1 / ACCEPTED_PER_SECOND)
        records = [await ended(made, name, within_seconds=120) for name in names]
        over.set()
    return records
