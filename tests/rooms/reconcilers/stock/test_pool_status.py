"""The status of a pool as a function of its stock."""

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.pools import Refill, StockPool, StockPoolSpec
from gpuruntime.models.kinds.reasons import PoolReason, UnitReason
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitSpec, GPUUnitStatus
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.reconcilers.stock.pool_plan import Stocktaking
from gpuruntime.reconcilers.stock.pool_status import (
    USED_UP_AT,
    PoolVerdict,
    is_used_up,
    pool_status,
    pool_verdict,
    used_up_at,
)

NOW = datetime(2025, 1, 1, tzinfo=UTC)
KINDS = ("ready", "progressing", "failed", "claimed")


def unit(ordinal: int, message: str = "") -> GPUUnit:
    condition = Condition(type="Ready", status="False", message=message)
    return GPUUnit(
        metadata=ObjectMeta(name=f"p-{ordinal}", labels={labels.POOL: "p"}),
        spec=GPUUnitSpec(specName="g1"),
        status=GPUUnitStatus(conditions=(condition,) if message else ()),
    )


def pool(replicas: int = 2, *, refill: str = Refill.ALWAYS, marks: Any = None) -> StockPool:
    return StockPool(
        metadata=ObjectMeta(name="p", generation=3, annotations=marks or {}),
        spec=StockPoolSpec(specName="g1", replicas=replicas, refill=refill),
    )


def taken(*, highest: int = 2, **kinds: tuple[int, ...]) -> Stocktaking:
    units: Any = {
        kind: tuple(unit(each, "words") for each in kinds.get(kind, ())) for kind in KINDS
    }
    ordinals = tuple(itertools.chain(*kinds.values()))
    return Stocktaking(highest=highest, ordinals=ordinals, **units)


@pytest.mark.parametrize(
    ("of", "stock", "reason"),
    [
        (pool(), taken(ready=(1, 2)), PoolReason.STOCK_READY),
        (pool(), taken(ready=(1,), progressing=(2,)), PoolReason.STOCK_PROGRESSING),
        (pool(), taken(ready=(1, 2), progressing=(3,), highest=3), PoolReason.STOCK_PROGRESSING),
        (pool(), taken(ready=(1,), claimed=(2,)), PoolReason.STOCK_PROGRESSING),
        (pool(), taken(highest=9), PoolReason.STOCK_PROGRESSING),
        (pool(), taken(ready=(1,), failed=(2,)), PoolReason.STOCK_FAILED),
        (pool(0), taken(highest=0), PoolReason.STOCK_CONSUMED),
        (pool(0), taken(claimed=(1,)), PoolReason.STOCK_READY),
        (pool(refill=Refill.NEVER), taken(ready=(1, 2)), PoolReason.STOCK_READY),
        (pool(refill=Refill.NEVER), taken(ready=(2,)), PoolReason.STOCK_READY),
        (pool(refill=Refill.NEVER), taken(claimed=(2,)), PoolReason.STOCK_READY),
        (pool(refill=Refill.NEVER), taken(ready=(1,), highest=1), PoolReason.STOCK_PROGRESSING),
        (pool(refill=Refill.NEVER), taken(), PoolReason.STOCK_CONSUMED),
        (pool(refill=Refill.NEVER), taken(highest=1), PoolReason.STOCK_PROGRESSING),
    ],
    ids=[
        "all ready",
        "one progressing",
        "surplus progressing",
        "one claimed",
        "all taken",
        "one failed",
        "no replicas",
        "no replicas, one claimed",
        "never: all ready",
        "never: one ready, one consumed",
        "never: one claimed, one consumed",
        "never: one not created",
        "never: all consumed",
        "never: one consumed, one not created",
    ],
)
def test_the_reason_follows_from_the_stock(
    of: StockPool, stock: Stocktaking, reason: PoolReason
) -> None:
    assert pool_verdict(of, stock).reason is reason


def test_failed_stock_is_reported_with_the_message_of_the_oldest_unit() -> None:
    verdict = pool_verdict(pool(), taken(failed=(12, 3)))
    assert verdict.message == "2 units cannot start, p-3: words"


def unplaced(ordinal: int, generation: int = 1) -> GPUUnit:
    """Return a unit of generation 1 that no node accepted in that generation."""
    condition = Condition(
        type="Ready",
        status="False",
        reason=UnitReason.POD_UNSCHEDULABLE,
        message="no GPU is left",
        observedGeneration=generation,
    )
    held = unit(ordinal)
    return attrs.evolve(
        held,
        metadata=attrs.evolve(held.metadata, generation=1),
        status=GPUUnitStatus(conditions=(condition,)),
    )


