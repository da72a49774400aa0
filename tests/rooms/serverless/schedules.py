"""A function whose calls arrive by a seeded schedule, in virtual time.

The activator, its cluster and its caches are real. The queue and the workers are a model of the
broker and of `gpuruntime worker`. A ready worker takes calls while it has a free slot and holds
each for its time. It drains when ordered to, and its calls wait again when it ends. Orders,
heartbeats and wake-ups are lost at times, since they are not acknowledged.
"""

import asyncio
import json
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

import attrs

from gpuruntime.bus.errors import UnavailableError
from gpuruntime.bus.messages import Heartbeat, WorkerState, encode
from gpuruntime.bus.session import Message
from gpuruntime.embedded.objects.versions import Change
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.units import GPU_UNITS
from tests.rooms.audit.continuous_audit import EachChange
from tests.rooms.operations.cluster import INSTANCE, Cluster, Document, notes
from tests.rooms.serverless.scaling.scaled import NAMES, Scaled

FUNCTION = "echo"
BEAT_SECONDS = 5.0
# An order is repeated at every reconcile, and there is one a second.
ORDER_SECONDS = 1.0
ORDERS_LOST = BEATS_LOST = WAKES_LOST = READINGS_LOST = 0.05
# A claim is three requests, with possibly a reconcile between two of them.
CLAIM_SECONDS = 2.0
MOST_LATE_CALLS = 6


@attrs.frozen(kw_only=True)
class Schedule:
    """Calls as moments and seconds of work; `deleted` and `withdrawn` are moments of a worker."""

    most: int
    least: int
    concurrency: int
    idle_seconds: int
    calls: tuple[tuple[float, float], ...]
    deleted: tuple[float, ...]
    withdrawn: tuple[float, ...]

    @property
    def ends_at(self) -> float:
        """Return when the last call has arrived and one worker alone would have done all."""
        return max(at for at, _ in self.calls) + sum(seconds for _, seconds in self.calls)


def schedule_of(rng: Random) -> Schedule:
    """Return a schedule whose bursts are about as far apart as scaling in takes."""
    most, idle_seconds = rng.randint(1, 4), rng.choice([0, 1, 3])
    calls, at = [], 1.0
    for _ in range(rng.randint(2, 4)):
        work = rng.choice([0.02, 0.3, 1.0, 4.0])
        calls += [(at + rng.uniform(0, 0.5), work) for _ in range(rng.randint(1, 8))]
        at += idle_seconds + rng.uniform(0, 8)
    return Schedule(
        most=most,
        least=rng.choice([0, 0, rng.randint(0, most)]),
        concurrency=rng.randint(1, 3),
        idle_seconds=idle_seconds,
        calls=tuple(calls),
        deleted=tuple(rng.uniform(1, at) for _ in range(rng.choice([0, 0, 1]))),
        withdrawn=(rng.uniform(1, at),) if rng.random() < 0.05 else (),
    )


@attrs.define(eq=False)
class Call:
    seconds: float


