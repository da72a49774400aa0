"""The Pod of a worker: the user's container, the worker's container, and what they share."""

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.models.kinds.functions import Framework, Serverless, WorkerOf
from gpuruntime.models.kinds.templates import Port, Template
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitSpec
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.kubernetes.quantities import parse_quantity
from gpuruntime.reconcilers.children.pod_security import RESTRICTED_UID
from gpuruntime.reconcilers.options import SidecarOptions, UnitOptions
from gpuruntime.reconcilers.unit.pod_template import Placement, pod_template
from gpuruntime.reconcilers.unit.sidecar import left_beside, socket_of_worker
from tests import specs
from tests.options import configured

DEFAULTS = Framework()
NOWHERE = Placement()
SIDECAR = configured(SidecarOptions, image="gpuruntime:1")
DRAINED = {"preStop": {"httpGet": {"path": "/drain", "port": 28_081}}}


def worker(
    *, namespace: str = "runtime-instance", framework: Framework = DEFAULTS, **spec: Any
) -> GPUUnit:
    function = Serverless(
        requestID="echo", framework=framework, workerOf=WorkerOf(name="demo", uid="1")
    )
    return GPUUnit(
        metadata=ObjectMeta(name="demo-w-1", namespace=namespace),
        spec=GPUUnitSpec(specName="g1.1", serverless=function, **spec),
    )


def pod(of: GPUUnit, *, is_restricted: bool = False, at: Placement = NOWHERE) -> Any:
    options = configured(UnitOptions, is_restricted=is_restricted, sidecar=SIDECAR)
    return pod_template(of, options, at)["spec"]


def containers(of: GPUUnit, **options: Any) -> Any:
    """Return the user's container and the worker's."""
    found = pod(of, **options)
    return found["containers"][0], found["initContainers"][0]


def test_the_worker_has_exactly_this_container() -> None:
    kept = {"memory": "256Mi", "ephemeral-storage": "256Mi"}
    _, beside = containers(worker())
    probe = {"timeoutSeconds": 2, "httpGet": {"path": "/healthz", "port": 28_081}}
    assert beside == {
        "name": "worker",
        "image": "gpuruntime:1",
        "args": ["worker", "--config", "/etc/gpuruntime/worker.yaml"],
        "restartPolicy": "Always",
        "resources": {"requests": {"cpu": "100m", **kept}, "limits": {"cpu": "1", **kept}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsUser": 0,
            "capabilities": {"drop": ["ALL"], "add": ["DAC_OVERRIDE"]},
        },
        "startupProbe": {**probe, "periodSeconds": 1, "failureThreshold": 60},
        "livenessProbe": {**probe, "periodSeconds": 10, "failureThreshold": 3},
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": 28_081},
            "periodSeconds": 2,
            "timeoutSeconds": 2,
            "failureThreshold": 2,
        },
        "lifecycle": DRAINED,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "worker-settings", "mountPath": "/etc/gpuruntime", "readOnly": True},
            {"name": "framework-socket", "mountPath": "/w"},
        ],
    }


