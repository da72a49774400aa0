"""The plan of a stock unit by its pool, its claimant and the grace of its claim."""

from datetime import UTC, datetime
from typing import Final

import pytest

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.pools import StockPool, StockPoolSpec, StockPoolStatus
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitSpec, GPUUnitStatus, Timeline
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.reconcilers.stock.plan import (
    RECORD_SECONDS,
    Delete,
    Free,
    Intent,
    Keep,
    Observed,
    decide,
)

MOMENT: Final = datetime(2026, 1, 1, tzinfo=UTC)
SPEC: Final = GPUUnitSpec(specName="g1")
OF_POOL: Final = {labels.POOL_UID: "pool"}
CLAIM: Final = {
    **OF_POOL,
    labels.CLAIMED_BY: "instance/u",
    labels.OPERATION_ID: "op",
    labels.CLAIM_ATTEMPT: "a",
}


def stock(marks: dict[str, str]) -> GPUUnit:
    return GPUUnit(
        metadata=ObjectMeta(
            name="p-1", namespace="stock", uid="s", labels={labels.POOL: "p"}, annotations=marks
        ),
        spec=SPEC,
    )


def pool(seeded: int) -> StockPool:
    return StockPool(
        metadata=ObjectMeta(name="p", namespace="stock", uid="pool"),
        spec=StockPoolSpec(specName="g1", replicas=1),
        status=StockPoolStatus(seeded=seeded),
    )


def claimant(*, has_begun: bool) -> GPUUnit:
    marks = {
        labels.OPERATION_ID: "op",
        labels.SOURCE_STOCK: "stock/p-1",
        labels.SOURCE_STOCK_UID: "s",
    }
    timeline = Timeline(createdAt=MOMENT if has_begun else None)
    return GPUUnit(
        metadata=ObjectMeta(name="u", namespace="instance", uid="u", annotations=marks),
        spec=SPEC,
        status=GPUUnitStatus(timeline=timeline),
    )


FREE: Final = stock(OF_POOL)
CLAIMED: Final = stock(CLAIM)
WAITS: Final = claimant(has_begun=False)
BEGAN: Final = claimant(has_begun=True)


@pytest.mark.parametrize(
    ("observed", "intent", "again_seconds"),
    [
        pytest.param(
            Observed(stock=FREE, pool=pool(1), claimant=None), Keep(), None, id="free: keep it"
        ),
        pytest.param(
            Observed(stock=FREE, pool=None, claimant=None),
            Delete("its pool is gone"),
            None,
            id="free, and its pool is gone: delete it",
        ),
        pytest.param(
            Observed(stock=CLAIMED, pool=pool(1), claimant=WAITS),
            Keep(),
            None,
            id="its claimant has not started: keep it",
        ),
        pytest.param(
            Observed(stock=CLAIMED, pool=None, claimant=WAITS),
            Keep(),
            None,
            id="claimed, and its pool is gone: keep it for its claimant",
        ),
        pytest.param(
            Observed(stock=CLAIMED, pool=pool(1), claimant=BEGAN),
            Delete("consumed"),
            None,
            id="its claimant has started: delete it",
        ),
        pytest.param(
            Observed(stock=CLAIMED, pool=pool(0), claimant=BEGAN),
            Keep(),
            RECORD_SECONDS,
            id="its claimant has started, its ordinal is not recorded: wait for the record",
        ),
        pytest.param(
            Observed(stock=CLAIMED, pool=pool(1), claimant=None, grace_seconds=7.0),
            Keep(),
            7.0,
            id="no claimant, within the grace: keep it until then",
        ),
        pytest.param(
            Observed(
                stock=CLAIMED,
                pool=pool(1),
                claimant=None,
                grace_seconds=0.0,
                live_claimant=WAITS,
            ),
            Keep(),
            RECORD_SECONDS,
            id="no claimant in the cache, but a live one: keep it",
        ),
        pytest.param(
            Observed(stock=CLAIMED, pool=pool(1), claimant=None, grace_seconds=0.0),
            Free(),
            None,
            id="no claimant after the grace: free it",
        ),
    ],
)
def test_what_becomes_of_a_stock_unit(
    observed: Observed, intent: Intent, again_seconds: float | None
) -> None:
    plan = decide(observed)
    assert plan.intents == (intent,)
    assert plan.again_seconds == again_seconds
