"""Pure decision about one pass over a pool: its writes in order, and what to report after them.

Ordinals are recorded in the status before any unit is deleted, so that none is ever used again. A
pass that has a status to write deletes nothing; the next pass does.
"""

from datetime import datetime, timedelta
from typing import Final, TypeAlias

import attrs

from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.envelopes import Envelope, envelope_of
from gpuruntime.models.kinds.pools import StockPool, StockPoolStatus
from gpuruntime.models.kinds.reasons import PoolReason
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.reconcilers.children.refusals import REFUSED_SECONDS
from gpuruntime.reconcilers.options import PodDefaults
from gpuruntime.reconcilers.stock.pool_plan import Stocktaking, plan, recordable
from gpuruntime.reconcilers.stock.pool_status import (
    PoolVerdict,
    is_used_up,
    pool_status,
    pool_verdict,
    used_up_at,
)
from gpuruntime.reconcilers.stock.rollout_plan import next_to_follow
from gpuruntime.strict import validation

FINALIZER: Final = f"{labels.GROUP}/stock"
AT_ONCE: Final = 0.0


@attrs.frozen(kw_only=True, slots=True)
class PoolOptions:
    defaults: PodDefaults
    # A used-up pool is kept for this long.
    retention: timedelta


@attrs.frozen(kw_only=True, slots=True)
class Observed:
    """A pool, its stock as the caches know it, and what this process remembers of it."""

    pool: StockPool
    stock: Stocktaking
    # The pool that decides the envelope of the specName.
    in_force: StockPool | None = None
    # A create of the pool's stock may still land within this time.
    unsettled_seconds: float = 0.0
    # A changed status has to wait for this time.
    unreported_seconds: float = 0.0


@attrs.frozen(slots=True)
class Adopt:
    """Add the finalizer and the original uid, before the first unit is created."""


@attrs.frozen(slots=True)
class CreateUnits:
    ordinals: tuple[int, ...]


@attrs.frozen(slots=True)
class ChangeUnits:
    """Give the units the pool's image and template, guarded by the versions observed."""

    units: tuple[GPUUnit, ...]


@attrs.frozen(slots=True)
class RemoveUnits:
    units: tuple[GPUUnit, ...]


@attrs.frozen(slots=True)
class MarkUsedUp:
    """Note in the pool since when it is used up, or that it no longer is."""

    since: datetime | None


@attrs.frozen(slots=True)
class Retire:
    """Write the tombstone, then delete the pool: it was used up for the retention."""


@attrs.frozen(slots=True)
class LetGo:
    """Write the tombstone, then remove the finalizer: no unclaimed stock is left."""


Intent: TypeAlias = Adopt | CreateUnits | ChangeUnits | RemoveUnits | MarkUsedUp | Retire | LetGo


@attrs.frozen(kw_only=True, slots=True)
class Plan:
    """Writes in order, whether the status is reported after them, and when to look again."""

    intents: tuple[Intent, ...] = ()
    reports: bool = False
    # Why the pool gets no stock; without it, the verdict follows from the stock.
    refusal: PoolVerdict | None = None
    again_seconds: float | None = None


def decide(observed: Observed, options: PoolOptions, *, now: datetime) -> Plan:
    pool = observed.pool
    if provenance.is_terminating(pool):
        return _dissolve(observed)
    if refusal := _refusal(observed, options.defaults):
        return Plan(reports=True, refusal=refusal, again_seconds=REFUSED_SECONDS)
    if FINALIZER not in pool.metadata.finalizers:
        return Plan(intents=(Adopt(),), again_seconds=AT_ONCE)
    if supplies := _supplies(observed):
        return Plan(intents=supplies, reports=True)
    if status_of(observed, now=now) != pool.status and not observed.unreported_seconds:
        return Plan(reports=True)
    return _settle(observed, options, now=now)


def status_of(
    observed: Observed, refusal: PoolVerdict | None = None, *, now: datetime
) -> StockPoolStatus:
    """Return the status; an ordinal is recorded only if no create can still be in flight."""
    pool, stock = observed.pool, observed.stock
    is_settled = not observed.unsettled_seconds
    recorded = recordable(pool, stock) if is_settled else pool.status.seeded
    verdict = refusal or pool_verdict(pool, stock)
    return pool_status(pool, stock, verdict, recorded=recorded, now=now)


