"""Tests of the counts of writes and crashes, and that the plans cover every kind of write."""

from collections import Counter

import pytest

from gpuruntime.kube.transport import Request
from tests.proofs.simulation.checks.coverage import MOMENTS, WriteCoverage, WriteKind, write_kind
from tests.proofs.simulation.faults.aimed_crashes import ACTIVATORS_CRASHES, CRASHES, aimed_crashes
from tests.proofs.simulation.faults.kinds import FaultKind

SEEDS = range(200)
UNITS = "/apis/runtime.lokiwager.io/v1alpha1/namespaces/stock/gpuunits"


@pytest.mark.parametrize(
    ("path", "what"),
    [
        (UNITS, "stock/gpuunits"),
        (f"{UNITS}/one", "stock/gpuunits"),
        (f"{UNITS}/one/status", "stock/gpuunits/status"),
        ("/api/v1/namespaces/system/configmaps/a", "system/configmaps"),
    ],
)
def test_a_kind_of_write_has_a_role_a_method_and_a_collection(path: str, what: str) -> None:
    found = write_kind("manager-1", Request(method="PATCH", path=path))
    assert found == WriteKind("manager", "PATCH", what)


def test_a_frequent_write_without_a_crash_is_missed() -> None:
    one, other = WriteCoverage(), WriteCoverage()
    for _ in range(2):
        one.note("api-0", Request(method="POST", path=UNITS), None)
    for moment in MOMENTS[:2]:
        other.note("api-1", Request(method="POST", path=UNITS), moment)
    other.note("api-1", Request(method="DELETE", path=f"{UNITS}/one"), FaultKind.DROPPED)
    one.add(other)
    assert one.missed(4) == ["api POST stock/gpuunits (written 4 times): no crash at crash-after"]
    assert one.missed(5) == []


def test_each_crash_is_planned_in_several_seeds() -> None:
    planned = Counter(
        (each.target, each.aim, each.kind, each.process.rpartition("-")[0])
        for seed in SEEDS
        for each in aimed_crashes(seed, has_function=False)
    )
    assert len(planned) == len(CRASHES)
    assert min(planned.values()) >= 6


def test_plans_with_functions_have_crashes_of_activators() -> None:
    aims = {
        (each.target, each.aim, each.kind)
        for seed in range(len(ACTIVATORS_CRASHES))
        for each in aimed_crashes(seed, has_function=True)
        if "activator" in each.process
    }
    assert len(aims) == len(ACTIVATORS_CRASHES)
