"""The comparison of statuses names what a fresh look writes otherwise."""

from gpuruntime.models.kubernetes.metadata import Key
from tests.proofs.simulation.checks.stale_status import Statuses, stale_statuses

ONE = ("GPUUnit", Key("n", "a"), "1")


def test_a_member_that_a_fresh_look_writes_otherwise_is_stale() -> None:
    written: Statuses = {ONE: {"phase": "Progressing"}}
    fresh: Statuses = {ONE: {"phase": "Ready"}}
    (found,) = stale_statuses(written, fresh)
    assert found == "GPUUnit n/a is stale: phase Progressing at rest, Ready by a fresh look"


def test_equal_statuses_and_deleted_objects_are_not_stale() -> None:
    written: Statuses = {ONE: {"phase": "Ready"}}
    assert not list(stale_statuses(written, written))
    assert not list(stale_statuses(written, {}))
