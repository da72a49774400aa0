"""Pure decision about a stock unit: keep it, delete it, or free a claim that came to nothing."""

from math import inf
from typing import Final, TypeAlias, assert_never

import attrs

from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.pools import StockPool
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.reconcilers.stock.claim_resolution_plan import (
    AwaitRecord,
    Consume,
    Doubt,
    Resolution,
    Rest,
    is_recorded,
    resolve,
)

# The pool's own event usually comes first; this is for a missed one.
RECORD_SECONDS: Final = 5.0


@attrs.frozen(kw_only=True, slots=True)
class Observed:
    """A stock unit with its pool and its claimant."""

    stock: GPUUnit
    # None if a live read shows that the pool is gone.
    pool: StockPool | None
    claimant: GPUUnit | None
    # The grace of a doubtful claim that is left; after it, the claimant is read live.
    grace_seconds: float = inf
    live_claimant: GPUUnit | None = None

    @property
    def is_orphaned(self) -> bool:
        return self.pool is None and provenance.is_orphaned(self.stock)

    @property
    def resolution(self) -> Resolution:
        return resolve(self.stock, self.claimant, is_recorded=is_recorded(self.stock, self.pool))


@attrs.frozen(slots=True)
class Keep:
    """Keep the unit's children and status, as for any unit."""


@attrs.frozen(slots=True)
class Delete:
    why: str


@attrs.frozen(slots=True)
class Free:
    """Remove the claim, guarded by the version that was observed."""


Intent: TypeAlias = Keep | Delete | Free


@attrs.frozen(kw_only=True, slots=True)
class Plan:
    intents: tuple[Intent, ...]
    again_seconds: float | None = None


def decide(observed: Observed) -> Plan:
    stock = observed.stock
    if observed.is_orphaned:
        return Plan(intents=(Delete("its pool is gone"),))
    match observed.resolution:
        case Consume():
            return Plan(intents=(Delete("consumed"),))
        case Rest():
            return Plan(intents=(Keep(),))
        case AwaitRecord():
            return Plan(intents=(Keep(),), again_seconds=RECORD_SECONDS)
        case Doubt() if observed.grace_seconds > 0:
            return Plan(intents=(Keep(),), again_seconds=observed.grace_seconds)
        case Doubt() if not provenance.is_doubtful(stock, observed.live_claimant):
            return Plan(intents=(Keep(),), again_seconds=RECORD_SECONDS)
        case Doubt():
            return Plan(intents=(Free(),))
        case resolution:
            assert_never(resolution)
