"""Changes that are recorded as Events."""

from typing import Any

import pytest

from gpuruntime.kube.events import Note
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.pools import StockPool, StockPoolSpec, StockPoolStatus
from gpuruntime.models.kinds.reasons import PoolReason, StorageReason, UnitReason
from gpuruntime.models.kinds.storages import GPUStorage, GPUStorageSpec, GPUStorageStatus
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitSpec, GPUUnitStatus
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.reconcilers.events import STORAGE_FAULTS, pool_note, storage_notes, unit_note


def ready(reason: str, message: str = "words") -> tuple[Condition, ...]:
    goods = (UnitReason.DEPLOYMENT_READY, UnitReason.FUNCTION_DECLARED, PoolReason.STOCK_READY)
    is_ready = reason in goods
    status = "True" if is_ready else "False"
    return (Condition(type="Ready", status=status, reason=reason, message=message),)


def note_of(before: str, after: str, *, is_stock: bool = False, source: str = "") -> Note | None:
    unit = GPUUnit(
        metadata=ObjectMeta(name="demo", annotations={labels.SOURCE_STOCK: source}),
        spec=GPUUnitSpec(specName="g1"),
        status=GPUUnitStatus(conditions=ready(before) if before else ()),
    )
    status = GPUUnitStatus(conditions=ready(after, "new words"), nodeName="node-1")
    return unit_note(unit, status, is_stock=is_stock)


WARNINGS = set(UnitReason) - {
    UnitReason.DEPLOYMENT_READY,
    UnitReason.DEPLOYMENT_PROGRESSING,
    UnitReason.FUNCTION_DECLARED,
    UnitReason.SCALED_TO_ZERO,
}


@pytest.mark.parametrize("reason", sorted(WARNINGS))
@pytest.mark.parametrize("is_stock", [True, False])
def test_a_reason_that_keeps_a_unit_from_ready_is_a_warning(reason: str, is_stock: bool) -> None:
    found = note_of("DeploymentProgressing", reason, is_stock=is_stock)
    assert found == Note(reason, "new words", is_warning=True)


def test_ready_names_the_node_and_the_replaced_stock() -> None:
    assert note_of("DeploymentProgressing", "DeploymentReady", source="stock/p-1") == Note(
        "DeploymentReady", "the Pod is ready on node-1, in the place of stock stock/p-1"
    )
    assert note_of("", "DeploymentReady") == Note("DeploymentReady", "the Pod is ready on node-1")


def test_a_callable_function_is_reported_with_its_own_message() -> None:
    assert note_of("QueueUnknown", "FunctionDeclared") == Note("FunctionDeclared", "new words")


def test_a_suspended_unit_is_reported_without_a_warning() -> None:
    assert note_of("DeploymentReady", "ScaledToZero") == Note("ScaledToZero", "new words")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "DeploymentProgressing"),
        ("PodStartupFailed", "DeploymentProgressing"),
        ("DeploymentReady", "DeploymentReady"),
        ("PodStartupFailed", "PodStartupFailed"),
    ],
)
def test_progress_and_new_messages_for_one_reason_are_not_reported(
    before: str, after: str
) -> None:
    assert note_of(before, after) is None


def test_healthy_stock_is_not_reported() -> None:
    assert note_of("DeploymentProgressing", "DeploymentReady", is_stock=True) is None


def pool_told(before: dict[str, Any], after: dict[str, Any], *, replicas: int = 2) -> Note | None:
    pool = StockPool(
        metadata=ObjectMeta(name="p"),
        spec=StockPoolSpec(specName="g1", replicas=replicas),
        status=StockPoolStatus(**before),
    )
    return pool_note(pool, StockPoolStatus(**after))


@pytest.mark.parametrize(
    "reason",
    [
        PoolReason.STOCK_FAILED,
        PoolReason.STOCK_SYNC_FAILED,
        PoolReason.STOCK_UNSCHEDULABLE,
        PoolReason.INVALID_SPEC,
        PoolReason.SPEC_CONFLICT,
    ],
)
def test_a_reason_that_keeps_a_pool_from_its_stock_is_a_warning(reason: str) -> None:
    fault = {"conditions": ready(reason)}
    assert pool_told({}, fault) == Note(reason, "words", is_warning=True)
    assert pool_told(fault, fault) is None


