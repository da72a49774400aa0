"""Seeded schedules of faults, by the hundred: never two leaders, and one again after each."""

import asyncio
from collections.abc import Callable
from random import Random

import attrs
import pytest
import structlog

from gpuruntime.kube.errors import LeadershipLostError
from gpuruntime.kube.lease import Elector
from tests.rooms.kube.lease_world import Clock, LeaseServer, Stall, Stalled, Wire, elector
from tests.rooms.kube.things import failure

SEEDS = range(200)
SEEDS_AT_ONCE = 25
FAULTS_SECONDS = 120.0
# A lease left by a crash expires; a stalled process loses it and starts again.
RECOVERY_SECONDS = 60.0
LARGEST_DRIFT = 0.1  # the margin between deadline and duration tolerates a fifth


@attrs.define
class Process:
    """Run an elector, and the next one whenever it has ended, as Kubernetes would."""

    name: str
    wire: Wire
    rng: Random
    world: "World"
    stall: Stall = attrs.field(factory=Stall)
    current: Elector | None = None
    lives: int = 0
    end: asyncio.Event = attrs.field(factory=asyncio.Event)

    @property
    def is_leading(self) -> bool:
        return self.current is not None and self.current.is_leading

    async def run(self) -> None:
        while True:
            self.lives += 1
            self.end = asyncio.Event()
            await self._live(f"{self.name}-{self.lives}")
            await asyncio.sleep(self.rng.uniform(0.1, 3.0))

    async def _live(self, identity: str) -> None:
        clock = Clock(
            rate=self.rng.uniform(1 - LARGEST_DRIFT, 1 + LARGEST_DRIFT),
            offset=self.rng.uniform(0, 1e6),
        )
        self.current = elector(
            self.wire,
            identity,
            clock=clock,
            opened=self.world.check,
            seed=self.rng.getrandbits(32),
        )
        try:
            async with asyncio.TaskGroup() as group:
                task = group.create_task(self._elect(self.current))
                group.create_task(self._stop(task))
        finally:
            self.current = None

    async def _elect(self, one: Elector) -> None:
        try:
            await Stalled(one.run(), self.stall)
        except LeadershipLostError:
            self.world.losses += 1
        finally:
            self.end.set()

    async def _stop(self, task: asyncio.Task[None]) -> None:
        await self.end.wait()
        task.cancel()

    def disturb(self) -> float:
        """Begin a fault. Return the seconds after which heal() ends it."""
        seconds = self.rng.choice([0.5, 3.0, 8.0, 12.0, 20.0, 40.0])
        faults: list[Callable[[], None]] = [
            lambda: self._cut("refused"),
            lambda: self._cut("silent"),
            lambda: self._cut("deaf"),
            lambda: self._slow_down(seconds),
            lambda: self.stall.begin(seconds),
            self.end.set,
            self._crash,
            self._refuse,
        ]
        self.rng.choice(faults)()
        return seconds

    def heal(self) -> None:
        self.wire.cut = ""
        self.wire.refusal = None
        self.wire.latency = (0.001, 0.02)

    def _cut(self, manner: str) -> None:
        self.wire.cut = manner

    def _slow_down(self, seconds: float) -> None:
        """Let writes arrive long after their sender gave them up."""
        self.wire.latency = (0.0, self.rng.choice([1.0, 5.0, seconds]))

    def _crash(self) -> None:
        """Crash a process; it is cut off first, so that it releases nothing."""
        self.wire.cut = "refused"
        self.end.set()

    def _refuse(self) -> None:
        code, reason = self.rng.choice(
            [(403, "Forbidden"), (409, "Conflict"), (500, "InternalError"), (429, "")]
        )
        self.wire.refusal = failure(code, reason)


@attrs.define
class World:
    seed: int
    server: LeaseServer = attrs.field(factory=LeaseServer)
    processes: list[Process] = attrs.field(factory=list)
    terms: int = 0
    losses: int = 0

    def check(self) -> None:
        """Check for other leaders as a fence opens: only then a second one can begin."""
        self.terms += 1
        leaders = [process.name for process in self.processes if process.is_leading]
        assert len(leaders) == 1, f"seed {self.seed}: {leaders} lead at once"

    async def live(self) -> None:
        rng = Random(self.seed)
        for index in range(rng.choice([2, 2, 3])):
            own = Random(rng.getrandbits(32))
            wire = Wire(self.server, Random(rng.getrandbits(32)))
            self.processes.append(Process(f"p{index}", wire, own, self))
        async with asyncio.TaskGroup() as group:
            lives = [group.create_task(process.run()) for process in self.processes]
            async with asyncio.TaskGroup() as disturbing:
                for process in self.processes:
                    disturbing.create_task(self._disturb(process))
            await asyncio.sleep(RECOVERY_SECONDS)
            leaders = [process.name for process in self.processes if process.is_leading]
            assert len(leaders) == 1, f"seed {self.seed}: {leaders} lead after the faults"
            for life in lives:
                life.cancel()

    async def _disturb(self, process: Process) -> None:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + FAULTS_SECONDS
        while loop.time() < ends_at:
            await asyncio.sleep(process.rng.uniform(0.0, 15.0))
            await asyncio.sleep(process.disturb())
            process.heal()


@pytest.mark.looptime(noop_cycles=0)
@pytest.mark.parametrize("start", SEEDS[::SEEDS_AT_ONCE])
async def test_no_schedule_of_faults_makes_two_leaders(start: int) -> None:
    terms = losses = 0
    with structlog.testing.capture_logs():
        for seed in SEEDS[start : start + SEEDS_AT_ONCE]:
            world = World(seed)
            await world.live()
            terms, losses = terms + world.terms, losses + world.losses
    assert terms > 3 * SEEDS_AT_ONCE
    assert losses > SEEDS_AT_ONCE