def again_after_report(
    observed: Observed, options: PoolOptions, *, is_refused: bool, now: datetime
) -> float | None:
    """Return when to look again at a pool whose status is as it should be now.

    What is left to create, change, delete or retire follows in the next pass.
    """
    if _supplies(observed):
        return REFUSED_SECONDS if is_refused else AT_ONCE
    settled = _settle(observed, options, now=now)
    return AT_ONCE if settled.intents else settled.again_seconds


def _supplies(observed: Observed) -> tuple[Intent, ...]:
    """Return the writes towards the wanted stock; a surplus is deleted before stock changes."""
    step = plan(observed.pool, observed.stock)
    changes = () if step.removes else next_to_follow(observed.pool, observed.stock)
    creates = (CreateUnits(step.creates),) if step.creates else ()
    return (*creates, ChangeUnits(changes)) if changes else creates


def _settle(observed: Observed, options: PoolOptions, *, now: datetime) -> Plan:
    """Delete the surplus, and retire a used-up pool after the retention."""
    pool, stock = observed.pool, observed.stock
    removes = plan(pool, stock).removes
    retire, left = _retire(pool, stock, options.retention, now)
    is_unrecorded = stock.highest > pool.status.seeded
    is_unreported = status_of(observed, now=now) != pool.status
    delays = (
        left,
        observed.unsettled_seconds if is_unrecorded else 0.0,
        observed.unreported_seconds if is_unreported else 0.0,
    )
    return Plan(
        intents=(*((RemoveUnits(removes),) if removes else ()), *retire),
        again_seconds=min((each for each in delays if each), default=None),
    )


def _retire(
    pool: StockPool, stock: Stocktaking, retention: timedelta, now: datetime
) -> tuple[tuple[Intent, ...], float | None]:
    """Return the next step towards the end of a used-up pool, and the seconds until it is due."""
    since = used_up_at(pool)
    if not is_used_up(pool, stock) or not pool.spec.replicas:
        return ((MarkUsedUp(None),) if since is not None else ()), None
    left = ((since or now) - now + retention).total_seconds()
    if since is None:
        return (MarkUsedUp(now),), left
    return ((), left) if left > 0 else ((Retire(),), None)


def _dissolve(observed: Observed) -> Plan:
    """Delete unclaimed units; claimed ones finish their hand-off without the pool.

    While a second create may still land, stock above the recorded ordinal stays, and the pool with
    it.
    """
    pool, stock = observed.pool, observed.stock
    if FINALIZER not in pool.metadata.finalizers:
        return Plan()
    seeded = pool.status.seeded
    left = observed.unsettled_seconds if stock.highest > seeded else 0.0
    going = tuple(
        unit for unit in stock.unclaimed if not left or provenance.ordinal_of(unit) <= seeded
    )
    if left:
        return Plan(intents=(RemoveUnits(going),), again_seconds=left)
    return Plan(intents=(RemoveUnits(going) if going else LetGo(),))


def _refusal(observed: Observed, defaults: PodDefaults) -> PoolVerdict | None:
    pool, decides = observed.pool, observed.in_force
    problems = validation.pool_problems(pool)
    if problems:
        text = "; ".join(str(problem) for problem in problems)
        return PoolVerdict(reason=PoolReason.INVALID_SPEC, message=text)
    if decides is None or _envelope(decides, defaults) == _envelope(pool, defaults):
        return None
    text = (
        f"pool {decides.metadata.name} gives {pool.spec.specName} another envelope: "
        "use its cpu, memory, gpu and gpuProduct, or another specName"
    )
    return PoolVerdict(reason=PoolReason.SPEC_CONFLICT, message=text)


def _envelope(pool: StockPool, defaults: PodDefaults) -> Envelope:
    """Return the envelope with our defaults, since another pool may spell them out."""
    cpu, memory = pool.spec.cpu or defaults.cpu, pool.spec.memory or defaults.memory
    return envelope_of(attrs.evolve(pool.spec, cpu=cpu, memory=memory))
