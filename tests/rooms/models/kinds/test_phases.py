"""A phase follows from the condition Ready alone."""

import pytest

from gpuruntime.models.kinds.phases import PoolPhase, UnitPhase, phase_of, pool_phase_of
from gpuruntime.models.kinds.reasons import PoolReason, UnitReason
from gpuruntime.models.kubernetes.conditions import Condition

FAILED = {
    "InvalidSpec",
    "PodStartupFailed",
    "StorageMountInvalid",
    "ServerlessConfigInvalid",
    "OperationConflict",
}


def ready(status: str, reason: str) -> tuple[Condition, ...]:
    return (
        Condition(type="StorageReady", status="True", reason="Elsewhere"),
        Condition(type="Ready", status=status, reason=reason),
    )


def test_a_unit_without_conditions_is_progressing() -> None:
    assert phase_of(()) is UnitPhase.PROGRESSING


def test_another_true_condition_does_not_make_a_unit_ready() -> None:
    assert phase_of(ready("False", "DeploymentProgressing")) is UnitPhase.PROGRESSING


@pytest.mark.parametrize("reason", [*UnitReason, "OfALaterVersion"])
def test_a_true_condition_is_ready_whatever_its_reason(reason: str) -> None:
    assert phase_of(ready("True", reason)) is UnitPhase.READY


@pytest.mark.parametrize("status", ["False", "Unknown"])
@pytest.mark.parametrize("reason", [*UnitReason, "OfALaterVersion"])
def test_the_reason_decides_between_the_other_phases(status: str, reason: str) -> None:
    if reason == "ScaledToZero":
        expected = UnitPhase.SUSPENDED
    else:
        expected = UnitPhase.FAILED if reason in FAILED else UnitPhase.PROGRESSING

    assert phase_of(ready(status, reason)) is expected


@pytest.mark.parametrize(
    ("status", "reason", "phase"),
    [
        ("True", PoolReason.STOCK_READY, PoolPhase.READY),
        ("False", PoolReason.STOCK_PROGRESSING, PoolPhase.PROGRESSING),
        ("False", PoolReason.STOCK_SYNC_FAILED, PoolPhase.PROGRESSING),
        ("False", PoolReason.STOCK_CONSUMED, PoolPhase.EMPTY),
        ("False", PoolReason.STOCK_FAILED, PoolPhase.FAILED),
        ("False", PoolReason.INVALID_SPEC, PoolPhase.FAILED),
        ("False", PoolReason.SPEC_CONFLICT, PoolPhase.FAILED),
    ],
)
def test_the_phase_of_a_pool(status: str, reason: str, phase: PoolPhase) -> None:
    assert pool_phase_of(ready(status, reason)) is phase


def test_a_pool_without_conditions_is_progressing() -> None:
    assert pool_phase_of(()) is PoolPhase.PROGRESSING
