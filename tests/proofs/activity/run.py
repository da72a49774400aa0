"""A run of a seed: callers, faults and leaders, and what the leaders call idle."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Final

from gpuruntime.embedded.apiserver.in_process_transport import InProcessTransport
from gpuruntime.kube.client import Client
from gpuruntime.meter import NullMeter
from gpuruntime.reconcilers.activity.reader import ActivityOptions, ActivityReader, Fetch
from tests.proofs.activity.fleet import UNITS, Fleet, RefusingTransport, Replica
from tests.proofs.simulation.virtual_time import run_virtually
from tests.rooms.operations.cluster import SYSTEM

EVERY_SECONDS: Final = 30.0
RUN_SECONDS: Final = 2400.0
REPLICAS: Final = 3
# Longer than a round at its slowest, since a Pod has to be listed once.
SHORTEST_LIFE_SECONDS: Final = 60.0
CALLED_ONCE_AT: Final = 100.0
# Readings differ from the truth by the rounding of floats.
ROUNDING_SECONDS: Final = 1e-3


class Run:
    """A run; `breaches` says which unit was called idle although it was active."""

    def __init__(self, seed: int, *, is_faulty: bool = True) -> None:
        self._rng = Random(seed)
        self._is_faulty = is_faulty
        self.fleet = Fleet(self._rng)
        self._transport = RefusingTransport(InProcessTransport(self.fleet.cluster.server))
        self.breaches: list[str] = []
        # How often a leader was asked about a unit, and each kind of fault that happened.
        self.looks = 0
        self.faults: Counter[str] = Counter()
        # The longest idle time that any leader has called, by unit.
        self.longest: dict[str, float] = {}

    async def run(self) -> None:
        for _ in range(REPLICAS):
            self.fleet.add()
        try:
            async with asyncio.timeout(RUN_SECONDS), asyncio.TaskGroup() as tasks:
                tasks.create_task(self._lead())
                for uid in UNITS[:-2]:
                    tasks.create_task(self._call(uid))
                tasks.create_task(self._ping(UNITS[-2]))
                if self._is_faulty:
                    tasks.create_task(self._break())
        except TimeoutError:
            return

    async def _lead(self) -> None:
        """Lead until another leader takes over, which begins without any reading."""
        while True:
            term = self._rng.expovariate(1 / 900) if self._is_faulty else RUN_SECONDS
            reader = ActivityReader(
                client=Client(self._transport),
                options=ActivityOptions(
                    namespace=SYSTEM, every_seconds=EVERY_SECONDS, fetching=self._fetching
                ),
                living=lambda: UNITS,
                on_ready_change=lambda: None,
                meter=NullMeter(),
            )
            try:
                async with asyncio.timeout(term), asyncio.TaskGroup() as tasks:
                    tasks.create_task(reader.run())
                    tasks.create_task(self._judge(reader))
            except TimeoutError:
                continue

    @asynccontextmanager
    async def _fetching(self) -> AsyncIterator[Fetch]:
        yield self.fleet.fetch

    async def _judge(self, reader: ActivityReader) -> None:
        while True:
            await asyncio.sleep(1)
            now = asyncio.get_running_loop().time()
            for uid in UNITS:
                self.looks += 1
                idle = reader.idle_seconds(uid)
                self.longest[uid] = max(idle, self.longest.get(uid, 0.0))
                truly = self._idle_until_the_round(reader, uid)
                if idle > truly + ROUNDING_SECONDS:
                    self.breaches.append(
                        f"{now:.0f} s: {uid} is called idle for {idle:.1f} s, "
                        f"but it was active {truly:.1f} s before the readings"
                    )

    def _idle_until_the_round(self, reader: ActivityReader, uid: str) -> float:
        """Return for how long the unit was idle when the round began; later is not known yet."""
        known_until = reader.activity.known_until if reader.activity else 0.0
        last = self.fleet.last_active.get(uid, 0.0)
        return float("inf") if last > known_until else known_until - last

    async def _call(self, uid: str) -> None:
        """Keep one connection after the other to a unit, with pauses between bytes."""
        while True:
            await asyncio.sleep(self._rng.expovariate(1 / 200))
            replica = self._serving()
            ends_at = asyncio.get_running_loop().time() + self._rng.expovariate(1 / 400)
            while replica.process and asyncio.get_running_loop().time() < ends_at:
                self.fleet.send(replica, uid)
                await asyncio.sleep(self._rng.expovariate(1 / 50))

    async def _ping(self, uid: str) -> None:
        """Call the unit once, and then only ping it."""
        await asyncio.sleep(CALLED_ONCE_AT)
        self.fleet.send(self._serving(), uid)
        while True:
            self.fleet.send(self._serving(), uid, is_ping=True)
            await asyncio.sleep(10)

    def _serving(self) -> Replica:
        return self._rng.choice(list(self.fleet.replicas.values()))

    async def _break(self) -> None:
        # A kill is found only if it falls between a call and the next reading.
        faults = (
            *(self._kill, self._kill),
            *(self._roll_out, self._evict, self._hide, self._slow, self._cut),
        )
        async with asyncio.TaskGroup() as tasks:
            while True:
                await asyncio.sleep(self._rng.expovariate(1 / 120))
                fault = self._rng.choice(faults)
                self.faults[fault.__name__.strip("_")] += 1
                tasks.create_task(fault())

    async def _kill(self) -> None:
        """Kill a process; the kubelet starts another one in the same Pod."""
        replica = self._serving()
        replica.process = None
        await asyncio.sleep(self._rng.expovariate(1 / 10))
        if replica.address in self.fleet.replicas and replica.process is None:
            self.fleet.start(replica)

    async def _roll_out(self) -> None:
        """Replace a replica, which drains for up to eight minutes."""
        old = self._serving()
        self.fleet.add()
        self.fleet.terminate(old)
        await asyncio.sleep(self._rng.uniform(SHORTEST_LIFE_SECONDS, 480))
        if old.address in self.fleet.replicas:
            self.fleet.remove(old)

    async def _evict(self) -> None:
        replica = self._serving()
        self.fleet.add()
        await asyncio.sleep(SHORTEST_LIFE_SECONDS)
        if replica.address in self.fleet.replicas:
            self.fleet.evict(replica)

    async def _hide(self) -> None:
        replica = self._serving()
        replica.is_readable = False
        await asyncio.sleep(self._rng.uniform(1, 200))
        replica.is_readable = True

    async def _slow(self) -> None:
        replica = self._serving()
        replica.answer_seconds = self._rng.uniform(0.1, 8)
        await asyncio.sleep(self._rng.uniform(1, 200))
        replica.answer_seconds = 0.0

    async def _cut(self) -> None:
        self._transport.is_cut = True
        await asyncio.sleep(self._rng.uniform(1, 100))
        self._transport.is_cut = False


def run_seed(seed: int, *, is_faulty: bool = True) -> Run:
    async def run() -> Run:
        made = Run(seed, is_faulty=is_faulty)
        await made.run()
        return made

    return run_virtually(run())
