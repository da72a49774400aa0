"""The claim protocol creates a unit from claimed stock, once for each operation.

Each attempt runs these steps. `replay` finds what an earlier attempt left. `claim` claims a stock
unit, or takes over the claim of an earlier attempt of the same operation. `create` creates the
caller's unit. A claim that this attempt made is released once the unit certainly does not use it.
`plan` decides what follows from each answer.

There are two writes before the answer: the claim on the stock, and the unit. If the process
crashes or an answer is lost between them, at most the claim remains. A retry uses that claim;
otherwise the manager frees it after GRACE_SECONDS (`claim_timing`).
"""

import asyncio
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, TypeVar, assert_never

import attrs

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.errors import GpuRuntimeError
from gpuruntime.kube.errors import AlreadyExistsError, ApiError, KubeError, NotFoundError
from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.tombstones import Tombstone
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.operations.claim import plan as claim_plan
from gpuruntime.operations.claim.plan import (
    Answer,
    AnswerLost,
    Claim,
    ClaimRequest,
    Created,
    Fail,
    Failure,
    NameExists,
    Outcome,
    ReadByName,
    Refused,
    StartOver,
    UnitAbsent,
    UnitFound,
)
from gpuruntime.operations.claim.stock import StockClaims
from gpuruntime.operations.context import OperationContext
from gpuruntime.operations.errors import (
    ClusterUnavailableError,
    InsufficientCapacityError,
    translated,
)
from gpuruntime.operations.lookup.caches import FUNCTION, OPERATION
from gpuruntime.operations.objects import UnitOrder, active_unit
from gpuruntime.operations.storages import Storages
from gpuruntime.operations.tombstones import Tombstones

ResultT = TypeVar("ResultT")

# With these statuses the API server has rejected the request without carrying it out.
REFUSAL_STATUSES: Final = frozenset({400, 401, 403, 404, 409, 413, 415, 422, 429})


@attrs.define(kw_only=True, slots=True)
class Timings:
    """Seconds spent in each step, over all rounds of an attempt."""

    replay: float = 0.0
    claim: float = 0.0
    create: float = 0.0


@attrs.frozen(kw_only=True, slots=True)
class Creation:
    unit: GPUUnit
    is_replay: bool
    timings: Timings


