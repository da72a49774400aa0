"""Replacement of the stock that a unit has lost; the leader claims it as the API does."""

from collections.abc import Iterable

import attrs
import structlog

from gpuruntime.kube.client import Client
from gpuruntime.kube.events import EventRecorder, Note, record_note
from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.envelopes import envelope_of
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit
from gpuruntime.operations.claim.plan import Claim, ClaimRequest
from gpuruntime.operations.claim.stock import StockClaims
from gpuruntime.operations.errors import OperationConflictError
from gpuruntime.operations.lookup.caches import Cache

log = structlog.get_logger()


@attrs.frozen(kw_only=True, slots=True)
class StockReclaimer:
    client: Client
    claims: StockClaims
    units: Cache[GPUUnit]
    recorder: EventRecorder

    async def claim_for(self, unit: GPUUnit, own: Iterable[GPUUnit]) -> bool:
        """Claim stock and have the unit name it; return False if none is free.

        `own` is stock that the unit may take again, and is tried first. A crash between the two
        writes leaves such a claim, and no other unit claims the stock that a unit names.
        """
        request = _request_of(unit)
        try:
            claim = await self._take_again(own, request) or await self.claims.claim(request)
        except OperationConflictError as error:
            # Another unit of the operation lost to this one, and keeps its claim until it is
            # deleted.
            log.warning("no stock claimed", error=str(error))
            return False
        if claim is None:
            return False
        await self._name(unit, claim.stock)
        return True

    async def _take_again(self, own: Iterable[GPUUnit], request: ClaimRequest) -> Claim | None:
        for stock in own:
            if claim := await self.claims.restamp(stock, request):
                return claim
        return None

    async def _name(self, unit: GPUUnit, stock: GPUUnit) -> None:
        named = await self.client.patch(
            GPU_UNITS,
            unit.metadata.key,
            {"metadata": {"annotations": dict(provenance.source_marks(stock))}},
            resource_version=unit.metadata.resourceVersion,
        )
        self.units.write_through(named)
        log.info("lost claim replaced", stock=str(stock.metadata.key))
        note = Note("ClaimReplaced", f"claims stock {stock.metadata.key}")
        record_note(self.recorder, GPU_UNITS, unit, note)


def may_take_again(stock: GPUUnit, unit: GPUUnit) -> bool:
    """Return whether the stock is claimed for this unit, or is free, ready and named by it."""
    if provenance.is_terminating(stock):
        return False
    if provenance.is_claimed(stock):
        is_same = provenance.is_of(stock, provenance.operation_of(unit), provenance.hash_of(unit))
        return is_same and provenance.claimant_of(stock) == unit.metadata.key
    return provenance.source_uid_of(unit) == stock.metadata.uid and provenance.is_ready(stock)


def _request_of(unit: GPUUnit) -> ClaimRequest:
    return ClaimRequest(
        operation_id=provenance.operation_of(unit),
        request_hash=provenance.hash_of(unit),
        claimant=unit.metadata.key,
        spec_name=unit.spec.specName,
        image=unit.spec.image,
        envelope=envelope_of(unit.spec),
    )
