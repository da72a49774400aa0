"""One function made true: as many workers as it needs, its consumer, and what is told of both.

A key is a function. Whatever takes long here keeps no other function waiting, and nothing is
remembered that a new leader could not see again, but for times.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final

import attrs
import structlog

from gpuruntime.bus.errors import BusError, UnavailableError
from gpuruntime.controller.result import DONE, Result
from gpuruntime.inventory.errors import InventoryError
from gpuruntime.inventory.functions import owner_of
from gpuruntime.inventory.stores import FREE, FUNCTION, Cache
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.meter import Meter
from gpuruntime.models import codec
from gpuruntime.models.functions import Serverless, ServerlessStatus
from gpuruntime.models.metadata import Key
from gpuruntime.models.units import GPU_UNITS, GPUUnit
from gpuruntime.serverless.beats import Beats
from gpuruntime.serverless.consumers import Consumers
from gpuruntime.serverless.depths import Depths
from gpuruntime.serverless.memory import Memory
from gpuruntime.serverless.observation import Moment, forbidden, worker_of
from gpuruntime.serverless.orphans import Orphans
from gpuruntime.serverless.readings import Readings
from gpuruntime.serverless.scale_plan import (
    Observed,
    Plan,
    Shortage,
    WorkerPhase,
    decide,
    next_names,
    status_of,
    workers_for,
)
from gpuruntime.serverless.worker_units import WorkerUnits
from gpuruntime.serverless.workers import SERVING, WORKER_OF

log = structlog.get_logger()

ORPHANS_AGAIN_SECONDS: Final = 5.0
CATCH_UP_SECONDS: Final = 30.0
BROKER_SECONDS: Final = 5.0
# What only says how much there is to do is told so often at most.
TELL_SECONDS: Final = 10.0


@attrs.frozen(kw_only=True, slots=True)
class Scaler:
    client: Client
    units: Cache[GPUUnit]
    stock: Cache[GPUUnit]
    workers: WorkerUnits
    readings: Readings
    depths: Depths
    beats: Beats
    consumers: Consumers
    orphans: Orphans
    hearing_since: Callable[[], float | None]
    catch_up: Callable[[], Awaitable[None]]
    # A template that was just made may not have come to this process yet.
    orphan_seconds: float
    now: Callable[[], datetime]
    meter: Meter
    memories: dict[str, Memory] = attrs.field(factory=dict)
    # By specName, the functions that wait for stock of it.
    short: defaultdict[str, set[str]] = attrs.field(factory=lambda: defaultdict(set))

    async def reconcile(self, function: str) -> Result:
        template = owner_of(self.units.store.by_index(FUNCTION, function))
        if template is None or template.spec.serverless is None:
            return await self._bury(function)
        memory = self._memory(function, template)
        found = tuple(self.units.store.by_index(WORKER_OF, template.metadata.uid))
        seen = self._observe(template, template.spec.serverless, found, memory)
        plan = decide(seen)
        self._note_shortage(template, seen.limits.requestID, plan)
        async with asyncio.TaskGroup() as tasks:
            consumer = tasks.create_task(self._keep_consumer(seen), name="consumer")
            tasks.create_task(self._act(template, found, seen, plan, memory), name="act")
        told = await self._report(template, seen, plan, memory)
        seconds = (
            consumer.result(),
            plan.look_again_seconds,
            memory.falls_in_seconds(_now(), seen.limits.idleTimeoutSeconds),
            memory.held_seconds(_now()),
            told,
        )
        return Result(min((each for each in seconds if each is not None), default=None))

    def _memory(self, function: str, template: GPUUnit) -> Memory:
        """A template that takes a function over begins anew."""
        memory = self.memories.get(function)
        if memory is None or memory.uid != template.metadata.uid:
            workers = len(self.units.store.by_index(WORKER_OF, template.metadata.uid))
            memory = self.memories[function] = Memory.of(template.metadata.uid, workers, _now())
        return memory

    def _observe(
        self, template: GPUUnit, limits: Serverless, found: tuple[GPUUnit, ...], memory: Memory
    ) -> Observed:
        now = _now()
        moment = Moment(now=now, hearing_since=self.hearing_since())
        memory.sightings.keep({unit.metadata.uid for unit in found})
        workers = tuple(
            worker_of(
                unit,
                template,
                self.beats.of(_function_of(unit), unit.metadata.name),
                sightings=memory.sightings,
                moment=moment,
            )
            for unit in found
        )
        depth = self.readings.of(limits.requestID)
        needed = None if depth is None else workers_for(depth, limits)
        is_held = memory.held_seconds(now) is not None
        seen = Observed(
            limits=limits,
            workers=workers,
            needed=memory.needed(needed, now, limits.idleTimeoutSeconds),
            free_stock=0 if is_held else self._free_stock(template),
            forbidden=forbidden(template),
            replacement_in_seconds=memory.replacement_in_seconds(now),
        )
        for seconds in memory.started(workers, now):
            self.meter.observe("serverless_worker_start_seconds", seconds)
        return seen

    def _note_shortage(self, template: GPUUnit, function: str, plan: Plan) -> None:
        waiting = self.short[template.spec.specName]
        if plan.shortage in (Shortage.CAPACITY, Shortage.WORKER_LOST):
            waiting.add(function)
        else:
            waiting.discard(function)

    def _free_stock(self, template: GPUUnit) -> int:
        return len(self.stock.store.by_index(FREE, template.spec.specName))

    async def _keep_consumer(self, seen: Observed) -> float | None:
        """Without it workers are not given anything: tried again soon."""
        limits = seen.limits
        if seen.forbidden in (Shortage.INVALID, Shortage.NO_TEMPLATE):
            return None
        most = limits.maxWorkers * limits.concurrency
        try:
            await self.consumers.ensure(limits.requestID, most_in_hand=most)
        except UnavailableError:
            return BROKER_SECONDS
        except BusError as error:
            log.warning("no consumer for now", reason=str(error))
            return BROKER_SECONDS
        return None

    async def _act(
        self,
        template: GPUUnit,
        found: tuple[GPUUnit, ...],
        seen: Observed,
        plan: Plan,
        memory: Memory,
    ) -> None:
        by_name = {unit.metadata.name: unit for unit in found}
        if plan.replaced:
            memory.note_replacement(_now())
        async with asyncio.TaskGroup() as tasks:
            for name in next_names(template.metadata.name, self._is_taken(template), plan.claims):
                claim = self._claim(template, seen.limits, name, memory)
                tasks.create_task(claim, name=f"claim {name}")
            for name in plan.delete:
                tasks.create_task(self._delete(by_name[name]), name=f"delete {name}")
            for name in plan.drain:
                tasks.create_task(self._drain(by_name[name]), name=f"drain {name}")
        if plan.claims and not any(each.phase is WorkerPhase.READY for each in seen.workers):
            self.meter.count("serverless_cold_starts_total")
        for worker in seen.workers:
            if worker.phase is WorkerPhase.DRAINING and worker.name not in plan.delete:
                await self._order(by_name[worker.name])

    def _is_taken(self, template: GPUUnit) -> Callable[[str], bool]:
        namespace = template.metadata.namespace
        return lambda name: self.units.store.get(Key(namespace, name)) is not None

    async def _claim(
        self, template: GPUUnit, limits: Serverless, name: str, memory: Memory
    ) -> None:
        failure = await self.workers.claim(template, limits, name)
        memory.note_claim(name, failure, _now())
        self.meter.count("serverless_claims_total", outcome=failure or "claimed")

    async def _drain(self, worker: GPUUnit) -> None:
        await self.workers.mark_draining(worker)
        await self._order(worker)

    async def _order(self, worker: GPUUnit) -> None:
        await self.workers.order_drain(_function_of(worker), worker.metadata.name)

    async def _delete(self, worker: GPUUnit) -> None:
        """One that cannot be deleted now is tried again with the next look."""
        try:
            await self.workers.delete(worker)
        except InventoryError as error:
            log.warning("worker not deleted", worker=worker.metadata.name, error=str(error))

    async def _report(
        self, template: GPUUnit, seen: Observed, plan: Plan, memory: Memory
    ) -> float | None:
        """Writes what differs; seconds until it has to, where that may wait."""
        depth = self.readings.of(seen.limits.requestID) or 0
        memory.status = status_of(
            seen,
            plan,
            depth=depth,
            oldest_wait_seconds=await self._oldest_wait(seen.limits.requestID, depth, memory),
            failure=memory.failure if memory.held_seconds(_now()) else "",
        )
        latest = self.units.store.get(template.metadata.key)
        if latest is None or latest.metadata.uid != template.metadata.uid:
            return None
        before = latest.status.serverless
        if memory.status == before:
            return None
        wait = memory.tells_in_seconds(_now(), TELL_SECONDS)
        if wait and before and _in_outline(before) == _in_outline(memory.status):
            return wait
        await self._tell(latest, memory.status)
        memory.told_at = _now()
        return None

    async def _tell(self, template: GPUUnit, status: ServerlessStatus) -> None:
        """The one member of the status that is ours, and at the version that was seen.

        The manager writes all others, as guarded: of two at once one sees a conflict and looks
        again, so that neither ever puts back what the other has written.
        """
        try:
            written = await self.client.patch(
                GPU_UNITS,
                template.metadata.key,
                {"status": {"serverless": codec.to_json(status)}},
                resource_version=template.metadata.resourceVersion,
                subresource="status",
            )
        except NotFoundError:
            return
        self.units.write_through(written)

    async def _oldest_wait(self, function: str, depth: int, memory: Memory) -> float:
        """Asked for seldom; between two answers the wait goes on."""
        if not depth:
            memory.oldest_at = None
        elif memory.asks_for_oldest(_now(), TELL_SECONDS):
            try:
                memory.oldest_at = (await self.depths.backlog(function)).oldest_at
            except BusError as error:
                log.debug("oldest wait unknown", reason=str(error))
        if memory.oldest_at is None:
            return 0.0
        return max((self.now() - memory.oldest_at).total_seconds(), 0.0)

    async def _bury(self, function: str) -> Result:
        """Only what the cluster itself shows to be gone, after a while, is taken for gone."""
        memory = self.memories.get(function)
        if memory is None or memory.uid:
            memory = self.memories[function] = Memory.of("", 0, _now())
        age = _now() - memory.began_at
        if age < self.orphan_seconds:
            return Result(requeue_after_seconds=self.orphan_seconds - age)
        if self.readings.of(function) is None:
            return Result(requeue_after_seconds=BROKER_SECONDS)
        try:
            async with asyncio.timeout(CATCH_UP_SECONDS):
                await self.catch_up()
        except TimeoutError:
            return Result(requeue_after_seconds=ORPHANS_AGAIN_SECONDS)
        if self.units.store.by_index(FUNCTION, function):
            return Result(requeue_after_seconds=0.0)
        return await self._end_orphans(function)

    async def _end_orphans(self, function: str) -> Result:
        try:
            has_workers = bool(self.units.store.by_index(SERVING, function))
            if not await self.orphans.end(function, has_workers=has_workers):
                return Result(requeue_after_seconds=ORPHANS_AGAIN_SECONDS)
            await self.consumers.remove(function)
        except BusError as error:
            log.warning("invocations without a function stay for now", reason=str(error))
            return Result(requeue_after_seconds=BROKER_SECONDS)
        del self.memories[function]
        return DONE


def _in_outline(status: ServerlessStatus) -> ServerlessStatus:
    """Without what changes with every call."""
    return attrs.evolve(status, busyWorkers=0, depth=0, oldestWaitSeconds=0)


def _function_of(worker: GPUUnit) -> str:
    return worker.spec.serverless.requestID if worker.spec.serverless else ""


def _now() -> float:
    return asyncio.get_running_loop().time()
