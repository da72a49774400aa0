"""A new revision of our rules reaches existing NetworkPolicies, and changes nothing else."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds.storages import Accessor, GPUStorage, GPUStorageSpec, Prepare
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitSpec, selector_of
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.reconcilers.children.drift import Child, patch_towards
from gpuruntime.reconcilers.options import UnitOptions
from gpuruntime.reconcilers.storage.children import (
    Placing,
    accessor_deployment,
    accessor_policy,
    prepare_policy,
)
from gpuruntime.reconcilers.unit.children import deployment_of, policy_of
from gpuruntime.reconcilers.unit.pod_template import Placement
from tests.options import configured

OPTIONS = configured(UnitOptions)
FIXED = attrs.evolve(OPTIONS, rules_revision=OPTIONS.rules_revision + 1)
PREPARE = Prepare(fromImage="tool:1", args=("fill",))
UNIT = GPUUnit(
    metadata=ObjectMeta(name="demo", namespace="units", uid="u1"),
    spec=GPUUnitSpec(specName="g1.1"),
)
STORAGE = GPUStorage(
    metadata=ObjectMeta(name="models", namespace="units", uid="s1"),
    spec=GPUStorageSpec(size="1Gi", prepare=PREPARE, accessor=Accessor(enabled=True)),
)


def by_faulty_code(child: Child) -> JsonObject:
    """Write the policy as an earlier revision would whose rules allow everything."""
    spec: Any = child.body["spec"]
    return attrs.evolve(child, body={**child.body, "spec": {**spec, "ingress": [{}]}}).annotated()


@pytest.mark.parametrize(
    "made",
    [
        lambda options: policy_of(UNIT, options, selector_of(UNIT)),
        lambda options: accessor_policy(STORAGE, options),
        lambda options: prepare_policy(STORAGE, PREPARE, options),
    ],
    ids=["unit", "accessor", "prepare"],
)
def test_a_policy_follows_a_revision_of_the_rules(made: Callable[[UnitOptions], Child]) -> None:
    present = by_faulty_code(made(OPTIONS))
    assert patch_towards(made(OPTIONS), present) == {}
    wanted: Any = made(FIXED).body["spec"]
    patch: Any = patch_towards(made(FIXED), present)
    assert patch["spec"] == {"ingress": wanted.get("ingress")}


@pytest.mark.parametrize(
    "made",
    [
        lambda options: deployment_of(UNIT, options, Placement(), selector_of(UNIT)),
        lambda options: accessor_deployment(STORAGE, options, Placing()),
    ],
    ids=["unit", "accessor"],
)
def test_a_pod_does_not_depend_on_that_revision(made: Callable[[UnitOptions], Child]) -> None:
    assert made(FIXED) == made(OPTIONS)
