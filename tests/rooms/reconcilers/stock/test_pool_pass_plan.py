"""The plan of a pass over a pool: its writes, whether it reports, and when to look again."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import attrs
import pytest

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.pools import Refill, StockPool, StockPoolSpec, StockPoolStatus
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitSpec, GPUUnitStatus
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.kubernetes.timestamps import rfc3339
from gpuruntime.reconcilers.children.refusals import REFUSED_SECONDS
from gpuruntime.reconcilers.options import PodDefaults
from gpuruntime.reconcilers.stock.pool_pass_plan import (
    AT_ONCE,
    FINALIZER,
    Adopt,
    ChangeUnits,
    CreateUnits,
    Intent,
    LetGo,
    MarkUsedUp,
    Observed,
    PoolOptions,
    RemoveUnits,
    Retire,
    again_after_report,
    decide,
    status_of,
)
from gpuruntime.reconcilers.stock.pool_plan import take_stock
from gpuruntime.reconcilers.stock.pool_status import USED_UP_AT
from tests.options import configured

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
DAY: Final = timedelta(days=1)
OPTIONS: Final = PoolOptions(
    defaults=configured(PodDefaults, cpu="1", memory="1Gi"), retention=DAY
)
READY: Final = Condition(type="Ready", status="True", reason="DeploymentReady")
UNSETTLED: Final = 40.0
UNREPORTED: Final = 0.5


def pool(
    replicas: int = 2, *, refill: Refill = Refill.ALWAYS, seeded: int = 0, **metadata: Any
) -> StockPool:
    given = {"finalizers": (FINALIZER,), **metadata}
    return StockPool(
        metadata=ObjectMeta(name="p", namespace="stock", uid="1", **given),
        spec=StockPoolSpec(specName="g1", replicas=replicas, refill=refill),
        status=StockPoolStatus(seeded=seeded),
    )


def unit(ordinal: int) -> GPUUnit:
    return GPUUnit(
        metadata=ObjectMeta(
            name=f"p-{ordinal}", namespace="stock", uid=f"u{ordinal}", labels={labels.POOL: "p"}
        ),
        spec=GPUUnitSpec(specName="g1"),
        status=GPUUnitStatus(phase="Ready", conditions=(READY,)),
    )


def seen(of: StockPool, *ordinals: int, is_reported: bool = False, **more: Any) -> Observed:
    """Return the pool with ready units of these ordinals, its status written if so said."""
    units = [unit(each) for each in ordinals]
    observed = Observed(pool=of, stock=take_stock(of, units, ()), **more)
    if not is_reported:
        return observed
    written = attrs.evolve(of, status=status_of(observed, now=NOW))
    return attrs.evolve(observed, pool=written, stock=take_stock(written, units, ()))


def used_up(since: datetime | None = None) -> StockPool:
    marks = {USED_UP_AT: rfc3339(since)} if since else {}
    return pool(2, refill=Refill.NEVER, seeded=2, annotations=marks)


def mended(of: StockPool) -> StockPool:
    """Return the pool with another image than its stock."""
    return attrs.evolve(of, spec=attrs.evolve(of.spec, image="new"))


ENDING: Final[dict[str, Any]] = {"deletionTimestamp": NOW}


@pytest.mark.parametrize(
    ("observed", "intents", "reports", "again_seconds"),
    [
        pytest.param(
            seen(pool(finalizers=())),
            (Adopt(),),
            False,
            AT_ONCE,
            id="new: the finalizer comes before the first unit",
        ),
        pytest.param(
            seen(attrs.evolve(pool(), spec=StockPoolSpec(specName="g1", replicas=2, cpu="much"))),
            (),
            True,
            REFUSED_SECONDS,
            id="an invalid spec: report, create nothing",
        ),
        pytest.param(
            seen(
                pool(),
                in_force=attrs.evolve(
                    pool(), spec=StockPoolSpec(specName="g1", replicas=2, cpu="8")
                ),
            ),
            (),
            True,
            REFUSED_SECONDS,
            id="another envelope than the pool in force: report, create nothing",
        ),
        pytest.param(
            seen(pool(), 1), (CreateUnits((2,)),), True, None, id="a missing unit: create, report"
        ),
        pytest.param(
            seen(mended(pool()), 1, 2),
            (ChangeUnits((unit(1),)),),
            True,
            None,
            id="stale units: change the canary, report",
        ),
        pytest.param(
            seen(mended(pool(3)), 1, 2, unsettled_seconds=UNSETTLED),
            (CreateUnits((3,)), ChangeUnits((unit(1),))),
            True,
            None,
            id="a missing and a stale unit: a refused create holds up no change",
        ),
        pytest.param(
            seen(mended(pool(1, seeded=2)), 1, 2, is_reported=True),
            (RemoveUnits((unit(2),)),),
            False,
            None,
            id="a surplus of stale units: delete before any changes",
        ),
        pytest.param(
            seen(mended(pool(seeded=2, **ENDING)), 1, 2),
            (RemoveUnits((unit(1), unit(2))),),
            False,
            None,
            id="deleted with stale units: delete them as they are",
        ),
        pytest.param(seen(pool(), 1, 2), (), True, None, id="complete and not reported: report"),
        pytest.param(
            seen(pool(), 1, 2, is_reported=True), (), False, None, id="complete: nothing is left"
        ),
        pytest.param(
            seen(pool(1, seeded=2), 1, 2),
            (),
            True,
            None,
            id="a surplus and a status to write: report, and delete in the next pass",
        ),
        pytest.param(
            seen(pool(1, seeded=2), 1, 2, is_reported=True),
            (RemoveUnits((unit(2),)),),
            False,
            None,
            id="a surplus: delete the newest",
        ),
        pytest.param(
            seen(pool(1, seeded=2), 1, 2, unreported_seconds=UNREPORTED),
            (RemoveUnits((unit(2),)),),
            False,
            UNREPORTED,
            id="a surplus while a status has to wait: delete what is recorded",
        ),
        pytest.param(
            seen(pool(1), 1, 2, is_reported=True, unsettled_seconds=UNSETTLED),
            (),
            False,
            UNSETTLED,
            id="a surplus that is not recorded: keep it until no create can land",
        ),
        pytest.param(
            seen(used_up(), is_reported=True),
            (MarkUsedUp(NOW),),
            False,
            DAY.total_seconds(),
            id="used up: note since when",
        ),
        pytest.param(
            seen(used_up(NOW - DAY / 2), is_reported=True),
            (),
            False,
            DAY.total_seconds() / 2,
            id="used up for less than the retention: wait",
        ),
        pytest.param(
            seen(used_up(NOW - DAY), is_reported=True),
            (Retire(),),
            False,
            None,
            id="used up for the retention: delete the pool",
        ),
        pytest.param(
            seen(used_up(NOW - DAY), 2, is_reported=True),
            (MarkUsedUp(None),),
            False,
            None,
            id="no longer used up: remove the note",
        ),
        pytest.param(
            seen(pool(seeded=2, **ENDING), 1, 2),
            (RemoveUnits((unit(1), unit(2))),),
            False,
            None,
            id="deleted: delete its unclaimed stock",
        ),
        pytest.param(
            seen(pool(seeded=1, **ENDING), 1, 2, unsettled_seconds=UNSETTLED),
            (RemoveUnits((unit(1),)),),
            False,
            UNSETTLED,
            id="deleted while a create may land: keep what is not recorded",
        ),
        pytest.param(
            seen(pool(seeded=2, **ENDING)), (LetGo(),), False, None, id="deleted and empty: let go"
        ),
        pytest.param(
            seen(pool(finalizers=("another",), **ENDING)),
            (),
            False,
            None,
            id="deleted and let go: nothing is left to do",
        ),
    ],
)
def test_what_a_pool_needs_next(
    observed: Observed,
    intents: tuple[Intent, ...],
    reports: bool,
    again_seconds: float | None,
) -> None:
    plan = decide(observed, OPTIONS, now=NOW)
    assert plan.intents == intents
    assert plan.reports is reports
    assert plan.again_seconds == again_seconds


@pytest.mark.parametrize(
    ("observed", "is_refused", "again_seconds"),
    [
        (seen(pool(), 1), False, AT_ONCE),
        (seen(pool(), 1), True, REFUSED_SECONDS),
        (seen(mended(pool()), 1, 2), True, REFUSED_SECONDS),
        (seen(pool(), 1, 2, is_reported=True), False, None),
        (seen(pool(1, seeded=2), 1, 2, is_reported=True), False, AT_ONCE),
        (seen(pool(), 1, 2, is_reported=True, unsettled_seconds=UNSETTLED), False, UNSETTLED),
    ],
    ids=[
        "more to create: at once",
        "more to create after a refusal: later",
        "more to change after a refusal: later",
        "complete: at the next event",
        "a surplus: at once",
        "not recorded yet: when no create can land any more",
    ],
)
def test_what_is_left_after_a_report_follows_in_the_next_pass(
    observed: Observed, is_refused: bool, again_seconds: float | None
) -> None:
    again = again_after_report(observed, OPTIONS, is_refused=is_refused, now=NOW)
    assert again == again_seconds


def test_an_ordinal_is_recorded_only_if_no_create_can_be_in_flight() -> None:
    assert status_of(seen(pool(), 1, 2), now=NOW).seeded == 2
    unsettled = seen(pool(), 1, 2, unsettled_seconds=UNSETTLED)
    assert status_of(unsettled, now=NOW).seeded == 0
