"""A controller gets all faults at once, named by the paths of their fields."""

from typing import Any

import attrs
import pytest

from gpuruntime.models.kinds.functions import Serverless
from gpuruntime.models.kinds.pools import StockPool, StockPoolSpec
from gpuruntime.models.kinds.reasons import UnitReason
from gpuruntime.models.kinds.templates import Port, Template
from gpuruntime.models.kinds.units import Access, GPUUnit, GPUUnitSpec, StorageMount
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.strict.structure import Problem
from gpuruntime.strict.validation import pool_problems, reason_of, unit_problems

UNIT = GPUUnit(
    metadata=ObjectMeta(name="unit"),
    spec=GPUUnitSpec(specName="g1.1", image="a:1", cpu="500m", memory="16Gi", gpu=1),
)
HTTP = Port(name="http", port=80)
ONE_TOO_MANY = Serverless(requestID="fn", minAvailableCount=2, maxWorkers=1)
TWICE = (StorageMount(name="a", mountPath="/a"), StorageMount(name="a", mountPath="/b"))


def with_spec(**changes: Any) -> GPUUnit:
    return attrs.evolve(UNIT, spec=attrs.evolve(UNIT.spec, **changes))


def fields(problems: tuple[Problem, ...]) -> list[str]:
    return [problem.field for problem in problems]


@pytest.mark.parametrize(
    "unit", [UNIT, with_spec(cpu="", memory="")], ids=["full envelope", "defaults"]
)
def test_a_sound_unit_has_no_problems(unit: GPUUnit) -> None:
    assert unit_problems(unit) == ()


@pytest.mark.parametrize("text", ["not-a-quantity", "0", "-1", "1Ei", "1e30", "1 Gi"])
def test_a_quantity_must_be_positive_and_below_an_exbibyte(text: str) -> None:
    (problem,) = unit_problems(with_spec(memory=text))

    assert problem.field == "spec.memory"
    assert repr(text) in problem.message


def test_all_faults_are_named_at_once() -> None:
    unit = with_spec(
        cpu="one",
        memory="0",
        template=Template(ports=(HTTP, HTTP)),
        access=Access(primaryPort="admin"),
        storageMounts=TWICE,
        serverless=ONE_TOO_MANY,
    )

    assert sorted(set(fields(unit_problems(unit)))) == [
        "spec.access.primaryPort",
        "spec.cpu",
        "spec.memory",
        "spec.serverless.minAvailableCount",
        "spec.storageMounts",
        "spec.template.ports",
    ]


def test_a_name_that_older_definitions_accept_is_named() -> None:
    unit = attrs.evolve(UNIT, metadata=ObjectMeta(name="a.b"))

    assert fields(unit_problems(unit)) == ["metadata.name"]


@pytest.mark.parametrize(
    ("unit", "reason"),
    [
        (with_spec(cpu="one"), UnitReason.INVALID_SPEC),
        (with_spec(storageMounts=TWICE), UnitReason.STORAGE_MOUNT_INVALID),
        (with_spec(serverless=ONE_TOO_MANY), UnitReason.SERVERLESS_CONFIG_INVALID),
        (
            with_spec(storageMounts=TWICE[:1], serverless=Serverless(requestID="fn")),
            UnitReason.SERVERLESS_CONFIG_INVALID,
        ),
        (
            with_spec(storageMounts=TWICE, serverless=ONE_TOO_MANY),
            UnitReason.STORAGE_MOUNT_INVALID,
        ),
        (with_spec(memory="0", storageMounts=TWICE), UnitReason.INVALID_SPEC),
    ],
    ids=[
        "cpu",
        "mounts",
        "function",
        "function with a storage",
        "mounts and function",
        "memory and mounts",
    ],
)
def test_the_reason_names_the_problem_to_fix_first(unit: GPUUnit, reason: UnitReason) -> None:
    assert reason_of(unit_problems(unit)) is reason


def test_a_pool_is_validated_like_its_units() -> None:
    pool = StockPool(
        metadata=ObjectMeta(name="p" * 53),
        spec=StockPoolSpec(specName="g1.1", cpu="0", replicas=1),
    )

    assert fields(pool_problems(pool)) == ["metadata.name", "spec.cpu"]
