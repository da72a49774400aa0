"""Reconcile active units: decide whether each may start, keep its children, write its status."""

from collections.abc import Callable
from typing import Final, assert_never

import attrs
import structlog

from gpuruntime.controller.controller import DONE, Result
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.kube.events import EventRecorder, Note, record_note
from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.reasons import UnitReason
from gpuruntime.models.kinds.tombstones import Tombstone
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.operations.lookup.caches import FUNCTION, OPERATION
from gpuruntime.operations.lookup.repository import owner_of
from gpuruntime.operations.tombstones import Tombstones
from gpuruntime.reconcilers.caches import Caches
from gpuruntime.reconcilers.functions.declaration_plan import template_verdict
from gpuruntime.reconcilers.storage.holders import StorageHolders
from gpuruntime.reconcilers.storage.mount_plan import Blocked, Mountable
from gpuruntime.reconcilers.unit.reclaim_stock import StockReclaimer, may_take_again
from gpuruntime.reconcilers.unit.runner import Runner
from gpuruntime.reconcilers.unit.start_locks import StartLocks
from gpuruntime.reconcilers.unit.start_plan import (
    Candidate,
    ClaimAgain,
    Gate,
    Lose,
    Remove,
    Start,
    Term,
    Wait,
    gate,
    has_started,
)
from gpuruntime.reconcilers.unit.status import Verdict
from gpuruntime.strict import validation
from gpuruntime.strict.structure import Problem

log = structlog.get_logger()

# A unit that has lost its stock retries after this many seconds, and as soon as stock appears.
RETRY_CLAIM_SECONDS: Final = 30.0


