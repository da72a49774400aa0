from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.tombstones import DeletedObject, Tombstone
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitSpec, GPUUnitStatus
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.reconcilers.unit.start_plan import (
    Candidate,
    ClaimAgain,
    Gate,
    Lose,
    Remove,
    Start,
    Term,
    Wait,
    gate,
)

BEGUN = datetime(2025, 1, 1, tzinfo=UTC)
SETTLED = Term(age_seconds=0.0, is_clean=True)
YOUNG = Term(age_seconds=20.0, is_clean=False)
SOURCE: dict[str, Any] = {labels.SOURCE_STOCK: "stock/p-1", labels.SOURCE_STOCK_UID: "s1"}


def unit(name: str = "a", *, age: int = 0, reason: str = "", **marks: str) -> GPUUnit:
    conditions = (Condition(type="Ready", status="False", reason=reason),) if reason else ()
    return GPUUnit(
        metadata=ObjectMeta(
            name=name,
            namespace="instance",
            uid=f"uid-{name}",
            creationTimestamp=BEGUN - timedelta(seconds=age),
            annotations={labels.OPERATION_ID: "op", **marks},
        ),
        spec=GPUUnitSpec(specName="g1"),
        status=GPUUnitStatus(conditions=conditions),
    )


def stock(*, uid: str = "s1", operation: str = "op", claimant: str = "instance/a") -> GPUUnit:
    marks = {labels.OPERATION_ID: operation, labels.CLAIMED_BY: claimant}
    return GPUUnit(
        metadata=ObjectMeta(name="p-1", namespace="stock", uid=uid, annotations=marks),
        spec=GPUUnitSpec(specName="g1"),
    )


def tombstone(name: str, uid: str) -> Tombstone:
    buried = DeletedObject(
        kind="GPUUnit", namespace="instance", name=name, uid=uid, requestHash="h"
    )
    return Tombstone(operation_id="op", expires_at=BEGUN, buried=(buried,))


def decided(of: GPUUnit, *rivals: GPUUnit, started: str = "", **more: Any) -> Gate:
    asked = {"tombstone": None, "stock": None, "unsettled_seconds": 0.0, **more}
    own = Candidate(unit=of, has_started=started == of.metadata.name)
    others = tuple(
        Candidate(unit=each, has_started=started == each.metadata.name) for each in rivals
    )
    return gate(own, rivals=others, **asked)


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (decided(unit()), Start),
        (decided(unit(), started="a", tombstone=tombstone("a", "other")), Start),
        (decided(unit(), tombstone=tombstone("a", "other")), Remove),
        (decided(unit(), tombstone=tombstone("a", "uid-a")), Start),
        (decided(unit(), tombstone=tombstone("b", "uid-b")), Start),
        (decided(unit(), unit("b", age=9)), Lose),
        (decided(unit(age=9), unit("b")), Start),
        (decided(unit(age=9), unit("b"), started="b"), Lose),
        (decided(unit(age=9), unit("b"), unsettled_seconds=40.0), Wait),
        (decided(unit(reason="OperationConflict")), Lose),
        (decided(unit(reason="OperationConflict"), unit("b", age=-9)), Lose),
        (decided(unit(**SOURCE), stock=stock()), Start),
        (decided(unit(**SOURCE), stock=None), ClaimAgain),
        (decided(unit(**SOURCE), stock=stock(uid="s2")), ClaimAgain),
        (decided(unit(**SOURCE), stock=stock(operation="x")), ClaimAgain),
        (decided(unit(**SOURCE), stock=stock(claimant="instance/b")), ClaimAgain),
        (decided(unit(**SOURCE), started="a", stock=None), Start),
    ],
    ids=[
        "alone",
        "started before its operation ended",
        "operation ended with another unit of its name",
        "operation ended with this very unit",
        "operation ended under another name",
        "younger than a rival",
        "older than a rival",
        "older than a rival that has started",
        "older than a rival whose start may still land",
        "lost before",
        "lost before, older than a rival",
        "own stock",
        "stock gone",
        "stock replaced",
        "stock of another operation",
        "stock claimed for another unit",
        "started, stock gone",
    ],
)
def test_the_gate_opens_for_one_unit_with_its_own_stock(found: Gate, kind: type) -> None:
    assert isinstance(found, kind)


def test_rivals_wait_for_the_rest_of_the_first_requests_lifetime() -> None:
    waiting = decided(unit(age=9), unit("b"), unsettled_seconds=YOUNG.unsettled_seconds)
    assert isinstance(waiting, Wait)
    assert waiting.seconds == 40.0
    late = attrs.evolve(YOUNG, age_seconds=60.0)
    assert decided(unit(age=9), unit("b"), unsettled_seconds=late.unsettled_seconds) == Start()
