"""Status of a pool, as a pure function of its counted stock."""

from datetime import datetime
from typing import Final

import attrs

from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.phases import pool_phase_of
from gpuruntime.models.kinds.pools import Refill, StockPool, StockPoolStatus
from gpuruntime.models.kinds.reasons import ConditionType, PoolReason
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.conditions import Condition, condition_of, with_condition
from gpuruntime.models.kubernetes.timestamps import moment_of
from gpuruntime.reconcilers.stock.pool_plan import Stocktaking, made, skipped

USED_UP_AT: Final = f"{labels.GROUP}/used-up-at"


@attrs.frozen(kw_only=True, slots=True)
class PoolVerdict:
    reason: PoolReason
    message: str


def pool_verdict(pool: StockPool, stock: Stocktaking) -> PoolVerdict:
    """Return the verdict on a pool whose spec is valid."""
    # Failed units of an earlier spec are about to follow the pool's present one.
    if failed := tuple(each for each in stock.failed if not provenance.is_stale(each, pool)):
        text = f"{len(failed)} units cannot start, {_words_of(failed)}"
        return PoolVerdict(reason=PoolReason.STOCK_FAILED, message=_with_stale(text, stock))
    if unplaced := tuple(filter(provenance.lacks_node, stock.progressing)):
        count = f"{len(unplaced)} of {len(stock.unclaimed)} units have no node"
        text = _with_stale(f"{count}, {_words_of(unplaced)}", stock)
        return PoolVerdict(reason=PoolReason.STOCK_UNSCHEDULABLE, message=text)
    if is_used_up(pool, stock):
        return PoolVerdict(reason=PoolReason.STOCK_CONSUMED, message="no stock is left")
    if _is_complete(pool, stock):
        return PoolVerdict(
            reason=PoolReason.STOCK_READY, message=f"{len(stock.ready)} units are ready"
        )
    text = _with_stale("stock is being made", stock)
    return PoolVerdict(reason=PoolReason.STOCK_PROGRESSING, message=text)


def _words_of(units: tuple[GPUUnit, ...]) -> str:
    """Return the name and the message of the oldest unit, which seldom changes."""
    first = min(units, key=provenance.ordinal_of)
    condition = condition_of(first.status.conditions, ConditionType.READY)
    return f"{first.metadata.name}: {condition.message if condition else ''}"


def _with_stale(text: str, stock: Stocktaking) -> str:
    count = len(stock.stale)
    return f"{text}; {count} units have an earlier image or template" if count else text


def is_used_up(pool: StockPool, stock: Stocktaking) -> bool:
    """Return whether no stock is left and none will be created without a change."""
    is_seeded = pool.spec.refill == Refill.NEVER and made(pool, stock) >= pool.spec.replicas
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
    unmade = skipped(pool, stock, recorded=recorded)
    return attrs.evolve(
        pool.status,
        phase=pool_phase_of(conditions),
        available=len(stock.ready),
        claimed=len(stock.claimed),
        progressing=len(stock.progressing),
        failed=len(stock.failed),
        stale=len(stock.stale),
        seeded=recorded,
        skipped=unmade,
        consumed=recorded - unmade - sum(ordinal <= recorded for ordinal in stock.ordinals),
        observedGeneration=pool.metadata.generation,
        conditions=conditions,
    )


def _is_complete(pool: StockPool, stock: Stocktaking) -> bool:
    if stock.progressing or stock.stale:
        return False
    if pool.spec.refill == Refill.NEVER:
        return made(pool, stock) >= pool.spec.replicas
    return len(stock.ready) >= pool.spec.replicas