class ClaimAttempt:
    """An attempt of an operation. A process runs attempts of one operation one after another."""

    def __init__(
        self,
        order: UnitOrder,
        context: OperationContext,
        *,
        storages: Storages,
        stock: StockClaims,
        tombstones: Tombstones,
    ) -> None:
        self._order = order
        self._context = context
        self._caches = context.caches
        self._storages = storages
        self._stock = stock
        self._tombstones = tombstones
        self._request = ClaimRequest(
            operation_id=order.request.operationID,
            request_hash=order.request_hash,
            claimant=order.key,
            spec_name=order.request.specName,
            image=order.request.image,
            accepted_at=order.accepted_at,
        )
        # Claims of our operation to skip, by uid and version: re-stamping them failed.
        self._claims_to_skip: set[tuple[str, str]] = set()
        self._is_first_round = True
        self._storage_uids: Mapping[str, str] = {}

    async def run(self) -> Creation:
        """Return the unit, created now or by an earlier attempt.

        Raise OperationsError, StrictError if the cluster's own validation rejects the unit, or a
        KubeError of a read, which the caller translates.
        """
        timings = Timings()
        while True:
            answer = await self._round(timings)
            if isinstance(answer, Answer):
                return Creation(unit=answer.unit, is_replay=answer.is_replay, timings=timings)
            self._is_first_round = False

    async def _round(self, timings: Timings) -> Answer | StartOver:
        with _timed(timings, "replay"):
            unit = await self.replay()
        if unit is not None:
            return Answer(unit=unit, is_replay=True)
        if self._is_first_round:
            self._storage_uids = await self._check_storages()
        with _timed(timings, "claim"):
            claimed = await self.claim()
        if isinstance(claimed, Answer | StartOver):
            return claimed
        with _timed(timings, "create"):
            return await self.create(claimed)

    async def replay(self) -> GPUUnit | None:
        """Return the unit of an earlier attempt, read live, or None.

        Raise an error if the operation is finished or was used for another request, or if the name
        or the function is taken.
        """
        others = (self._caches.pools, self._caches.storages)
        if any(each.store.by_index(OPERATION, self._request.operation_id) for each in others):
            raise claim_plan.operation_conflict(self._request.operation_id)
        cached = self._caches.units.store.by_index(OPERATION, self._request.operation_id)
        ours = [each for each in cached if self._is_ours(each)]
        if cached and not ours:
            raise claim_plan.operation_conflict(self._request.operation_id)
        if ours or not self._is_first_round:
            return await self._confirmed(ours[0].metadata.key if ours else self._order.key)
        await self._demand_free_names()
        return None

    async def _confirmed(self, key: Key) -> GPUUnit | None:
        """Return our unit as it is live, or None.

        A terminating unit has finished its operation. If the unit is gone, or a late create has
        brought it back, the tombstone decides.
        """
        unit = await self._read(key)
        ours = unit if unit is not None and self._is_ours(unit) else None
        if ours is not None and provenance.is_terminating(ours):
            raise claim_plan.operation_finished(self._request.operation_id)
        await self._demand_unfinished(ours)
        return ours

    async def _demand_free_names(self) -> None:
        """Reject a taken name or function early, before any stock is claimed.

        No guarantee depends on this check. The create fails for a taken name, and the manager
        rejects a second declarer of a function.
        """
        cached = self._caches.units.store.get(self._order.key)
        if cached is not None:
            unit = await self._read(self._order.key)
            if unit is not None and provenance.operation_of(unit) != self._request.operation_id:
                raise claim_plan.name_taken(self._order.key)
        function = self._order.request.serverless
        if function is None or function.workerOf:
            return
        if self._caches.units.store.by_index(FUNCTION, function.requestID):
            raise claim_plan.function_taken(function.requestID)

    async def _check_storages(self) -> Mapping[str, str]:
        """Check the storages and return their uids; for a worker, those of its function's unit."""
        order = self._order
        names = [mount.name for mount in order.request.storageMounts]
        found = await self._storages.demand_all(names, order.scope)
        return found if order.is_callers else order.storage_uids

    async def claim(self) -> Claim | Answer | StartOver | None:
        """Take over the claim of an earlier attempt, or make a new one.

        Return None if the unit takes no stock. The tombstone is read while a new claim is made.
        """
        if not self._order.takes_stock:
            await self._demand_unfinished()
            return None
        if stock := self._own_claim():
            await self._demand_unfinished()
            return await self._reuse(stock)
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(_as_value(self._find_tombstone()), name="find tombstone")
            taken = await _as_value(self._claim_stock())
        tombstone = reading.result()
        move = claim_plan.after_claim(tombstone, taken, self._request)
        if isinstance(move, Fail):
            if isinstance(taken, Claim):
                await self._stock.release(taken)
            raise move.error
        return move

    async def _find_tombstone(self) -> Tombstone | None:
        """Return the tombstone, or None.

        The read starts one step of the loop late, so that the claim's PATCH goes out first.
        """
        await asyncio.sleep(0)
        return await self._tombstones.find(self._request.operation_id)

    async def _reuse(self, stock: GPUUnit) -> Claim | StartOver:
        claim = await self._stock.restamp(stock, self._request)
        if claim is None:
            self._claims_to_skip.add(_version_of(stock))
            return StartOver()
        return claim

    async def _claim_stock(self) -> Claim | Answer:
        if claim := await self._stock.claim(self._request):
            return claim
        unit = await self._read(self._order.key)
        if unit is not None and self._is_ours(unit):
            return Answer(unit=unit, is_replay=True)
        raise InsufficientCapacityError(
            f"no ready stock of {self._request.spec_name} is left: "
            f"send operation {self._request.operation_id} again later, "
            "or ask for a flavour that GET /api/v1/flavours shows as available"
        )

    def _own_claim(self) -> GPUUnit | None:
        for stock in self._caches.stock.store.by_index(OPERATION, self._request.operation_id):
            is_ours = claim_plan.is_claim_of(stock, self._request)
            if is_ours and _version_of(stock) not in self._claims_to_skip:
                return stock
        return None

    async def create(self, claim: Claim | None) -> Answer | StartOver:
        """Create the unit, and carry out the moves that the plan derives from each outcome."""
        stock_uid = claim.stock.metadata.uid if claim else ""
        outcome = await self._send(claim)
        while True:
            move = claim_plan.after_create(outcome, self._request, stock_uid)
            if isinstance(move, Answer | Fail) and move.releases and claim:
                await self._stock.release(claim)
            match move:
                case Answer() | StartOver():
                    return move
                case Fail():
                    raise move.error
                case ReadByName():
                    outcome = await self._read_outcome(move.lost)
                case _:
                    assert_never(move)

    async def _send(self, claim: Claim | None) -> Outcome:
        if claim and self._is_late(claim):
            return Refused(
                ClusterUnavailableError(
                    f"unit {self._order.key}: the cluster answered too slowly to use its claim; "
                    f"send operation {self._request.operation_id} again"
                )
            )
        stock = claim.stock if claim else None
        body = active_unit(self._order, stock, self._storage_uids)
        try:
            unit = await self._context.client.create(
                GPU_UNITS, body, namespace=self._order.key.namespace
            )
        except KubeError as error:
            return _outcome_of(error)
        self._caches.units.write_through(unit)
        return Created(unit)

    def _is_late(self, claim: Claim) -> bool:
        age = loop_time() - claim.sent_at
        return age > self._context.options.create_bound_seconds

    async def _read_outcome(self, lost: Failure | None) -> Outcome:
        try:
            unit = await self._read(self._order.key)
        except KubeError as error:
            return UnitAbsent(lost or translated(error))
        return UnitAbsent(lost) if unit is None else UnitFound(unit, lost)

    async def _demand_unfinished(self, live: GPUUnit | None = None) -> None:
        """Raise an error if the operation is finished; `live` is its unit, if there is one."""
        tombstone = await self._tombstones.find(self._request.operation_id)
        if tombstone is not None and claim_plan.ends(tombstone, live):
            raise claim_plan.operation_finished(self._request.operation_id)

    async def _read(self, key: Key) -> GPUUnit | None:
        try:
            unit = await self._context.client.get(GPU_UNITS, key)
        except NotFoundError:
            return None
        self._caches.units.write_through(unit)
        return unit

    def _is_ours(self, unit: GPUUnit) -> bool:
        return provenance.is_of(unit, self._request.operation_id, self._request.request_hash)


def _outcome_of(error: KubeError) -> Outcome:
    """Translate an error of the create into an outcome.

    Only a rejection by the API server proves that the unit does not exist and will not appear
    later.
    """
    if isinstance(error, AlreadyExistsError):
        return NameExists()
    if isinstance(error, ApiError) and error.status in REFUSAL_STATUSES:
        return Refused(translated(error))
    return AnswerLost(translated(error))


async def _as_value(work: Awaitable[ResultT]) -> ResultT | GpuRuntimeError:
    """Return an error as a value, so that it does not cancel the task beside it."""
    try:
        return await work
    except GpuRuntimeError as error:
        return error


@contextmanager
def _timed(timings: Timings, step: str) -> Iterator[None]:
    started = loop_time()
    try:
        yield
    finally:
        taken = loop_time() - started
        setattr(timings, step, getattr(timings, step) + taken)


def _version_of(stock: GPUUnit) -> tuple[str, str]:
    return (stock.metadata.uid, stock.metadata.resourceVersion)