class World:
    """A run of one schedule; `faults` are texts about broken promises."""

    def __init__(self, made: Scaled, schedule: Schedule, rng: Random) -> None:
        self.faults: list[str] = []
        self.depth = 0
        self.made = made
        self.rng = rng
        self.units: dict[str, Document] = {}
        self.workers: dict[str, Worker] = {}
        self._schedule = schedule
        self._waiting: deque[Call] = deque()
        self._coming = 0
        self._deleted: set[str] = set()
        self._late_calls = MOST_LATE_CALLS
        self._short: asyncio.TimerHandle | None = None
        _tap(made.cluster, self._on_change)

    def begin(self) -> None:
        """Connect the activator to the modelled queue and workers from now on."""
        made, chosen = self.made, self._schedule
        made.activator.receiving_since = asyncio.get_running_loop().time()
        made.activator.depth_poller._source = self  # type: ignore[assignment]  # as the broker would
        made.let_consumer_stand(FUNCTION)
        made.declare(
            FUNCTION,
            maxWorkers=chosen.most,
            minAvailableCount=chosen.least,
            concurrency=chosen.concurrency,
            idleTimeoutSeconds=chosen.idle_seconds,
            timeoutSeconds=60,
        )
        self._coming = len(chosen.calls) + len(chosen.deleted) + len(chosen.withdrawn)
        for at, seconds in chosen.calls:
            self.later(at, self.accept, seconds)
        for at in chosen.deleted:
            self.later(at, self._delete_one)
        for at in chosen.withdrawn:
            self.later(at, self._withdraw_one)

    async def read(self) -> dict[str, int]:
        """Return the depths, in place of the broker."""
        await asyncio.sleep(self.rng.uniform(0, 0.05))
        if self.rng.random() < READINGS_LOST:
            raise UnavailableError("no answer")
        return {FUNCTION: self.depth} if self.depth else {}

    @property
    def is_settled(self) -> bool:
        """Return whether all calls have ended and just the minimum of workers is ready."""
        states = [self.workers[uid].state for uid in self.units]
        is_over = not self.depth and not self._coming
        return is_over and states == [WorkerState.READY] * self._schedule.least

    def accept(self, seconds: float) -> None:
        self._coming -= 1
        self.depth += 1
        self._waiting.append(Call(seconds))
        if self.rng.random() >= WAKES_LOST:
            wake = Message(NAMES.wake(FUNCTION), b"")
            self.later(self.rng.uniform(0, 0.02), self.made.activator.triggers.on_wake, wake)
        self.give()

    def put_back(self, call: Call) -> None:
        self._waiting.append(call)
        self.give()

    def give(self) -> None:
        """Give waiting calls to any worker with an open request."""
        while self._waiting:
            free = [each for each in self.workers.values() if each.has_room]
            if not free:
                return
            self.rng.choice(free).take(self._waiting.popleft())

    def later(self, seconds: float, what: Callable[..., object], *arguments: Any) -> None:
        asyncio.get_running_loop().call_later(seconds, what, *arguments)

    def _on_change(self, uid: str, before: Document | None, after: Document | None) -> None:
        if after is None:
            del self.units[uid]
            if self.workers[uid].is_busy and uid not in self._deleted:
                self.faults.append(f"{self.workers[uid].name} was deleted with work in hand")
            self.workers[uid].end()
            self._call_again()
        else:
            self.units[uid] = after
        if before is None and after is not None:
            self.workers[uid] = Worker(self, after, self._schedule.concurrency)
            self.made.cluster.add_stock(1)
        elif before and after and _is_marked(after) and not _is_marked(before):
            self._order(self.workers[uid])
            self._call_again()
        self._judge()

    def _order(self, worker: "Worker") -> None:
        seconds = self.rng.uniform(0, 0.05)
        while self.rng.random() < ORDERS_LOST:
            seconds += ORDER_SECONDS
        self.later(seconds, worker.drain)

    def _call_again(self) -> None:
        """Let calls arrive just when a worker ends, or right after."""
        if self._late_calls and self.rng.random() < 0.4:
            self._late_calls -= 1
            self._coming += 1
            self.later(self.rng.uniform(0, 1.5), self.accept, self.rng.choice([0.02, 1.0]))

    def _delete_one(self) -> None:
        """Delete a worker, as a user does with kubectl."""
        self._coming -= 1
        if self.units:
            uid = self.rng.choice(sorted(self.units))
            self._deleted.add(uid)
            self.made.delete(self.workers[uid].name)

    def _withdraw_one(self) -> None:
        """Let a container order its own worker to drain."""
        self._coming -= 1
        if self.units:
            self.workers[self.rng.choice(sorted(self.units))].drain()

    def _judge(self) -> None:
        """Check that a needed free seat is not left unused for longer than a claim takes."""
        there, chosen = len(self.units), self._schedule
        if there > chosen.most:
            self.faults.append(f"{there} workers where {chosen.most} may be")
        staying = sum(not _is_marked(unit) for unit in self.units.values())
        is_short = staying < chosen.least and there < chosen.most
        if not is_short and self._short:
            self._short.cancel()
            self._short = None
        elif is_short and not self._short:
            words = f"{staying} workers where {chosen.least} have to be"
            loop = asyncio.get_running_loop()
            self._short = loop.call_later(CLAIM_SECONDS, self.faults.append, words)


