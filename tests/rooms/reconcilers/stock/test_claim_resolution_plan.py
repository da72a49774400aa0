"""Decisions about a claimed stock unit, case by case."""

from datetime import UTC, datetime
from typing import Any

import pytest

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.pools import StockPool, StockPoolSpec, StockPoolStatus
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitSpec, GPUUnitStatus, Timeline
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.reconcilers.stock.claim_resolution_plan import (
    AwaitRecord,
    Consume,
    Doubt,
    Resolution,
    Rest,
    is_recorded,
    resolve,
)

BEGUN = datetime(2025, 1, 1, tzinfo=UTC)


def stock(name: str = "p-2", *, claimed: bool = True, **marks: str) -> GPUUnit:
    claim = {labels.CLAIMED_BY: "instance/a", labels.OPERATION_ID: "op"} if claimed else {}
    return GPUUnit(
        metadata=ObjectMeta(
            name=name,
            namespace="stock",
            uid="s1",
            labels={labels.POOL: "p"},
            annotations={labels.POOL_UID: "pool", **claim, **marks},
        ),
        spec=GPUUnitSpec(specName="g1"),
    )


def claimant(
    *, operation: str = "op", source: str = "s1", created: datetime | None = BEGUN
) -> GPUUnit:
    marks = {labels.OPERATION_ID: operation, labels.SOURCE_STOCK_UID: source}
    return GPUUnit(
        metadata=ObjectMeta(name="a", namespace="instance", annotations=marks),
        spec=GPUUnitSpec(specName="g1"),
        status=GPUUnitStatus(timeline=Timeline(createdAt=created)),
    )


@pytest.mark.parametrize(
    ("held", "by", "recorded", "expected"),
    [
        (stock(claimed=False), None, True, Rest()),
        (stock(claimed=False), claimant(), True, Rest()),
        (stock(), claimant(), True, Consume()),
        (stock(), claimant(), False, AwaitRecord()),
        (stock(), claimant(created=None), True, Rest()),
        (stock(), claimant(created=None), False, Rest()),
        (stock(), None, True, Doubt()),
        (stock(), claimant(operation="other"), True, Doubt()),
        (stock(), claimant(source="another"), True, Doubt()),
        (stock(), claimant(source="another", created=None), False, Doubt()),
    ],
    ids=[
        "unclaimed",
        "unclaimed beside a unit",
        "claimant started and recorded",
        "claimant started, not recorded",
        "claimant not started, recorded",
        "claimant not started, not recorded",
        "no claimant",
        "claimant of another operation",
        "claimant with other stock",
        "claimant with other stock, not started",
    ],
)
def test_each_state_of_a_claim_has_one_resolution(
    held: GPUUnit, by: GPUUnit | None, recorded: bool, expected: Resolution
) -> None:
    assert resolve(held, by, is_recorded=recorded) == expected


def pool(*, seeded: int, uid: str = "pool") -> StockPool:
    return StockPool(
        metadata=ObjectMeta(name="p", uid=uid),
        spec=StockPoolSpec(specName="g1", replicas=2),
        status=StockPoolStatus(seeded=seeded),
    )


@pytest.mark.parametrize(
    ("held", "of", "expected"),
    [
        (stock("p-2"), pool(seeded=1), False),
        (stock("p-2"), pool(seeded=2), True),
        (stock("p-2"), None, True),
        (stock("p-2"), pool(seeded=0, uid="another"), True),
        (stock("by-hand"), pool(seeded=0), True),
    ],
    ids=[
        "above the recorded ordinal",
        "at the recorded ordinal",
        "no pool",
        "replaced pool",
        "stock without an ordinal",
    ],
)
def test_an_ordinal_counts_as_recorded(held: GPUUnit, of: Any, expected: bool) -> None:
    assert is_recorded(held, of) is expected
