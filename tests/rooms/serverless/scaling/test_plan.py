"""The plan for a function, as a table of situations and intents."""

from itertools import product
from typing import Any

import attrs
import pytest

from gpuruntime.models.kinds.functions import Serverless
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitSpec
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.serverless.scaling.plan import (
    MOST_AT_ONCE,
    UNKNOWN_DEPTH_SECONDS,
    Claim,
    Delete,
    Drain,
    EndAllInvocations,
    EndEarlierInvocations,
    EnsureConsumer,
    Intent,
    Observed,
    OrderDrain,
    Owner,
    decide,
    earliest,
)
from gpuruntime.serverless.scaling.worker_plan import (
    DRAINING_SECONDS,
    LASTING_SECONDS,
    UNSETTLED_SECONDS,
    Shortage,
    Worker,
    WorkerGroup,
    WorkerPhase,
)

LIMITS = Serverless(requestID="echo", maxWorkers=40)
TEMPLATE = GPUUnit(
    metadata=ObjectMeta(name="echo", uid="t"), spec=GPUUnitSpec(specName="g1.1", serverless=LIMITS)
)
BROKER = (EnsureConsumer(), EndEarlierInvocations("t"))
NAMES = tuple(f"new-{number}" for number in range(40))
READY = Worker(name="echo-w-1", phase=WorkerPhase.READY)
FAILED = Worker(name="echo-w-1", phase=WorkerPhase.FAILED)
DRAINING = Worker(name="echo-w-2", phase=WorkerPhase.DRAINING)
DRAINED = Worker(name="echo-w-3", phase=WorkerPhase.DRAINING, has_drained=True)
LOST = Worker(name="echo-w-4", phase=WorkerPhase.ADRIFT, since_seconds=LASTING_SECONDS)
OLD = Worker(name="echo-w-5", phase=WorkerPhase.READY, is_current=False)


def group(*workers: Worker, needed: int | None = 0, **members: Any) -> WorkerGroup:
    members = {"limits": LIMITS, "free_stock": 100, **members}
    return WorkerGroup(workers=workers, needed=needed, **members)


def strays(*workers: Worker) -> WorkerGroup:
    return group(*workers, free_stock=0, forbidden=Shortage.NO_TEMPLATE)


def owned(*workers: Worker, needed: int | None = 0, **members: Any) -> Observed:
    owner = Owner(
        template=TEMPLATE, workers=group(*workers, needed=needed, **members), free_names=NAMES
    )
    return Observed(function="echo", owner=owner, depth=needed)


def unowned(**members: Any) -> Observed:
    return Observed(**{"function": "echo", "owner": None, "depth": 0, **members})


def claims(count: int) -> tuple[Intent, ...]:
    return tuple(Claim(name, TEMPLATE, LIMITS) for name in NAMES[:count])


