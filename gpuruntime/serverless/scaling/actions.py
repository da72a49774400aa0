"""Carries out what a plan intends for a function; refusals become times of a retry."""

import asyncio
from typing import Final, assert_never

import attrs
import structlog

from gpuruntime.bus.errors import BusError, UnavailableError
from gpuruntime.concurrency.clock import loop_time
from gpuruntime.meter import Meter
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.operations.errors import OperationsError
from gpuruntime.serverless.orphans import Takeovers, UndeclaredFunctions
from gpuruntime.serverless.scaling.consumers import Consumers
from gpuruntime.serverless.scaling.history import Histories
from gpuruntime.serverless.scaling.observation import function_of
from gpuruntime.serverless.scaling.plan import (
    Claim,
    Delete,
    Drain,
    EndAllInvocations,
    EndEarlierInvocations,
    EnsureConsumer,
    Intent,
    Observed,
    OrderDrain,
    Plan,
    earliest,
)
from gpuruntime.serverless.scaling.worker_units import WorkerUnits

log = structlog.get_logger()

BROKER_SECONDS: Final = 5.0


@attrs.frozen(kw_only=True, slots=True)
class Actions:
    workers: WorkerUnits
    consumers: Consumers
    takeovers: Takeovers
    undeclared: UndeclaredFunctions
    histories: Histories
    meter: Meter

    async def act(self, seen: Observed, plan: Plan) -> float | None:
        """Carry out all intents at once; return in how many seconds to retry, or None."""
        if seen.owner is None:
            self.takeovers.forget(seen.function)
        else:
            spec_name = seen.owner.template.spec.specName
            self.histories.note_shortage(seen.function, spec_name, is_short=plan.waits_for_stock)
        async with asyncio.TaskGroup() as tasks:
            done = [
                tasks.create_task(self._carry_out(intent, seen), name=str(intent))
                for intent in plan.intents
            ]
        if plan.is_cold_start:
            self.meter.count("serverless_cold_starts_total")
        return earliest(*(each.result() for each in done))

    async def _carry_out(self, intent: Intent, seen: Observed) -> float | None:
        function = seen.function
        match intent:
            case EnsureConsumer():
                return await self._ensure_consumer(function)
            case EndEarlierInvocations(declarer):
                return await self.takeovers.advance(function, declarer, depth=seen.depth)
            case EndAllInvocations():
                return await self._end_all(function)
            case Claim():
                return await self._claim(function, intent)
            case Delete(name):
                await self._delete(seen.units[name])
            case Drain(name, is_replacement):
                if is_replacement:
                    self.histories.declared[function].note_replacement(loop_time())
                await self.workers.mark_draining(seen.units[name])
                await self._order_drain(seen.units[name])
            case OrderDrain(name):
                await self._order_drain(seen.units[name])
            case _:
                assert_never(intent)
        return None

    async def _end_all(self, function: str) -> float | None:
        retry_seconds = await self.undeclared.end(function)
        if retry_seconds is None:
            self.histories.undeclared.pop(function, None)
        return retry_seconds

    async def _ensure_consumer(self, function: str) -> float | None:
        try:
            await self.consumers.ensure(function)
        except UnavailableError:
            return BROKER_SECONDS
        except BusError as error:
            log.warning("consumer not created", reason=str(error))
            return BROKER_SECONDS
        return None

    async def _claim(self, function: str, claim: Claim) -> float | None:
        """Claim stock for a worker; after a refusal no claim is made for a while."""
        refusal = await self.workers.claim(claim.template, claim.function, claim.name)
        self.meter.count("serverless_claims_total", outcome=refusal or "claimed")
        history = self.histories.declared[function]
        history.note_claim(claim.name, refusal, loop_time())
        return history.held_seconds(loop_time())

    async def _order_drain(self, worker: GPUUnit) -> None:
        await self.workers.order_drain(function_of(worker), worker)

    async def _delete(self, worker: GPUUnit) -> None:
        """Delete the worker; if that fails, the next reconcile retries it."""
        try:
            await self.workers.delete(worker)
        except OperationsError as error:
            log.warning("worker not deleted", worker=worker.metadata.name, error=str(error))
