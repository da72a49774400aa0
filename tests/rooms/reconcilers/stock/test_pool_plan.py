from datetime import UTC, datetime
from typing import NoReturn

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.pools import Refill, StockPool, StockPoolSpec, StockPoolStatus
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitSpec, GPUUnitStatus
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.reconcilers.stock.pool_plan import (
    BATCH,
    ORIGIN,
    plan,
    recordable,
    skipped,
    take_stock,
)


def pool(
    replicas: int, *, refill: str = Refill.ALWAYS, seeded: int = 0, skipped: int = 0
) -> StockPool:
    return StockPool(
        metadata=ObjectMeta(name="p", uid="pool"),
        spec=StockPoolSpec(specName="g1", replicas=replicas, refill=refill),
        status=StockPoolStatus(seeded=seeded, skipped=skipped),
    )


def stock(ordinal: int, *, claimed: bool = False, ready: bool = True) -> GPUUnit:
    marks = {labels.CLAIMED_BY: "instance/x"} if claimed else {}
    conditions = (Condition(type="Ready", status="True" if ready else "False"),)
    return GPUUnit(
        metadata=ObjectMeta(name=f"p-{ordinal}", labels={labels.POOL: "p"}, annotations=marks),
        spec=GPUUnitSpec(specName="g1"),
        status=GPUUnitStatus(conditions=conditions),
    )


def taker(ordinal: int, *, pool_uid: str = "") -> GPUUnit:
    """Return an active unit that names the stock."""
    marks = {labels.SOURCE_STOCK: f"stock/p-{ordinal}", labels.SOURCE_POOL_UID: pool_uid}
    return GPUUnit(
        metadata=ObjectMeta(name=f"taker-{ordinal}", annotations=marks),
        spec=GPUUnitSpec(specName="g1"),
    )


def test_a_gap_that_a_failed_create_left_is_filled_first() -> None:
    never = pool(4, refill=Refill.NEVER)
    taken = take_stock(never, [stock(1), stock(3)], [])
    assert plan(never, taken).creates == (2, 4)
    assert recordable(never, taken) == 1


@pytest.mark.parametrize(
    ("wanted", "living", "creates", "recorded", "passed"),
    [
        (pool(4, refill=Refill.NEVER), [1, 4], (2, 3), 1, 0),
        (pool(3, refill=Refill.NEVER), [1, 4], (2,), 1, 0),
        (pool(2, refill=Refill.NEVER), [1, 4], (), 4, 2),
        (pool(0, refill=Refill.NEVER), [1, 4], (), 4, 2),
        (pool(2), [1, 4], (), 4, 2),
        (pool(4, refill=Refill.NEVER, seeded=4, skipped=2), [1, 4], (5, 6), 4, 2),
        (pool(4, refill=Refill.NEVER, seeded=4, skipped=2), [], (5, 6), 4, 2),
        (pool(3, refill=Refill.NEVER, seeded=4, skipped=2), [1, 6], (), 6, 3),
    ],
    ids=[
        "wanted: gaps are created first",
        "one is wanted no longer: the first gap waits",
        "none is wanted: they are skipped",
        "nothing is wanted: they are skipped",
        "a pool that refills: they are skipped",
        "wanted again: new ordinals for the skipped ones",
        "skipped ones do not count as consumed",
        "skipped twice",
    ],
)
def test_ordinals_that_no_unit_ever_had_are_skipped_once_they_are_not_wanted(
    wanted: StockPool, living: list[int], creates: tuple[int, ...], recorded: int, passed: int
) -> None:
    taken = take_stock(wanted, [stock(each) for each in living], [])
    assert plan(wanted, taken).creates == creates
    assert recordable(wanted, taken) == recorded
    assert skipped(wanted, taken, recorded=recorded) == passed


def test_a_recorded_ordinal_is_never_created_again() -> None:
    never = pool(3, refill=Refill.NEVER, seeded=3)
    assert plan(never, take_stock(never, [stock(3)], [])).creates == ()


