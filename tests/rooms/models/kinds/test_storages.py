"""Cycles of copies between storages."""

import pytest

from gpuruntime.models.kinds.phases import StepPhase
from gpuruntime.models.kinds.storages import (
    GPUStorage,
    GPUStorageSpec,
    GPUStorageStatus,
    Prepare,
    PrepareStatus,
    copy_cycle,
)
from gpuruntime.models.kubernetes.metadata import ObjectMeta


def copy(name: str, source: str = "", phase: str = "") -> GPUStorage:
    return GPUStorage(
        metadata=ObjectMeta(name=name),
        spec=GPUStorageSpec(
            size="1Gi", prepare=Prepare(fromStorageName=source) if source else None
        ),
        status=GPUStorageStatus(prepare=PrepareStatus(phase=phase)),
    )


@pytest.mark.parametrize(
    ("source", "others", "circle"),
    [
        ("b", (), ()),
        ("b", (copy("b"),), ()),
        ("b", (copy("b", "c"), copy("c")), ()),
        ("a", (), ("a", "a")),
        ("b", (copy("b", "a"),), ("a", "b", "a")),
        ("b", (copy("b", "c"), copy("c", "a")), ("a", "b", "c", "a")),
        ("b", (copy("b", "c"), copy("c", "b")), ("a", "b", "c", "b")),
        ("b", (copy("b", "a", StepPhase.SUCCEEDED),), ()),
        ("b", (copy("b", "a", StepPhase.FAILED),), ("a", "b", "a")),
    ],
    ids=[
        "unknown source",
        "plain source",
        "chain",
        "itself",
        "two",
        "three",
        "cycle of others",
        "filled",
        "failed",
    ],
)
def test_only_unfilled_storages_close_a_cycle_of_copies(
    source: str, others: tuple[GPUStorage, ...], circle: tuple[str, ...]
) -> None:
    stored = {each.metadata.name: each for each in others}
    found = copy_cycle("a", Prepare(fromStorageName=source), stored.get)
    assert found == circle


def test_a_storage_without_a_source_closes_no_cycle() -> None:
    assert copy_cycle("a", None, {"a": copy("a", "a")}.get) == ()
