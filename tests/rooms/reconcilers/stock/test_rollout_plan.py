"""The decision which stock takes the image and template of its pool next, as a table."""

from datetime import UTC, datetime
from enum import Enum
from typing import Final

import attrs
import pytest

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.pools import Refill, StockPool, StockPoolSpec
from gpuruntime.models.kinds.reasons import UnitReason
from gpuruntime.models.kinds.templates import Template
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitSpec, GPUUnitStatus, Timeline
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.reconcilers.stock.pool_plan import BATCH, take_stock
from gpuruntime.reconcilers.stock.rollout_plan import next_to_follow

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
OLD: Final = GPUUnitSpec(specName="g1", image="old")
NEW: Final = GPUUnitSpec(specName="g1", image="new", template=Template(args=("serve",)))


class Of(Enum):
    """A stock unit: spec, reason, whether it was ever ready, and whether it is claimed."""

    OLD_READY = (OLD, UnitReason.DEPLOYMENT_READY, True, False)
    OLD_STARTING = (OLD, UnitReason.DEPLOYMENT_PROGRESSING, False, False)
    OLD_FAILED = (OLD, UnitReason.POD_STARTUP_FAILED, False, False)
    OLD_CLAIMED = (OLD, UnitReason.DEPLOYMENT_READY, True, True)
    NEW_READY = (NEW, UnitReason.DEPLOYMENT_READY, True, False)
    NEW_STARTING = (NEW, UnitReason.DEPLOYMENT_PROGRESSING, False, False)
    NEW_FAILED = (NEW, UnitReason.POD_STARTUP_FAILED, False, False)
    LOST_STARTING = (NEW, UnitReason.DEPLOYMENT_PROGRESSING, True, False)
    LOST_FAILED = (NEW, UnitReason.POD_STARTUP_FAILED, True, False)


def unit(of: Of, ordinal: int) -> GPUUnit:
    spec, reason, was_ready, is_claimed = of.value
    claim = {labels.CLAIMED_BY: "instance/x"} if is_claimed else {}
    is_ready = reason is UnitReason.DEPLOYMENT_READY
    condition = Condition(type="Ready", status=str(is_ready), reason=reason)
    return GPUUnit(
        metadata=ObjectMeta(
            name=f"p-{ordinal}", uid=str(ordinal), labels={labels.POOL: "p"}, annotations=claim
        ),
        spec=spec,
        status=GPUUnitStatus(
            conditions=(condition,), timeline=Timeline(readyAt=NOW if was_ready else None)
        ),
    )


def pool(refill: Refill = Refill.ALWAYS, replicas: int = 8) -> StockPool:
    spec = StockPoolSpec(
        specName="g1", replicas=replicas, refill=refill, image=NEW.image, template=NEW.template
    )
    return StockPool(metadata=ObjectMeta(name="p", namespace="stock"), spec=spec)


def followed(*kinds: Of, refill: Refill = Refill.ALWAYS) -> list[int]:
    """Return the ordinals, from 1, of the units that change next."""
    units = [unit(kind, ordinal) for ordinal, kind in enumerate(kinds, 1)]
    changed = next_to_follow(pool(refill), take_stock(pool(refill), units, ()))
    return [int(each.metadata.uid) for each in changed]


@pytest.mark.parametrize(
    ("kinds", "ordinals"),
    [
        pytest.param((Of.NEW_READY, Of.NEW_STARTING), [], id="nothing is stale"),
        pytest.param((Of.OLD_READY,) * 8, [1], id="all ready: one canary"),
        pytest.param((Of.OLD_READY,), [1], id="a single unit is its own canary"),
        pytest.param(
            (Of.LOST_STARTING, *(Of.OLD_READY,) * 7), [], id="the canary starts: nobody follows"
        ),
        pytest.param(
            (Of.LOST_FAILED, *(Of.OLD_READY,) * 7), [], id="the canary fails: nobody follows"
        ),
        pytest.param(
            (Of.NEW_READY, *(Of.OLD_READY,) * 7), [2, 3], id="the canary is ready: a quarter"
        ),
        pytest.param(
            (Of.NEW_READY, Of.LOST_STARTING, *(Of.OLD_READY,) * 6),
            [3],
            id="one of the quarter starts: one more",
        ),
        pytest.param(
            (Of.NEW_READY, Of.LOST_STARTING, Of.LOST_STARTING, *(Of.OLD_READY,) * 5),
            [],
            id="the whole quarter starts: nobody follows",
        ),
        pytest.param(
            (Of.NEW_READY, Of.LOST_FAILED, *(Of.OLD_READY,) * 6),
            [],
            id="one that was ready fails: nobody follows",
        ),
        pytest.param(
            (Of.NEW_READY, Of.NEW_FAILED, Of.NEW_STARTING, *(Of.OLD_READY,) * 5),
            [4, 5],
            id="new units that were never ready take nothing away",
        ),
        pytest.param((Of.NEW_READY, Of.OLD_READY, Of.OLD_READY), [2], id="a quarter of 3 is one"),
        pytest.param((Of.OLD_FAILED,) * 8, list(range(1, 9)), id="all failed: all at once"),
        pytest.param(
            (Of.OLD_READY, Of.OLD_READY, Of.OLD_FAILED, Of.OLD_FAILED),
            [3, 4, 1],
            id="failed ones come first, beside the canary",
        ),
        pytest.param(
            (Of.LOST_FAILED, Of.OLD_READY, Of.OLD_FAILED),
            [3],
            id="failed ones follow while the canary has failed",
        ),
        pytest.param(
            (Of.OLD_STARTING,) * 3, [1, 2, 3], id="none is ready yet: there is nothing to lose"
        ),
        pytest.param(
            (Of.OLD_STARTING, Of.OLD_READY), [2], id="one that starts waits for the canary"
        ),
        pytest.param(
            (Of.OLD_STARTING, Of.LOST_STARTING), [], id="one that starts waits while it starts"
        ),
        pytest.param(
            (*(Of.OLD_STARTING,) * 5, Of.NEW_READY, Of.OLD_READY, Of.OLD_READY),
            [1, 2, 3, 4, 5, 7, 8],
            id="ones that start follow at once after the canary",
        ),
        pytest.param((Of.OLD_CLAIMED,) * 3, [], id="claimed ones never follow"),
        pytest.param(
            (Of.OLD_CLAIMED, Of.OLD_CLAIMED, *(Of.NEW_READY,) * 4, Of.OLD_READY, Of.OLD_READY),
            [7],
            id="claimed ones do not count for the quarter",
        ),
    ],
)
def test_the_units_that_follow_next(kinds: tuple[Of, ...], ordinals: list[int]) -> None:
    assert followed(*kinds) == ordinals
    assert followed(*kinds, refill=Refill.NEVER) == ordinals


def test_a_unit_between_its_change_and_its_next_report_is_away() -> None:
    before = unit(Of.OLD_READY, 1)
    reported = attrs.evolve(before.status.conditions[0], observedGeneration=1)
    changed = attrs.evolve(
        before,
        metadata=attrs.evolve(before.metadata, generation=2),
        spec=NEW,
        status=attrs.evolve(before.status, conditions=(reported,)),
    )
    stock = take_stock(pool(), [changed, *(unit(Of.OLD_READY, each) for each in range(2, 9))], ())
    assert (len(stock.ready), len(stock.progressing), len(stock.stale)) == (7, 1, 7)
    assert next_to_follow(pool(), stock) == ()


def test_one_pass_changes_no_more_than_a_batch() -> None:
    assert len(followed(*(Of.OLD_FAILED,) * (BATCH + 1))) == BATCH