@attrs.frozen(kw_only=True, slots=True)
class UnitReconciler:
    client: Client
    caches: Caches
    runner: Runner
    reclaimer: StockReclaimer
    tombstones: Tombstones
    holds: StorageHolders
    recorder: EventRecorder
    term: Callable[[], Term]
    starts: StartLocks

    async def reconcile(self, key: Key) -> Result:
        unit = self.caches.units.store.get(key)
        if unit is None:
            self.runner.secrets.forget(key)
            return DONE
        async with self.starts.turn(unit):
            return await self._reconcile(key)

    async def _reconcile(self, key: Key) -> Result:
        """Reconcile the unit under its lock. It is read again, as it may have changed."""
        unit = self.caches.units.store.get(key)
        if unit is None or provenance.is_terminating(unit):
            return DONE
        problems = validation.unit_problems(unit)
        if problems:
            await self.runner.report(unit, invalid_verdict(problems))
            return DONE
        return await self._carry_out(unit, await self._gate(unit))

    async def _carry_out(self, unit: GPUUnit, found: Gate) -> Result:
        match found:
            case Start() if unit.spec.is_function_template:
                return await self._declare(unit)
            case Start():
                return await self._start(unit)
            case Wait(message, seconds):
                await self._report_waiting(unit, UnitReason.DEPLOYMENT_PROGRESSING, message)
                return Result(requeue_after_seconds=seconds)
            case Lose(message):
                await self._report_waiting(unit, UnitReason.OPERATION_CONFLICT, message)
                return DONE
            case Remove():
                await self._remove(unit)
                return DONE
            case ClaimAgain(message):
                return await self._claim_again(unit, message)
            case _:
                assert_never(found)

    async def _start(self, unit: GPUUnit) -> Result:
        """Run the unit once every storage that it mounts is ready and held by this unit alone."""
        if unit.spec.suspended or not unit.spec.storageMounts:
            return await self.runner.run(unit)
        match await self.holds.take(unit):
            case Mountable() as mounts:
                return await self.runner.run(unit, mounts)
            case Blocked() as blocked:
                return await self.runner.wait(unit, blocked)

    async def _declare(self, unit: GPUUnit) -> Result:
        """Report on a unit that declares a function; its workers are separate units."""
        await self.runner.stop(unit)
        function = unit.spec.serverless.requestID if unit.spec.serverless else ""
        verdict = template_verdict(
            unit,
            owner=owner_of(self.caches.units.store.by_index(FUNCTION, function)),
            knows_broker=bool(self.runner.options.sidecar.broker_url),
            pods=self.caches.pods_of(unit.metadata.key),
        )
        await self.runner.report(unit, verdict)
        return DONE

    async def _gate(self, unit: GPUUnit) -> Gate:
        """Decide whether the unit may start.

        The unit itself comes from the cache. Its tombstone, its stock, its rivals and, if it has
        rivals, all their Deployments are read live.
        """
        if has_started(unit, has_deployment=self.runner.deployment_of(unit) is not None):
            return Start()
        rivals = await self._rivals(unit)
        return gate(
            Candidate(unit=unit, has_started=bool(rivals) and await self._has_started(unit)),
            rivals=rivals,
            tombstone=await self._tombstone(unit),
            stock=await self._stock(unit),
            unsettled_seconds=self._unsettled_seconds(rivals),
        )

    def _unsettled_seconds(self, rivals: tuple[Candidate, ...]) -> float:
        """Return for how many seconds a request in flight may still start a rival.

        Such a request is one of an earlier leader, or one of ours whose answer was lost.
        """
        lost = self.starts.unsettled_seconds(each.unit.metadata.key for each in rivals)
        return max(self.term().unsettled_seconds, lost)

    async def _has_started(self, unit: GPUUnit) -> bool:
        """Read the Deployment live: the caches may lack a start that an earlier leader sent."""
        return has_started(unit, has_deployment=await self.runner.has_live_deployment(unit))

    async def _rivals(self, unit: GPUUnit) -> tuple[Candidate, ...]:
        operation = provenance.operation_of(unit)
        if not operation:
            return ()
        cached = tuple(self.caches.units.store.by_index(OPERATION, operation))
        rivals = []
        for each in cached:
            if each.metadata.uid == unit.metadata.uid:
                continue
            live = await self._live_unit(each.metadata.key)
            if live is not None and live.metadata.uid == each.metadata.uid:
                rivals.append(Candidate(unit=live, has_started=await self._has_started(live)))
        return tuple(rivals)

    async def _tombstone(self, unit: GPUUnit) -> Tombstone | None:
        operation = provenance.operation_of(unit)
        return await self.tombstones.find(operation) if operation else None

    async def _stock(self, unit: GPUUnit) -> GPUUnit | None:
        source = provenance.source_of(unit)
        return await self._live_unit(source) if source else None

    async def _live_unit(self, key: Key) -> GPUUnit | None:
        try:
            return await self.client.get(GPU_UNITS, key)
        except NotFoundError:
            return None

    async def _claim_again(self, unit: GPUUnit, message: str) -> Result:
        """Claim other stock. Success changes the unit, and that event reconciles it again."""
        if await self.reclaimer.claim_for(unit, self._own_stock(unit)):
            return DONE
        text = f"{message}; no ready stock of {unit.spec.specName} is left: waits for some"
        await self._report_waiting(unit, UnitReason.CLAIM_LOST, text)
        return Result(requeue_after_seconds=RETRY_CLAIM_SECONDS)

    def _own_stock(self, unit: GPUUnit) -> tuple[GPUUnit, ...]:
        """Return the stock that this unit may take again: claimed for it, or named by it."""
        stock = self.caches.stock.store
        source = provenance.source_of(unit)
        named = stock.get(source) if source else None
        claimed = stock.by_index(OPERATION, provenance.operation_of(unit))
        return tuple(each for each in (*claimed, named) if each and may_take_again(each, unit))

    async def _remove(self, unit: GPUUnit) -> None:
        try:
            await self.client.delete(GPU_UNITS, unit.metadata.key, uid=unit.metadata.uid)
        except NotFoundError:
            return
        log.warning("unit of a finished operation removed", uid=unit.metadata.uid)
        text = f"operation {provenance.operation_of(unit)} has ended: its unit is removed"
        record_note(
            self.recorder, GPU_UNITS, unit, Note("OperationFinished", text, is_warning=True)
        )

    async def _report_waiting(self, unit: GPUUnit, reason: UnitReason, message: str) -> None:
        await self.runner.report(unit, Verdict(reason=reason, message=message))


def invalid_verdict(problems: tuple[Problem, ...]) -> Verdict:
    message = "; ".join(str(problem) for problem in problems)
    return Verdict(reason=validation.reason_of(problems), message=message)
