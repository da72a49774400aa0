"""StockClaims gives a ready stock unit to exactly one claimant, by a PATCH at an observed version.

The API claims stock for callers' units, the manager for units whose claim was lost. The stock
object is the only arbiter. A mark is written, re-stamped and removed only at the version that was
observed.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from random import Random
from typing import Final, assert_never

import structlog

from gpuruntime.concurrency.clock import loop_time
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
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.operations.claim import plan as claim_plan
from gpuruntime.operations.claim.plan import (
    Claim,
    ClaimRequest,
    Elsewhere,
    Reusable,
    Seen,
    StillFree,
    Won,
)
from gpuruntime.operations.claim.sharding import StockShards
from gpuruntime.operations.lookup.caches import FREE, SOURCE_UID, Cache, free_with
from gpuruntime.operations.lookup.shared_reads import SharedReads, list_all

# A claim considers at most this many free units. That lets callers spread and bounds the work.
HEAD: Final = 128
# A claim waits this long for stock that is about to be released, which takes three requests.
PATIENCE_SECONDS: Final = 1.0
PAUSE_SECONDS: Final = 0.05
# Errors whose cause may be the one object: its annotations are full, or a policy matches it.
OBJECT_ERRORS: Final = (BadRequestError, InvalidError, ForbiddenError)
# With this many rejections, the fault is not in single objects; trying the others would not help.
MOST_REFUSALS: Final = 16

log = structlog.get_logger()


class Refusals:
    """Stock units that rejected the mark during one claim, which does not try them again."""

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

    def raise_if_forbidden(self) -> None:
        """Raise the last rejection if it is a ForbiddenError: the right itself may be missing."""
        if isinstance(self._last, ForbiddenError):
            raise self._last


class Reservations:
    """Stock units that this process is writing to, by specName and uid.

    Callers of this process never try a reserved unit. A reservation ends with the write it covers.
    """

    def __init__(self) -> None:
        self._held: dict[str, dict[str, asyncio.Future[None]]] = {}

    def has(self, spec_name: str, uid: str) -> bool:
        return uid in self._held.get(spec_name, ())

    @contextmanager
    def hold(self, spec_name: str, uid: str) -> Iterator[None]:
        """Reserve a unit for the duration of a write.

        Callers must pick the unit without an await before this, so that no two reserve the same
        one.
        """
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
        """Wait until the writes that are in flight now have succeeded or failed."""
        if in_flight := list(self._held.get(spec_name, {}).values()):
            await asyncio.wait(in_flight)


class StockClaims:
    """All claims of one process; its callers share reservations and lists."""

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
        stock.add_handler(self._meet)

    async def claim(self, request: ClaimRequest) -> Claim | None:
        """Claim a stock unit, or return None if none is left.

        Before None is returned, a consistent read that began after this call has shown no stock
        that can be claimed. A claim that our operation already holds is re-stamped. Stock that
        rejects the mark for a reason of its own is skipped.

        Raise KubeError, and OperationConflictError if our operation holds a claim for another
        request.
        """
        tried: set[str] = set()
        refusals = Refusals()
        while stock := self._pick(
            self._peers.our_share(self._known(request, refusals)), request, tried
        ):
            if claim := await self._try(stock, request, refusals):
                return claim
            tried.add(stock.metadata.uid)
        if self._pick(self._known(request, refusals), request, tried):
            # The remaining stock is in the shares of other replicas. One caller at a time tries
            # it.
            async with self._beyond_share.of(request.spec_name):
                stock = self._pick(self._known(request, refusals), request, tried)
                if stock and (claim := await self._try(stock, request, refusals)):
                    return claim
        return await self._claim_listed(request, refusals)

    async def restamp(
        self, stock: GPUUnit, request: ClaimRequest, refusals: Refusals | None = None
    ) -> Claim | None:
        """Take over our operation's claim from another attempt.

        Return None if the claim is gone, or if the cluster rejects the new mark.
        """
        sent_at = loop_time()
        attempt = self._peers.new_attempt()
        seen = await self._mark(stock, request, attempt, refusals or Refusals())
        if not isinstance(seen, Won):
            return None
        return Claim(stock=seen.stock, is_owned=False, sent_at=sent_at)

    async def release(self, claim: Claim) -> None:
        """Remove the mark, if this attempt made the claim, at the version that its own PATCH left.

        If the removal fails, the claim is left to its grace.
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

    def _meet(self, _: Key, before: GPUUnit | None, now: GPUUnit | None) -> None:
        """Meet the replica that has just marked a stock unit.

        By conflicts alone only the loser would learn of the winner, and keep to its share.
        """
        if before and now and provenance.attempt_of(before) != provenance.attempt_of(now):
            self._peers.meet(now)

    async def _claim_listed(self, request: ClaimRequest, refusals: Refusals) -> Claim | None:
        """The cache shows nothing: wait for our own writes in flight, then let a LIST decide."""
        patience_ends_at = loop_time() + PATIENCE_SECONDS
        while True:
            await self._reservations.settled(request.spec_name)
            listed = await self._lists.get(request.spec_name)
            ours = (each for each in listed if claim_plan.is_claim_of(each, request))
            own = next((each for each in ours if each.metadata.uid not in refusals), None)
            free = list(self._claimable(filter(provenance.is_free, listed), request, refusals))
            if own is None and not free:
                if not self._is_unsettled(listed) or loop_time() > patience_ends_at:
                    refusals.raise_if_forbidden()
                    return None
                await asyncio.sleep(PAUSE_SECONDS)
            elif claim := await self._claim_seen(own, free, request, refusals):
                return claim

    async def _claim_seen(
        self,
        own: GPUUnit | None,
        free: Iterable[GPUUnit],
        request: ClaimRequest,
        refusals: Refusals,
    ) -> Claim | None:
        if own is not None:
            return await self.restamp(own, request, refusals)
        stock = self._pick(free, request, ())
        return await self._try(stock, request, refusals) if stock else None

    def _is_unsettled(self, listed: Iterable[GPUUnit]) -> bool:
        return claim_plan.is_unsettled(listed, self._units.store.get, self._now())

    async def _list(self, spec_name: str) -> list[GPUUnit]:
        return await list_all(
            self._client,
            GPU_UNITS,
            namespace=self._namespace,
            label_selector=f"{labels.SPEC}={spec_name}",
        )

    def _known(self, request: ClaimRequest, refusals: Refusals) -> Iterator[GPUUnit]:
        of_image = self._stock.store.by_index(FREE, free_with(request.spec_name, request.image))
        of_spec = self._stock.store.by_index(FREE, request.spec_name)
        head = {each.metadata.uid: each for each in islice(of_image, HEAD)}
        if len(head) < HEAD:
            head |= {each.metadata.uid: each for each in islice(of_spec, HEAD)}
        return self._claimable(head.values(), request, refusals)

    def _claimable(
        self, free: Iterable[GPUUnit], request: ClaimRequest, refusals: Refusals
    ) -> Iterator[GPUUnit]:
        """Yield the stock that may be tried.

        Stock that a unit names as its source is skipped although it looks free; that unit may
        still start on it.
        """
        if refusals.are_too_many:
            return
        for stock in claim_plan.in_order(free, request):
            uid = stock.metadata.uid
            if uid not in refusals and not self._units.store.by_index(SOURCE_UID, uid):
                yield stock

    def _pick(
        self,
        claimable: Iterable[GPUUnit],
        request: ClaimRequest,
        tried: Collection[str],
    ) -> GPUUnit | None:
        """Return the first unit that neither this call has tried nor another caller is trying."""
        for stock in claimable:
            uid = stock.metadata.uid
            if uid not in tried and not self._reservations.has(request.spec_name, uid):
                return stock
        return None

    async def _try(
        self, stock: GPUUnit, request: ClaimRequest, refusals: Refusals
    ) -> Claim | None:
        """Claim the stock unit; if it changes but stays free, retry at the newer version."""
        attempt = self._peers.new_attempt()
        sent_at = loop_time()
        with self._reservations.hold(request.spec_name, stock.metadata.uid):
            while True:
                seen = await self._mark(stock, request, attempt, refusals)
                match seen:
                    case Won(marked):
                        return Claim(stock=marked, is_owned=True, sent_at=sent_at)
                    case StillFree(newer):
                        stock = newer
                    case Reusable(claimed):
                        return await self.restamp(claimed, request, refusals)
                    case Elsewhere():
                        return None
                    case _:
                        assert_never(seen)

    async def _mark(
        self, stock: GPUUnit, request: ClaimRequest, attempt: str, refusals: Refusals
    ) -> Seen:
        """Send one PATCH at the observed version, and read the unit if that did not succeed.

        If the answer was lost and the read fails, raise the error of the PATCH: the mark may
        exist.
        """
        try:
            return await self._patch(stock, request, attempt)
        except NotFoundError:
            return Elsewhere()
        except OBJECT_ERRORS as error:
            refusals.add(stock, error)
            return Elsewhere()
        except ConflictError:
            seen = await self._read_state(stock, request, attempt)
            self._meter.count("inventory_claim_conflicts_total", seen=type(seen).__name__)
            return seen
        except (OutcomeUnknownError, MalformedAnswerError) as lost:
            try:
                return await self._read_state(stock, request, attempt)
            except KubeError as error:
                raise lost from error

    async def _patch(self, stock: GPUUnit, request: ClaimRequest, attempt: str) -> Won:
        marks = provenance.claim_marks(
            claimant=request.claimant,
            attempt=attempt,
            operation_id=request.operation_id,
            request_hash=request.request_hash,
            claimed_at=self._now(),
        )
        metadata = stock.metadata
        marked = await self._client.patch(
            GPU_UNITS, metadata.key, marks, resource_version=metadata.resourceVersion
        )
        self._stock.write_through(marked)
        return Won(marked)

    async def _read_state(self, stock: GPUUnit, request: ClaimRequest, attempt: str) -> Seen:
        try:
            found = await self._client.get(GPU_UNITS, stock.metadata.key)
        except NotFoundError:
            return Elsewhere()
        self._stock.write_through(found)
        seen = claim_plan.seen_after_patch(found, stock.metadata.uid, attempt, request)
        if isinstance(seen, Elsewhere):
            self._peers.meet(found)
        return seen
