"""Claiming stock: the guarded PATCH that gives a ready stock unit to exactly one claimant.

Whoever needs an envelope goes this way: the API for a caller's unit, the manager for a unit
whose claim was lost. The stock object is the single arbiter; a claim mark is made, re-stamped
and taken back only at the version that was observed.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from random import Random
from typing import Final, assert_never

import structlog

from gpuruntime.concurrency.keyed_lock import KeyedLock
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import (
    ApiError,
    BadRequestError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    KubeError,
    MalformedAnswerError,
    NotFoundError,
    OutcomeUnknownError,
)
from gpuruntime.meter import Meter, NullMeter
from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit
from gpuruntime.operations.claim import plan as claim_plan
from gpuruntime.operations.claim.plan import (
    Claim,
    Elsewhere,
    Reusable,
    Seen,
    StillFree,
    Wanted,
    Won,
)
from gpuruntime.operations.claim.sharding import StockShards
from gpuruntime.operations.lookup.caches import FREE, SOURCE_UID, Cache, free_with
from gpuruntime.operations.lookup.shared_reads import SharedReads, list_all

# So many of the free units are looked at: enough for callers to spread, and never more work.
HEAD: Final = 128
# For stock that is about to be given back, as long as its three requests may take.
PATIENCE_SECONDS: Final = 1.0
PAUSE_SECONDS: Final = 0.05
# Reasons that may lie in the very object: its annotations are full, a policy speaks of it.
OF_THE_OBJECT: Final = (BadRequestError, InvalidError, ForbiddenError)
# As many as that are no fault of single objects: trying all the others helps nobody.
MOST_REFUSALS: Final = 16

log = structlog.get_logger()


class Refusals:
    """Lives as long as one claim, in which what is in here is not tried again."""

    def __init__(self) -> None:
        self._uids: set[str] = set()
        self._last: ApiError | None = None

    def __contains__(self, uid: str) -> bool:
        return uid in self._uids

    @property
    def are_too_many(self) -> bool:
        return len(self._uids) >= MOST_REFUSALS

    def add(self, stock: GPUUnit, error: ApiError) -> None:
        self._uids.add(stock.metadata.uid)
        self._last = error
        log.warning("stock refuses its claim", stock=str(stock.metadata.key), error=str(error))

    def demand_right(self) -> None:
        """Raises ForbiddenError where that was the last word: the right itself may be missing."""
        if isinstance(self._last, ForbiddenError):
            raise self._last


class Reservations:
    """By specName and uid; nothing here outlives the write that it covers."""

    def __init__(self) -> None:
        self._held: dict[str, dict[str, asyncio.Future[None]]] = {}

    def has(self, spec_name: str, uid: str) -> bool:
        return uid in self._held.get(spec_name, ())

    @contextmanager
    def hold(self, spec_name: str, uid: str) -> Iterator[None]:
        """Whoever picked the unit in the same step, without an await between, is its only one."""
        of_spec = self._held.setdefault(spec_name, {})
        done = of_spec[uid] = asyncio.get_running_loop().create_future()
        try:
            yield
        finally:
            done.set_result(None)
            del of_spec[uid]
            if not of_spec:
                del self._held[spec_name]

    async def settled(self, spec_name: str) -> None:
        """Returns once the writes that are in flight now have ended, one way or the other."""
        if in_flight := list(self._held.get(spec_name, {}).values()):
            await asyncio.wait(in_flight)


class StockClaims:
    """One for a process: its callers share what is reserved and what was listed."""

    def __init__(
        self,
        client: Client,
        *,
        stock: Cache[GPUUnit],
        units: Cache[GPUUnit],
        namespace: str,
        now: Callable[[], datetime],
        rng: Random,
        meter: Meter = NullMeter(),
    ) -> None:
        self._client = client
        self._stock = stock
        self._units = units
        self._namespace = namespace
        self._now = now
        self._meter = meter
        self._reservations = Reservations()
        self._peers = StockShards(rng)
        self._beyond_share = KeyedLock[str]()
        self._lists = SharedReads(self._list)

    async def claim(self, wanted: Wanted) -> Claim | None:
        """None: a consistent read, begun after this call, showed nothing that could be claimed.

        A claim that our operation holds already is re-stamped. Stock that refuses the mark for
        its own sake is passed over. Raises OperationConflictError where our operation holds a
        claim for another request, and KubeError.
        """
        passed: set[str] = set()
        refusals = Refusals()
        while stock := self._pick(self._known(wanted, refusals), wanted, passed, ours_only=True):
            if claim := await self._try(stock, wanted, refusals):
                return claim
            passed.add(stock.metadata.uid)
        if self._pick(self._known(wanted, refusals), wanted, passed):
            # What is left is the share of others: one caller at a time meets them there.
            async with self._beyond_share.of(wanted.spec_name):
                stock = self._pick(self._known(wanted, refusals), wanted, passed)
                if stock and (claim := await self._try(stock, wanted, refusals)):
                    return claim
        return await self._claim_listed(wanted, refusals)

    async def restamp(
        self, stock: GPUUnit, wanted: Wanted, refusals: Refusals | None = None
    ) -> Claim | None:
        """Takes over our operation's claim from another attempt.

        None: it is no longer there, or the cluster refuses the new mark.
        """
        sent_at = asyncio.get_running_loop().time()
        attempt = self._peers.new_attempt()
        seen = await self._mark(stock, wanted, attempt, refusals or Refusals())
        if not isinstance(seen, Won):
            return None
        return Claim(stock=seen.stock, is_owned=False, sent_at=sent_at)

    async def release(self, claim: Claim) -> None:
        """Only by the attempt that made the claim, at the version that its own PATCH left.

        What fails here is left to the grace.
        """
        if not claim.is_owned:
            return
        metadata = claim.stock.metadata
        with self._reservations.hold(claim.stock.spec.specName, metadata.uid):
            try:
                freed = await self._client.patch(
                    GPU_UNITS,
                    metadata.key,
                    provenance.no_claim_marks(),
                    resource_version=metadata.resourceVersion,
                )
            except KubeError as error:
                log.warning("claim left to its grace", stock=str(metadata.key), error=str(error))
                return
            self._stock.write_through(freed)

    async def _claim_listed(self, wanted: Wanted, refusals: Refusals) -> Claim | None:
        """The cache shows nothing: our own writes in flight end first, then a LIST decides."""
        loop = asyncio.get_running_loop()
        patience_ends_at = loop.time() + PATIENCE_SECONDS
        while True:
            await self._reservations.settled(wanted.spec_name)
            listed = await self._lists.get(wanted.spec_name)
            ours = (each for each in listed if claim_plan.is_claim_of(each, wanted))
            own = next((each for each in ours if each.metadata.uid not in refusals), None)
            free = list(self._claimable(filter(provenance.is_free, listed), wanted, refusals))
            if own is None and not free:
                if not self._is_unsettled(listed) or loop.time() > patience_ends_at:
                    refusals.demand_right()
                    return None
                await asyncio.sleep(PAUSE_SECONDS)
            elif claim := await self._claim_seen(own, free, wanted, refusals):
                return claim

    async def _claim_seen(
        self, own: GPUUnit | None, free: Iterable[GPUUnit], wanted: Wanted, refusals: Refusals
    ) -> Claim | None:
        if own is not None:
            return await self.restamp(own, wanted, refusals)
        stock = self._pick(free, wanted, ())
        return await self._try(stock, wanted, refusals) if stock else None

    def _is_unsettled(self, listed: Iterable[GPUUnit]) -> bool:
        return claim_plan.is_unsettled(listed, self._units.store.get, self._now())

    async def _list(self, spec_name: str) -> list[GPUUnit]:
        return await list_all(
            self._client,
            GPU_UNITS,
            namespace=self._namespace,
            label_selector=f"{labels.SPEC}={spec_name}",
        )

    def _known(self, wanted: Wanted, refusals: Refusals) -> Iterator[GPUUnit]:
        of_image = self._stock.store.by_index(FREE, free_with(wanted.spec_name, wanted.image))
        of_spec = self._stock.store.by_index(FREE, wanted.spec_name)
        head = {each.metadata.uid: each for each in islice(of_image, HEAD)}
        if len(head) < HEAD:
            head |= {each.metadata.uid: each for each in islice(of_spec, HEAD)}
        return self._claimable(head.values(), wanted, refusals)

    def _claimable(
        self, free: Iterable[GPUUnit], wanted: Wanted, refusals: Refusals
    ) -> Iterator[GPUUnit]:
        """A unit that names a stock uid may still start on it, whatever its mark says."""
        if refusals.are_too_many:
            return
        for stock in claim_plan.in_order(free, wanted):
            uid = stock.metadata.uid
            if uid not in refusals and not self._units.store.by_index(SOURCE_UID, uid):
                yield stock

    def _pick(
        self,
        claimable: Iterable[GPUUnit],
        wanted: Wanted,
        passed: Collection[str],
        *,
        ours_only: bool = False,
    ) -> GPUUnit | None:
        """The first that none of our own callers is trying, and this one has not tried."""
        for stock in claimable:
            uid = stock.metadata.uid
            if uid in passed or self._reservations.has(wanted.spec_name, uid):
                continue
            if not ours_only or self._peers.leaves_to_us(stock):
                return stock
        return None

    async def _try(self, stock: GPUUnit, wanted: Wanted, refusals: Refusals) -> Claim | None:
        """Goes on at newer versions for as long as the unit is free."""
        attempt = self._peers.new_attempt()
        sent_at = asyncio.get_running_loop().time()
        with self._reservations.hold(wanted.spec_name, stock.metadata.uid):
            while True:
                seen = await self._mark(stock, wanted, attempt, refusals)
                match seen:
                    case Won(marked):
                        return Claim(stock=marked, is_owned=True, sent_at=sent_at)
                    case StillFree(newer):
                        stock = newer
                    case Reusable(claimed):
                        return await self.restamp(claimed, wanted, refusals)
                    case Elsewhere():
                        return None
                    case _:
                        assert_never(seen)

    async def _mark(
        self, stock: GPUUnit, wanted: Wanted, attempt: str, refusals: Refusals
    ) -> Seen:
        """One PATCH at the version that was observed, and a look where it did not succeed.

        Where neither tells, raises the error of the PATCH: the mark may be there.
        """
        try:
            return await self._patch(stock, wanted, attempt)
        except NotFoundError:
            return Elsewhere()
        except OF_THE_OBJECT as error:
            refusals.add(stock, error)
            return Elsewhere()
        except ConflictError:
            seen = await self._look(stock, wanted, attempt)
            self._meter.count("inventory_claim_conflicts_total", seen=type(seen).__name__)
            return seen
        except (OutcomeUnknownError, MalformedAnswerError) as lost:
            try:
                return await self._look(stock, wanted, attempt)
            except KubeError as error:
                raise lost from error

    async def _patch(self, stock: GPUUnit, wanted: Wanted, attempt: str) -> Won:
        marks = provenance.claim_marks(
            claimant=wanted.claimant,
            attempt=attempt,
            operation_id=wanted.operation_id,
            request_hash=wanted.request_hash,
            claimed_at=self._now(),
        )
        metadata = stock.metadata
        marked = await self._client.patch(
            GPU_UNITS, metadata.key, marks, resource_version=metadata.resourceVersion
        )
        self._stock.write_through(marked)
        return Won(marked)

    async def _look(self, stock: GPUUnit, wanted: Wanted, attempt: str) -> Seen:
        try:
            found = await self._client.get(GPU_UNITS, stock.metadata.key)
        except NotFoundError:
            return Elsewhere()
        self._stock.write_through(found)
        seen = claim_plan.seen_after_patch(found, stock.metadata.uid, attempt, wanted)
        if isinstance(seen, Elsewhere):
            self._peers.meet(found)
        return seen