def test_units_without_a_node_are_counted_with_the_words_about_the_oldest() -> None:
    stock = attrs.evolve(
        taken(ready=(1, 2)), progressing=(unplaced(12), unplaced(3), unit(4, "on its way"))
    )
    verdict = pool_verdict(pool(), stock)
    assert verdict.reason is PoolReason.STOCK_UNSCHEDULABLE
    assert verdict.message == "2 of 5 units have no node, p-3: no GPU is left"


def test_words_about_an_earlier_spec_are_not_quoted() -> None:
    stock = attrs.evolve(taken(ready=(1,)), progressing=(unplaced(2, generation=9),))
    assert pool_verdict(pool(), stock).reason is PoolReason.STOCK_PROGRESSING


def test_a_pool_is_not_ready_while_ready_units_are_stale() -> None:
    stale = attrs.evolve(taken(ready=(1, 2)), stale=(unit(2),))
    verdict = pool_verdict(pool(), stale)
    assert verdict.reason is PoolReason.STOCK_PROGRESSING
    assert verdict.message.endswith("1 units have an earlier image or template")


def test_failed_units_that_are_about_to_change_are_no_failure_of_the_pool() -> None:
    mended = attrs.evolve(pool(), spec=attrs.evolve(pool().spec, image="new"))
    stale = attrs.evolve(taken(failed=(1, 2)), stale=(unit(1), unit(2)))
    assert pool_verdict(mended, stale).reason is PoolReason.STOCK_PROGRESSING


def test_a_pool_is_used_up_only_if_no_stock_is_left_or_will_be_created() -> None:
    never = pool(refill=Refill.NEVER)
    assert is_used_up(never, taken())
    assert not is_used_up(never, taken(claimed=(1,)))
    assert not is_used_up(never, taken(highest=1))
    assert not is_used_up(pool(), taken())


@given(
    st.lists(st.sampled_from(KINDS), max_size=12),
    st.integers(0, 20),
    st.integers(0, 12),
)
def test_every_created_unit_is_living_or_consumed(
    kinds: list[str], consumed: int, unrecorded: int
) -> None:
    ordinals = {
        kind: tuple(n for n, each in enumerate(kinds, 1) if each == kind) for kind in KINDS
    }
    highest = len(kinds) + consumed
    recorded = max(0, highest - unrecorded)
    status = pool_status(
        pool(),
        taken(highest=highest, **ordinals),
        PoolVerdict(reason=PoolReason.STOCK_PROGRESSING, message=""),
        recorded=recorded,
        now=NOW,
    )
    counts = (status.available, status.progressing, status.failed, status.claimed)
    assert counts == tuple(len(ordinals[kind]) for kind in KINDS)
    assert status.seeded == recorded
    assert status.consumed == recorded - min(len(kinds), recorded)


@pytest.mark.parametrize(
    ("reason", "phase"),
    [
        (PoolReason.STOCK_READY, "Ready"),
        (PoolReason.STOCK_PROGRESSING, "Progressing"),
        (PoolReason.STOCK_SYNC_FAILED, "Progressing"),
        (PoolReason.STOCK_UNSCHEDULABLE, "Progressing"),
        (PoolReason.STOCK_CONSUMED, "Empty"),
        (PoolReason.STOCK_FAILED, "Failed"),
        (PoolReason.INVALID_SPEC, "Failed"),
        (PoolReason.SPEC_CONFLICT, "Failed"),
    ],
)
def test_the_phase_follows_from_the_reason(reason: PoolReason, phase: str) -> None:
    verdict = PoolVerdict(reason=reason, message="words")
    status = pool_status(pool(), taken(), verdict, recorded=2, now=NOW)
    (condition,) = status.conditions
    assert (status.phase, status.observedGeneration) == (phase, 3)
    assert condition.is_true is (reason is PoolReason.STOCK_READY)


def test_the_same_stock_gives_the_same_status_later() -> None:
    verdict = pool_verdict(pool(), taken(ready=(1, 2)))
    first = pool_status(pool(), taken(ready=(1, 2)), verdict, recorded=2, now=NOW)
    held = attrs.evolve(pool(), status=first)
    later = NOW + timedelta(hours=1)
    assert pool_status(held, taken(ready=(1, 2)), verdict, recorded=2, now=later) == first


def test_an_annotation_that_is_no_timestamp_is_ignored() -> None:
    assert used_up_at(pool(marks={USED_UP_AT: "2025-01-01T00:00:00Z"})) == NOW
    for text in ("", "soon", "2025-01-01T00:00:00"):
        assert used_up_at(pool(marks={USED_UP_AT: text})) is None
