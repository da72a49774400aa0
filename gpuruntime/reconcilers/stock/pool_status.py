"""Status of a pool, as a pure function of its counted stock."""

from datetime import datetime
from typing import Final

import attrs

from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.phases import pool_phase_of
from gpuruntime.models.kinds.pools import Refill, StockPool, StockPoolStatus
from gpuruntime.models.kinds.reasons import ConditionType, PoolReason
from gpuruntime.models.kubernetes.conditions import Condition, condition_of, with_condition
from gpuruntime.models.kubernetes.timestamps import moment_of
from gpuruntime.reconcilers.stock.pool_plan import Stocktaking

USED_UP_AT: Final = f"{labels.GROUP}/used-up-at"


@attrs.frozen(kw_only=True, slots=True)
class PoolVerdict:
    reason: PoolReason
    message: str


def pool_verdict(pool: StockPool, stock: Stocktaking) -> PoolVerdict:
    """Return the verdict on a pool whose spec is valid."""
    if stock.failed:
        first = min(stock.failed, key=provenance.ordinal_of)
        condition = condition_of(first.status.conditions, ConditionType.READY)
        words = condition.message if condition else ""
        text = f"{len(stock.failed)} units cannot start, {first.metadata.name}: {words}"
        return PoolVerdict(reason=PoolReason.STOCK_FAILED, message=text)
    if is_used_up(pool, stock):
        return PoolVerdict(reason=PoolReason.STOCK_CONSUMED, message="no stock is left")
    if _is_complete(pool, stock):
        return PoolVerdict(
            reason=PoolReason.STOCK_READY, message=f"{len(stock.ready)} units are ready"
        )
    return PoolVerdict(reason=PoolReason.STOCK_PROGRESSING, message="stock is being made")


def is_used_up(pool: StockPool, stock: Stocktaking) -> bool:
    """Return whether no stock is left and none will be created without a change."""
    is_seeded = pool.spec.refill == Refill.NEVER and stock.highest >= pool.spec.replicas
    return not stock.ordinals and (is_seeded or not pool.spec.replicas)


def used_up_at(pool: StockPool) -> datetime | None:
    """Return the moment in the pool's annotation, or None; the condition's is another one."""
    return moment_of(pool.metadata.annotations.get(USED_UP_AT, ""))


def pool_status(
    pool: StockPool, stock: Stocktaking, verdict: PoolVerdict, *, recorded: int, now: datetime
) -> StockPoolStatus:
    """Return the status; `recorded` is the highest ordinal whose create cannot be pending."""
    is_ready = verdict.reason is PoolReason.STOCK_READY
    condition = Condition(
        type=ConditionType.READY,
        status="True" if is_ready else "False",
        reason=verdict.reason,
        message=verdict.message,
        observedGeneration=pool.metadata.generation,
    )
    conditions = with_condition(pool.status.conditions, condition, now=now)
    return attrs.evolve(
        pool.status,
        phase=pool_phase_of(conditions),
        available=len(stock.ready),
        claimed=len(stock.claimed),
        progressing=len(stock.progressing),
        failed=len(stock.failed),
        seeded=recorded,
        consumed=recorded - sum(ordinal <= recorded for ordinal in stock.ordinals),
        observedGeneration=pool.metadata.generation,
        conditions=conditions,
    )


def _is_complete(pool: StockPool, stock: Stocktaking) -> bool:
    if stock.progressing:
        return False
    if pool.spec.refill == Refill.NEVER:
        return stock.highest >= pool.spec.replicas
    return len(stock.ready) >= pool.spec.replicas