def test_at_the_restricted_level_both_run_as_one_user_without_capabilities() -> None:
    found = pod(worker(), is_restricted=True)
    assert found["securityContext"]["runAsUser"] == RESTRICTED_UID
    for each in (*found["containers"], *found["initContainers"]):
        assert "runAsUser" not in each["securityContext"]
        assert each["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_the_workers_settings_are_mounted_into_the_worker_only() -> None:
    found = pod(worker())
    settings, socket = found["volumes"][1:]
    assert settings == {
        "name": "worker-settings",
        "secret": {"secretName": "unit-demo-w-1", "defaultMode": 0o444},
    }
    assert socket == {"name": "framework-socket", "emptyDir": {}}
    (users,) = found["containers"]
    assert users["volumeMounts"][1:] == [
        {"name": "framework-socket", "mountPath": "/tmp/serverless-framework"}
    ]


def test_both_containers_drain_before_the_user_container_gets_its_signal() -> None:
    """The kubelet ends the worker last, and runs all preStop hooks at once."""
    users, beside = containers(worker())
    assert users["lifecycle"] == beside["lifecycle"] == DRAINED


def test_the_pods_grace_period_covers_the_drain() -> None:
    assert pod(worker())["terminationGracePeriodSeconds"] == 30 + 2 + 10
    longer = attrs.evolve(SIDECAR, drain_seconds=0.5)
    found: Any = pod_template(worker(), configured(UnitOptions, sidecar=longer), NOWHERE)
    assert found["spec"]["terminationGracePeriodSeconds"] == 3 + 10
    assert pod(worker(), at=Placement(ends_at_once=True))["terminationGracePeriodSeconds"] == 0


def test_the_worker_listens_on_a_port_that_the_user_does_not_declare() -> None:
    ports = tuple(Port(name=f"p{each}", port=each) for each in (28_081, 28_082))
    users, beside = containers(worker(template=Template(ports=ports)))
    assert beside["readinessProbe"]["httpGet"]["port"] == 28_083
    assert users["lifecycle"]["preStop"]["httpGet"]["port"] == 28_083
    assert users["ports"] == [
        {"name": f"p{each}", "containerPort": each, "protocol": "TCP"} for each in (28_081, 28_082)
    ]


@given(specs.socket_paths)
def test_the_workers_socket_path_is_valid_whenever_the_users_is(path: str) -> None:
    of = worker(framework=Framework(socketPath=path))
    assert len(socket_of_worker(of).encode()) <= max(len(path.encode()), 4)
    assert socket_of_worker(of).rpartition("/")[2] == path.rpartition("/")[2]
    users, beside = containers(of)
    assert users["volumeMounts"][-1]["mountPath"] == path.rpartition("/")[0]
    assert beside["volumeMounts"][-1]["mountPath"] == "/w"


def test_both_containers_fit_the_envelope_of_the_stock() -> None:
    users, beside = containers(worker(cpu="2", memory="16Gi", gpu=1))
    assert users["resources"]["limits"] == {
        "cpu": "1900m",
        "memory": "16128Mi",
        "ephemeral-storage": "9984Mi",
        "nvidia.com/gpu": "1",
    }
    assert users["resources"]["requests"] == {
        **users["resources"]["limits"],
        "ephemeral-storage": "768Mi",
    }
    env = {each["name"]: each["value"] for each in users["env"]}
    assert env["MEMORY_LIMIT"] == "16128Mi"
    for name, whole in (("cpu", "2"), ("memory", "16Gi"), ("ephemeral-storage", "1Gi")):
        parts = [parse_quantity(each["resources"]["requests"][name]) for each in (users, beside)]
        assert sum(part.nanos for part in parts) == parse_quantity(whole).nanos


@pytest.mark.parametrize(
    ("envelope", "share", "left"),
    [("200m", "100m", "100m"), ("199m", "100m", "199m"), ("1n", "100m", "1n")],
)
def test_an_envelope_that_is_too_small_for_both_is_the_users(
    envelope: str, share: str, left: str
) -> None:
    assert left_beside(envelope, share) == left


@given(specs.quantities, st.sampled_from(["100m", "256Mi"]))
def test_the_user_never_gets_less_than_half(envelope: str, share: str) -> None:
    left, whole = parse_quantity(left_beside(envelope, share)), parse_quantity(envelope)
    assert whole.nanos <= 2 * left.nanos <= 2 * whole.nanos


@pytest.mark.parametrize(
    "of",
    [
        GPUUnit(spec=GPUUnitSpec(specName="g", serverless=Serverless(requestID="f"))),
        GPUUnit(spec=GPUUnitSpec(specName="g")),
        worker(namespace="runtime-stock"),
    ],
    ids=["a template", "a plain unit", "stock"],
)
def test_no_other_unit_has_a_worker(of: GPUUnit) -> None:
    found = pod(of)
    assert "initContainers" not in found
    assert len(found["volumes"]) == 1
    assert "lifecycle" not in found["containers"][0]
