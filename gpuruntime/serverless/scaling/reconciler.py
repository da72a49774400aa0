"""Reconciles one function: its workers, its consumer, and the status of both.

A key is a function. A slow step delays no other function. A new leader can observe everything
again, except times.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Final

import attrs
import structlog

from gpuruntime.bus.errors import BusError, UnavailableError
from gpuruntime.concurrency.clock import loop_time
from gpuruntime.controller.controller import Result
from gpuruntime.meter import Meter
from gpuruntime.models.kinds.functions import Serverless
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.operations.errors import OperationsError
from gpuruntime.operations.lookup.caches import FREE, FUNCTION, WORKER_OF, Cache
from gpuruntime.operations.lookup.repository import owner_of
from gpuruntime.serverless.orphans import Takeovers, UndeclaredFunctions
from gpuruntime.serverless.scaling.consumers import Consumers
from gpuruntime.serverless.scaling.heartbeats import Heartbeats
from gpuruntime.serverless.scaling.history import FunctionHistory
from gpuruntime.serverless.scaling.observation import Moment, forbidden, worker_of
from gpuruntime.serverless.scaling.plan import (
    DRAINING_SECONDS,
    Observed,
    Plan,
    Shortage,
    WorkerPhase,
    decide,
    next_names,
    workers_for,
)
from gpuruntime.serverless.scaling.queue_depths import DepthPoller
from gpuruntime.serverless.scaling.status import FunctionStatus
from gpuruntime.serverless.scaling.worker_units import WorkerUnits
from gpuruntime.serverless.scaling.workers import strays_of

log = structlog.get_logger()

BROKER_SECONDS: Final = 5.0
# Per function, so that a large one does not flood the cluster; the rest follows at once.
MOST_AT_ONCE: Final = 16


@attrs.frozen(kw_only=True, slots=True)
class Scaler:
    units: Cache[GPUUnit]
    stock: Cache[GPUUnit]
    workers: WorkerUnits
    depth_poller: DepthPoller
    beats: Heartbeats
    consumers: Consumers
    status: FunctionStatus
    gone: UndeclaredFunctions
    takeovers: Takeovers
    receiving_since: Callable[[], float | None]
    meter: Meter
    histories: dict[str, FunctionHistory] = attrs.field(factory=dict)
    # By function, and by the uid of the unit that the strays were created from.
    strays: dict[str, dict[str, FunctionHistory]] = attrs.field(factory=dict)
    # By specName, the functions that wait for stock of it.
    short: defaultdict[str, set[str]] = attrs.field(factory=lambda: defaultdict(set))

    async def reconcile(self, function: str) -> Result:
        strays = await self._remove_strays(function)
        result = await self._reconcile(function)
        return Result.earliest(strays, result.requeue_after_seconds)

    async def _reconcile(self, function: str) -> Result:
        template = owner_of(self.units.store.by_index(FUNCTION, function))
        if template is None or template.spec.serverless is None:
            self._forget(function)
            self.takeovers.forget(function)
            return await self.gone.reconcile(function)
        self.gone.forget(function)
        memory = self._memory(function, template)
        found = tuple(self.units.store.by_index(WORKER_OF, template.metadata.uid))
        depth = self.depth_poller.of(function)
        seen = self._observe(template, template.spec.serverless, found, memory, depth)
        plan = decide(seen)
        self._note_shortage(template, function, plan)
        async with asyncio.TaskGroup() as tasks:
            consumer = tasks.create_task(self._keep_consumer(seen), name="consumer")
            left = tasks.create_task(
                self.takeovers.advance(function, template.metadata.uid, depth=depth), name="left"
            )
            tasks.create_task(self._act(template, found, seen, plan, memory), name="act")
        told = await self.status.report(template, seen, plan, memory, depth=depth or 0)
        return Result.earliest(
            consumer.result(),
            left.result(),
            plan.look_again_seconds,
            memory.falls_in_seconds(loop_time(), seen.limits.idleTimeoutSeconds),
            memory.held_seconds(loop_time()),
            told,
        )

    def touch(self, function: str) -> bool:
        """Note a call just now; return whether workers are wanted for the function already."""
        memory = self.histories.get(function)
        if memory is None:
            return False
        memory.touch(loop_time())
        return memory.status.desiredWorkers > 0

    async def _remove_strays(self, function: str) -> float | None:
        """Drain and delete stray workers; return when to continue, or None if there are none."""
        before = self.strays.get(function, {})
        histories = self.strays[function] = {}
        for template, found in tuple(strays_of(self.units, function)):
            uid = template.metadata.uid
            memory = histories[uid] = before.get(uid) or FunctionHistory.of(
                uid, len(found), loop_time()
            )
            limits = found[0].spec.serverless or Serverless(requestID=function)
            seen = self._observe(template, limits, found, memory, 0)
            seen = attrs.evolve(seen, forbidden=Shortage.NO_TEMPLATE)
            await self._act(template, found, seen, decide(seen), memory)
        if histories:
            return DRAINING_SECONDS
        del self.strays[function]
        return None

    def _forget(self, function: str) -> None:
        self.histories.pop(function, None)
        for waiting in self.short.values():
            waiting.discard(function)

    def _memory(self, function: str, template: GPUUnit) -> FunctionHistory:
        """Return the history of the function; a template that takes it over gets a new one."""
        memory = self.histories.get(function)
        if memory is None or memory.uid != template.metadata.uid:
            workers = len(self.units.store.by_index(WORKER_OF, template.metadata.uid))
            memory = self.histories[function] = FunctionHistory.of(
                template.metadata.uid, workers, loop_time()
            )
        return memory

    def _observe(
        self,
        template: GPUUnit,
        limits: Serverless,
        found: tuple[GPUUnit, ...],
        memory: FunctionHistory,
        depth: int | None,
    ) -> Observed:
        now = loop_time()
        moment = Moment(now=now, receiving_since=self.receiving_since())
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
        """Create the consumer, without which workers get nothing; retry soon if that fails."""
        limits = seen.limits
        if seen.forbidden in (Shortage.INVALID, Shortage.NO_TEMPLATE):
            return None
        most = limits.maxWorkers * limits.concurrency
        try:
            await self.consumers.ensure(limits.requestID, most_in_hand=most)
        except UnavailableError:
            return BROKER_SECONDS
        except BusError as error:
            log.warning("consumer not created", reason=str(error))
            return BROKER_SECONDS
        return None

    async def _act(
        self,
        template: GPUUnit,
        found: tuple[GPUUnit, ...],
        seen: Observed,
        plan: Plan,
        memory: FunctionHistory,
    ) -> None:
        by_name = {unit.metadata.name: unit for unit in found}
        if plan.replaced:
            memory.note_replacement(loop_time())
        async with asyncio.TaskGroup() as tasks:
            claims = min(plan.claims, MOST_AT_ONCE)
            for name in next_names(template.metadata.name, self._is_taken(template), claims):
                claim = self._claim(template, seen.limits, name, memory)
                tasks.create_task(claim, name=f"claim {name}")
            for name in plan.delete[:MOST_AT_ONCE]:
                tasks.create_task(self._delete(by_name[name]), name=f"delete {name}")
            for name in plan.drain[:MOST_AT_ONCE]:
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
        self, template: GPUUnit, limits: Serverless, name: str, memory: FunctionHistory
    ) -> None:
        failure = await self.workers.claim(template, limits, name)
        memory.note_claim(name, failure, loop_time())
        self.meter.count("serverless_claims_total", outcome=failure or "claimed")

    async def _drain(self, worker: GPUUnit) -> None:
        await self.workers.mark_draining(worker)
        await self._order(worker)

    async def _order(self, worker: GPUUnit) -> None:
        await self.workers.order_drain(_function_of(worker), worker)

    async def _delete(self, worker: GPUUnit) -> None:
        """Delete the worker; if that fails, the next reconcile retries it."""
        try:
            await self.workers.delete(worker)
        except OperationsError as error:
            log.warning("worker not deleted", worker=worker.metadata.name, error=str(error))


def _function_of(worker: GPUUnit) -> str:
    return worker.spec.serverless.requestID if worker.spec.serverless else ""
