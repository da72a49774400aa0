"""Our Pods always satisfy what the manifests demand of Pods."""

from typing import Any

import pytest
from hypothesis import given, settings

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.storages import GPUStorage
from gpuruntime.models.kinds.units import GPUUnit, selector_of
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
    """Return the limits and requests that a quota demands of every container."""
    hard = only("ResourceQuota", namespace)["spec"]["hard"]
    pairs = (name.partition(".") for name in hard)
    return {(which, name) for which, dot, name in pairs if dot}


def stated(body: Any) -> set[tuple[str, str]]:
    """Return the limits and requests that every container of the Pod states."""
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
    """Quotas count GPUs as well, but only Pods that request some state them."""
    wanted = {pair for pair in counted(namespace) if "/" not in pair[1]}
    assert {name for _, name in wanted} == {"cpu", "memory", "ephemeral-storage"}
    assert wanted <= stated(deployment_of(unit, options, at, selector_of(unit)).body)
    assert wanted <= stated(accessor_deployment(storage, options, placing).body)
    for resource, body in written_once(storage, options, placing):
        if resource is JOBS:
            assert wanted <= stated(body)


@pytest.mark.parametrize("namespace", OF_UNITS)
def test_the_limit_range_gives_other_pods_what_a_quota_counts(namespace: str) -> None:
    (limits,) = only("LimitRange", namespace)["spec"]["limits"]
    given = {("limits", name) for name in limits["default"]}
    given |= {("requests", name) for name in limits["defaultRequest"]}
    assert {pair for pair in counted(namespace) if "/" not in pair[1]} <= given
    assert limits.keys() == {"type", "default", "defaultRequest"}, "it bounds nobody's envelope"


@pytest.mark.parametrize("namespace", OF_UNITS)
def test_a_namespace_denies_all_traffic_by_default(namespace: str) -> None:
    policies = {
        each["metadata"]["name"]: each["spec"] for each in found("NetworkPolicy", namespace)
    }
    assert policies["closed"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def test_the_api_has_the_label_that_file_servers_admit() -> None:
    (api,) = (each for each in documents("Deployment") if "-api" in each["metadata"]["name"])
    assert api["spec"]["template"]["metadata"]["labels"][labels.APP_NAME] == labels.API_APP


def test_each_namespace_enforces_its_default_pod_security_level() -> None:
    levels = {
        each["metadata"]["name"]: each["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
        for each in documents("Namespace")
    }
    assert levels == {
        DEFAULTS.system: "restricted",
        DEFAULTS.stock: "baseline",
        DEFAULTS.instance: "baseline",
    }