def test_a_pool_reports_once_that_it_is_seeded() -> None:
    seeded = Note("StockSeeded", "2 units of g1 are made")
    assert pool_told({"seeded": 1}, {"seeded": 2}) == seeded
    assert pool_told({"seeded": 2}, {"seeded": 3}) is None
    assert pool_told({"seeded": 0}, {"seeded": 1}) is None
    assert pool_told({}, {}, replicas=0) is None


def test_a_pool_does_not_report_each_claim() -> None:
    for before, after in (
        (PoolReason.STOCK_READY, PoolReason.STOCK_PROGRESSING),
        (PoolReason.STOCK_PROGRESSING, PoolReason.STOCK_READY),
        (PoolReason.STOCK_READY, PoolReason.STOCK_CONSUMED),
    ):
        assert pool_told({"conditions": ready(before)}, {"conditions": ready(after)}) is None


REFUSED = 'pods "unit-demo-1" is forbidden: exceeded quota: runtime'
REFUSED_AGAIN = REFUSED.replace("demo-1", "demo-2")


def refusal_of(before: str, after: str) -> Note | None:
    unit = GPUUnit(
        metadata=ObjectMeta(name="demo"),
        spec=GPUUnitSpec(specName="g1"),
        status=GPUUnitStatus(conditions=ready("DeploymentProgressing", before)),
    )
    status = GPUUnitStatus(conditions=ready("DeploymentProgressing", after))
    return unit_note(unit, status, is_stock=False)


def test_a_quota_that_refuses_a_units_pods_is_reported_once_for_all_pod_names() -> None:
    told = Note("PodRefused", REFUSED, is_warning=True)
    assert refusal_of("the Pod is on its way", REFUSED) == told
    assert refusal_of(REFUSED, REFUSED_AGAIN) is None
    assert refusal_of(REFUSED, "the Pod is on its way") is None


def conditions(words: str = "words", **reasons: str) -> tuple[Condition, ...]:
    return tuple(
        Condition(type=type_, status="False", reason=reason, message=words)
        for type_, reason in reasons.items()
    )


def storage_told(
    before: tuple[Condition, ...], after: tuple[Condition, ...]
) -> list[tuple[str, bool]]:
    storage = GPUStorage(
        metadata=ObjectMeta(name="models"),
        spec=GPUStorageSpec(size="1Gi"),
        status=GPUStorageStatus(conditions=before),
    )
    found = storage_notes(storage, GPUStorageStatus(conditions=after))
    return [(note.reason, note.is_warning) for note in found]


@pytest.mark.parametrize("reason", sorted(STORAGE_FAULTS))
def test_a_reason_that_keeps_a_storage_from_ready_is_a_warning(reason: str) -> None:
    failed = conditions(Ready=reason)
    assert storage_told(conditions(Ready="VolumePending"), failed) == [(reason, True)]
    assert storage_told((), failed) == [(reason, True)]
    assert storage_told(failed, failed) == []


@pytest.mark.parametrize(
    "reason", ["VolumePending", "VolumeEnding", "PrepareProgressing", "SourceNotReady"]
)
def test_progress_of_a_storage_is_not_reported(reason: str) -> None:
    assert storage_told((), conditions(Ready=reason)) == []


def test_a_storage_is_reported_when_it_is_ready_and_when_it_is_filled_again() -> None:
    failed = conditions(Ready="PrepareFailed", Prepared="PrepareFailed")
    filling = conditions(Ready="PrepareProgressing", Prepared="PrepareProgressing")
    filled = conditions(Ready="VolumeReady", Prepared="PrepareSucceeded")
    assert storage_told(failed, filling) == [("PrepareRecovering", False)]
    assert storage_told(filling, filled) == [("VolumeReady", False)]


def test_a_quota_that_refuses_a_prepares_pods_is_reported_once() -> None:
    waiting = conditions("the Job is on its way", Prepared=StorageReason.PREPARE_PROGRESSING)
    refused = conditions(REFUSED, Prepared=StorageReason.PREPARE_PROGRESSING)
    assert storage_told(waiting, refused) == [("PodRefused", True)]
    assert storage_told(refused, refused) == []


def test_a_file_server_that_cannot_start_is_a_warning_and_one_that_serves_is_not_reported() -> (
    None
):
    off, failed = (
        conditions(AccessorReady="AccessorOff"),
        conditions(AccessorReady="AccessorFailed"),
    )
    assert storage_told(off, failed) == [("AccessorFailed", True)]
    assert storage_told(failed, conditions(AccessorReady="AccessorServing")) == []