class Worker:
    """Run the worker of one unit until some time after the unit is deleted."""

    def __init__(self, world: World, unit: Document, concurrency: int) -> None:
        self.state = WorkerState.STARTING
        self._world = world
        self.name = unit["metadata"]["name"]
        self._uid = unit["metadata"]["uid"]
        self._concurrency = concurrency
        self._held: set[Call] = set()
        self._is_over = False
        world.later(world.rng.uniform(0.2, 4), self._come_up)
        self._beat()

    @property
    def is_busy(self) -> bool:
        return bool(self._held)

    @property
    def has_room(self) -> bool:
        is_free = len(self._held) < self._concurrency
        return self.state is WorkerState.READY and is_free and not self._is_over

    def take(self, call: Call) -> None:
        self._held.add(call)
        self._world.later(call.seconds, self._finish, call)

    def drain(self) -> None:
        if self.state not in (WorkerState.DRAINING, WorkerState.DRAINED):
            self._turn(WorkerState.DRAINING if self._held else WorkerState.DRAINED)

    def end(self) -> None:
        """End the worker after its grace period; a later unit may have its name by then."""
        self._world.later(self._world.rng.uniform(0, 0.5), self.drain)
        self._world.later(2.0, self._give_back)

    def _come_up(self) -> None:
        if self.state is WorkerState.STARTING and self._uid in self._world.units:
            self._world.made.cluster.make_ready(INSTANCE, self.name)
            self._turn(WorkerState.READY)
            self._world.give()

    def _finish(self, call: Call) -> None:
        if call not in self._held:
            return
        self._held.remove(call)
        self._world.depth -= 1
        if self.state is WorkerState.DRAINING and not self._held:
            self._turn(WorkerState.DRAINED)
        self._world.give()

    def _give_back(self) -> None:
        self._is_over = True
        held, self._held = self._held, set()
        for call in held:
            self._world.put_back(call)

    def _turn(self, state: WorkerState) -> None:
        self.state = state
        self._tell()

    def _beat(self) -> None:
        if not self._is_over:
            self._tell()
            self._world.later(BEAT_SECONDS, self._beat)

    def _tell(self) -> None:
        if self._world.rng.random() < BEATS_LOST:
            return
        beat = Heartbeat(
            workerName=self.name,
            uid=self._uid,
            serverlessRequestID=FUNCTION,
            state=self.state,
            busy=len(self._held),
        )
        told = Message(NAMES.beat(FUNCTION, self.name), encode(beat))
        self._world.later(0.01, self._world.made.activator.triggers.on_beat, told)


def _is_marked(unit: Document) -> bool:
    return labels.DRAINING in notes(unit)


def _tap(cluster: Cluster, hear: Callable[[str, Document | None, Document | None], None]) -> None:
    """Check each change of a worker's unit in the moment it happens."""
    seen: dict[str, Document] = {}

    def on_change(change: Change) -> None:
        unit = json.loads(change.after.body) if change.after else None
        before = seen.get(change.path)
        if unit is not None and "workerOf" in unit["spec"].get("serverless", {}):
            seen[change.path] = unit
        elif unit is None and before is not None:
            del seen[change.path]
        else:
            return
        hear((unit or before or {})["metadata"]["uid"], before, unit)

    [kind] = [each for each in cluster.server.registry if each.kind == GPU_UNITS.kind]
    cluster.server.store.collection(kind).watches.add(EachChange(on_change))
