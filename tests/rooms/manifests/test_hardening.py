"""What the manifests demand of Pods, and that ours always give it."""

from typing import Any

import pytest
from hypothesis import given, settings

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.storages import GPUStorage
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.volumes import JOBS
from gpuruntime.reconcilers.options import UnitOptions
from gpuruntime.reconcilers.storage.children import Placing, accessor_deployment
from gpuruntime.reconcilers.unit.children import deployment_of
from gpuruntime.reconcilers.unit.pod_template import Placement
from gpuruntime.settings.schema import NamespaceSettings
from tests import specs
from tests.dry_runs import written_once
from tests.rooms.manifests.overlays import documents

DEFAULTS = NamespaceSettings()
OF_UNITS = [DEFAULTS.stock, DEFAULTS.instance]


def only(kind: str, namespace: str) -> dict[str, Any]:
    (one,) = found(kind, namespace)
    return one


def found(kind: str, namespace: str) -> list[dict[str, Any]]:
    return [each for each in documents(kind) if each["metadata"]["namespace"] == namespace]


def counted(namespace: str) -> set[tuple[str, str]]:
    """What a quota wants every container to state, as `limits` or `requests` of a resource."""
    hard = only("ResourceQuota", namespace)["spec"]["hard"]
    pairs = (name.partition(".") for name in hard)
    return {(which, name) for which, dot, name in pairs if dot}


def stated(body: Any) -> set[tuple[str, str]]:
    """By each of the containers."""
    spec = body["spec"]["template"]["spec"]
    containers = [*spec["containers"], *spec.get("initContainers", [])]
    told = [
        {(which, name) for which in ("limits", "requests") for name in each["resources"][which]}
        for each in containers
    ]
    return set.intersection(*told)


@pytest.mark.parametrize("namespace", OF_UNITS)
@settings(max_examples=20)
@given(
    unit=specs.units(),
    storage=specs.storages(),
    options=specs.options(is_restricted=False),
    at=specs.placements,
    placing=specs.placings,
)
def test_every_container_of_ours_states_what_a_quota_counts(
    namespace: str,
    unit: GPUUnit,
    storage: GPUStorage,
    options: UnitOptions,
    at: Placement,
    placing: Placing,
) -> None:
    """GPUs are counted where somebody asks for some."""
    wanted = {pair for pair in counted(namespace) if "/" not in pair[1]}
    assert {name for _, name in wanted} == {"cpu", "memory", "ephemeral-storage"}
    assert wanted <= stated(deployment_of(unit, options, at).body)
    assert wanted <= stated(accessor_deployment(storage, options, placing).body)
    for resource, body in written_once(storage, options, placing):
        if resource is JOBS:
            assert wanted <= stated(body)


@pytest.mark.parametrize("namespace", OF_UNITS)
def test_a_stranger_gets_what_a_quota_counts(namespace: str) -> None:
    (limits,) = only("LimitRange", namespace)["spec"]["limits"]
    given = {("limits", name) for name in limits["default"]}
    given |= {("requests", name) for name in limits["defaultRequest"]}
    assert {pair for pair in counted(namespace) if "/" not in pair[1]} <= given
    assert limits.keys() == {"type", "default", "defaultRequest"}, "it bounds nobody's envelope"


@pytest.mark.parametrize("namespace", OF_UNITS)
def test_a_namespace_is_closed_to_begin_with(namespace: str) -> None:
    policies = {
        each["metadata"]["name"]: each["spec"] for each in found("NetworkPolicy", namespace)
    }
    assert policies["closed"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def test_file_servers_know_the_api_by_the_label_that_it_is_run_with() -> None:
    (api,) = (each for each in documents("Deployment") if "-api" in each["metadata"]["name"])
    assert api["spec"]["template"]["metadata"]["labels"][labels.APP_NAME] == labels.API_APP


def test_admission_holds_each_namespace_to_the_default_level() -> None:
    levels = {
        each["metadata"]["name"]: each["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
        for each in documents("Namespace")
    }
    assert levels == {
        DEFAULTS.system: "restricted",
        DEFAULTS.stock: "baseline",
        DEFAULTS.instance: "baseline",
    }
