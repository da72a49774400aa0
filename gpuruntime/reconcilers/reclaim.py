"""Another stock unit for a unit that lost its own: the leader claims as the API does."""

from collections.abc import Callable
from datetime import datetime

import attrs
import structlog

from gpuruntime.inventory import provenance
from gpuruntime.inventory.claim_plan import Wanted
from gpuruntime.inventory.envelopes import envelope_of
from gpuruntime.inventory.stock import StockClaims
from gpuruntime.inventory.stores import Cache
from gpuruntime.kube.client import Client
from gpuruntime.models import labels
from gpuruntime.models.units import GPU_UNITS, GPUUnit

log = structlog.get_logger()


@attrs.frozen(kw_only=True, slots=True)
class Reclaimer:
    client: Client
    claims: StockClaims
    units: Cache[GPUUnit]
    now: Callable[[], datetime]

    async def claim_for(self, unit: GPUUnit) -> bool:
        """False: nothing of the unit's envelope is free. True: the unit names its new stock.

        A crash between the two writes leaves a claim of the unit's own operation, which the next
        try finds and uses.
        """
        claim = await self.claims.claim(
            Wanted(
                operation_id=provenance.operation_of(unit),
                request_hash=provenance.hash_of(unit),
                claimant=unit.metadata.key,
                spec_name=unit.spec.specName,
                image=unit.spec.image,
                envelope=envelope_of(unit.spec),
            )
        )
        if claim is None:
            return False
        source = claim.stock.metadata
        marks = {
            labels.SOURCE_STOCK: str(source.key),
            labels.SOURCE_STOCK_UID: source.uid,
            labels.CLAIMED_AT: source.annotations[labels.CLAIMED_AT],
        }
        named = await self.client.patch(
            GPU_UNITS,
            unit.metadata.key,
            {"metadata": {"annotations": marks}},
            resource_version=unit.metadata.resourceVersion,
        )
        self.units.write_through(named)
        log.info("lost claim replaced", stock=str(source.key))
        return True