def test_a_lost_status_does_not_seed_ordinals_that_active_units_name() -> None:
    never = pool(3, refill=Refill.NEVER)
    takers = [taker(1, pool_uid="pool"), taker(2)]
    assert plan(never, take_stock(never, [stock(3)], takers)).creates == ()


class Untouched(tuple[GPUUnit, ...]):
    """A tuple of units that fails if it is iterated; its length may be read."""

    __slots__ = ()

    def __iter__(self) -> NoReturn:
        raise AssertionError("looked at each unit of a stock")


def test_stock_without_surplus_is_not_sorted() -> None:
    never = pool(2, refill=Refill.NEVER, seeded=2)
    taken = take_stock(never, [stock(1), stock(2)], [])
    assert plan(never, attrs.evolve(taken, ready=Untouched(taken.ready))).removes == ()


def test_a_new_pool_inherits_nothing_from_an_earlier_one_of_its_name() -> None:
    never = pool(2, refill=Refill.NEVER)
    takers = [taker(each, pool_uid="a pool of before") for each in (1, 2)]
    assert plan(never, take_stock(never, [], takers)).creates == (1, 2)


def test_a_restored_pool_recognises_its_stock_under_its_new_uid() -> None:
    metadata = ObjectMeta(name="p", uid="new", annotations={ORIGIN: "old"})
    restored = attrs.evolve(pool(2, refill=Refill.NEVER), metadata=metadata)
    takers = [taker(1, pool_uid="old"), taker(2, pool_uid="new")]
    assert plan(restored, take_stock(restored, [], takers)).creates == ()


def test_an_absurd_source_ordinal_costs_no_time() -> None:
    never = pool(2, refill=Refill.NEVER)
    assert plan(never, take_stock(never, [], [taker(10**9)])).creates == (1,)
    assert plan(never, take_stock(never, [], [taker(10**20)])).creates == (1, 2)


def test_the_newest_unready_unit_is_deleted_first_once_it_is_recorded() -> None:
    units = [stock(1), stock(2, ready=False), stock(3), stock(4, claimed=True), stock(5)]
    lowered = pool(1, seeded=4)
    removes = plan(lowered, take_stock(lowered, units, [])).removes
    assert [each.metadata.name for each in removes] == ["p-2", "p-3"]


def test_a_terminating_unit_is_neither_counted_nor_created_again() -> None:
    leaving = attrs.evolve(
        stock(2),
        metadata=attrs.evolve(
            stock(2).metadata, deletionTimestamp=datetime(2025, 1, 1, tzinfo=UTC)
        ),
    )
    kept = pool(2, seeded=2)
    taken = take_stock(kept, [stock(1), leaving], [])
    assert [each.metadata.name for each in taken.unclaimed] == ["p-1"]
    assert taken.ordinals == (1,)
    assert plan(kept, taken).creates == (3,)


ORDINALS = st.sets(st.integers(1, 90), max_size=80)


@given(
    replicas=st.integers(0, 90),
    refill=st.sampled_from(list(Refill)),
    living=ORDINALS,
    claimed=ORDINALS,
    seeded=st.integers(0, 90),
)
def test_no_plan_reuses_an_ordinal_or_overshoots(
    replicas: int, refill: str, living: set[int], claimed: set[int], seeded: int
) -> None:
    wanted = pool(replicas, refill=refill, seeded=seeded)
    taken = take_stock(wanted, [stock(each, claimed=each in claimed) for each in living], [])
    step = plan(wanted, taken)
    assert not living & set(step.creates)
    assert all(each > seeded for each in step.creates)
    assert len(step.creates) <= BATCH
    if refill == Refill.ALWAYS and step.creates:
        assert len(living - claimed) + len(step.creates) <= replicas
    assert seeded <= recordable(wanted, taken) <= max(taken.highest, seeded)