MANY_DRAINED = tuple(attrs.evolve(DRAINED, name=f"echo-w-{number}") for number in range(1, 31))
ROWS: dict[str, tuple[Observed, tuple[Intent, ...], float | None]] = {
    "nothing to do": (owned(), BROKER, None),
    "the first call": (owned(needed=1), (*BROKER, *claims(1)), None),
    "a burst": (owned(needed=30), (*BROKER, *claims(MOST_AT_ONCE)), None),
    "enough workers": (owned(READY, needed=1), BROKER, None),
    "less stock than needed": (
        owned(needed=3, free_stock=1),
        (*BROKER, *claims(1)),
        UNSETTLED_SECONDS,
    ),
    "claims are held after a refusal": (owned(needed=1, free_stock=0), BROKER, UNSETTLED_SECONDS),
    "a broken template": (owned(FAILED, needed=2), BROKER, None),
    "no work left": (owned(READY), (*BROKER, Drain("echo-w-1")), DRAINING_SECONDS),
    "a drain is going on": (owned(DRAINING), (*BROKER, OrderDrain("echo-w-2")), DRAINING_SECONDS),
    "a drain is over": (owned(DRAINED), (*BROKER, Delete("echo-w-3")), DRAINING_SECONDS),
    "many drains are over": (
        owned(*MANY_DRAINED),
        (*BROKER, *(Delete(each.name) for each in MANY_DRAINED[:MOST_AT_ONCE])),
        DRAINING_SECONDS,
    ),
    "work returns during a drain": (
        owned(DRAINING, needed=1),
        (*BROKER, *claims(1), OrderDrain("echo-w-2")),
        DRAINING_SECONDS,
    ),
    "a worker is lost for long": (
        owned(LOST, needed=1),
        (*BROKER, Drain("echo-w-4", is_replacement=True)),
        DRAINING_SECONDS,
    ),
    "an outdated worker": (owned(OLD, needed=1), (*BROKER, *claims(1)), None),
    "an outdated worker without free stock": (
        owned(OLD, needed=1, free_stock=0),
        BROKER,
        UNSETTLED_SECONDS,
    ),
    "an outdated worker that is recreated": (
        owned(OLD, needed=1, recreating=True),
        (*BROKER, Drain("echo-w-5")),
        DRAINING_SECONDS,
    ),
    "the depth is unknown": (owned(READY, needed=None), BROKER, None),
    "suspended": (
        owned(READY, needed=3, forbidden=Shortage.SUSPENDED),
        (*BROKER, Drain("echo-w-1")),
        DRAINING_SECONDS,
    ),
    "invalid": (owned(needed=3, forbidden=Shortage.INVALID), BROKER[1:], None),
    "the template terminates": (owned(forbidden=Shortage.NO_TEMPLATE), BROKER[1:], None),
    "undeclared for a moment": (unowned(grace_seconds=3.0), (), 3.0),
    "undeclared while the depth is unknown": (unowned(depth=None), (), UNKNOWN_DEPTH_SECONDS),
    "undeclared": (unowned(), (EndAllInvocations(),), None),
    "undeclared with strays": (
        unowned(strays=(strays(READY),)),
        (Drain("echo-w-1"), EndAllInvocations()),
        DRAINING_SECONDS,
    ),
    "strays beside the owner's workers": (
        attrs.evolve(owned(READY, needed=1), strays=(strays(DRAINING), strays(DRAINED))),
        (OrderDrain("echo-w-2"), Delete("echo-w-3"), *BROKER),
        DRAINING_SECONDS,
    ),
    "strays whose deletion goes on": (
        unowned(grace_seconds=9.0, strays=(strays(Worker(name="w", phase=WorkerPhase.GONE)),)),
        (),
        DRAINING_SECONDS,
    ),
}


@pytest.mark.parametrize(("seen", "intents", "seconds"), ROWS.values(), ids=ROWS)
def test_the_situation_of_a_function_determines_its_plan(
    seen: Observed, intents: tuple[Intent, ...], seconds: float | None
) -> None:
    found = decide(seen)
    assert (found.intents, found.look_again_seconds) == (intents, seconds)


@pytest.mark.parametrize(
    ("members", "seconds"),
    [
        ({}, None),
        ({"falls_in_seconds": 4.0}, 4.0),
        ({"held_seconds": 1.0, "falls_in_seconds": 4.0}, 1.0),
    ],
    ids=["at rest", "fewer workers are needed soon", "claims are held"],
)
def test_a_function_is_looked_at_again_when_its_plan_may_change_by_time(
    members: dict[str, Any], seconds: float | None
) -> None:
    seen = owned(READY, needed=1)
    assert seen.owner is not None
    seen = attrs.evolve(seen, owner=attrs.evolve(seen.owner, **members))
    assert decide(seen).look_again_seconds == seconds


def test_only_a_claim_without_a_ready_worker_is_a_cold_start() -> None:
    assert decide(owned(needed=1)).is_cold_start
    assert decide(owned(FAILED, DRAINING, OLD, needed=4)).is_cold_start is False
    assert decide(owned(READY, needed=2)).is_cold_start is False
    assert decide(owned(needed=0)).is_cold_start is False


def test_only_a_declared_function_has_a_status() -> None:
    assert decide(unowned()).status is None
    status = decide(owned(READY, needed=1)).status
    assert status is not None
    assert (status.desiredWorkers, status.readyWorkers, status.depth) == (1, 1, 1)


def test_the_earliest_of_no_times_is_none() -> None:
    assert earliest(None, None) is None
    assert earliest(2.0, None, 0.0) == 0.0


@pytest.mark.parametrize("needed", range(4))
@pytest.mark.parametrize("has_withdrawn", [True, False])
def test_more_stock_changes_no_plan_that_does_not_wait_for_stock(
    has_withdrawn: bool, needed: int
) -> None:
    """New stock wakes only functions whose plans wait for it."""
    for phases in (p for length in range(3) for p in product(WorkerPhase, repeat=length)):
        workers = [
            Worker(
                name=f"echo-w-{number}",
                phase=phase,
                since_seconds=LASTING_SECONDS,
                has_withdrawn=has_withdrawn,
            )
            for number, phase in enumerate(phases)
        ]
        for before in (0, 1):
            poor = decide(owned(*workers, needed=needed, free_stock=before))
            rich = decide(owned(*workers, needed=needed, free_stock=before + 1))
            assert poor.waits_for_stock or poor.intents == rich.intents, phases
