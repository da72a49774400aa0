"""The Pod of a unit, member by member: its envelope, its container and its restrictions."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.secrets import SecretKey, secret_name_of
from gpuruntime.models.kinds.templates import EnvVar, Port, SecretFile, Template
from gpuruntime.models.kinds.units import Access, GPUUnit, GPUUnitSpec, StorageMount
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.kubernetes.quantities import parse_quantity
from gpuruntime.reconcilers.children.pod_security import RESTRICTED_UID
from gpuruntime.reconcilers.options import PodDefaults, UnitOptions
from gpuruntime.reconcilers.unit.pod_template import (
    RESERVATION_IMAGE,
    Placement,
    labels_of,
    pod_template,
    primary_port,
)
from tests.options import configured

OPTIONS = configured(UnitOptions)
NOWHERE = Placement()
HTTP = Port(name="http", port=80)
METRICS = Port(name="metrics", port=9090)


def unit(
    namespace: str = OPTIONS.instance_namespace, *, given: Any = None, **spec: Any
) -> GPUUnit:
    return GPUUnit(
        metadata=ObjectMeta(name="demo", namespace=namespace, uid="u1", labels=given or {}),
        spec=GPUUnitSpec(specName="g1.1", **spec),
    )


def pod(of: GPUUnit, *, at: Placement = NOWHERE, **options: Any) -> Any:
    return pod_template(of, configured(UnitOptions, **options), at)["spec"]


def container(of: GPUUnit, **options: Any) -> Any:
    (found,) = pod(of, **options)["containers"]
    return found


def test_a_plain_unit_has_exactly_this_pod() -> None:
    """A change of this Pod requires a higher revision of the template."""
    envelope = {"cpu": "2", "memory": "16Gi", "nvidia.com/gpu": "1"}
    resources = {
        "requests": {**envelope, "ephemeral-storage": "1Gi"},
        "limits": {**envelope, "ephemeral-storage": "10Gi"},
    }
    assert pod(unit(image="python:3.12", cpu="2", memory="16Gi", gpu=1)) == {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "runtime",
                "image": "python:3.12",
                "env": [
                    {"name": "SPEC_NAME", "value": "g1.1"},
                    {"name": "UNIT_NAME", "value": "demo"},
                    {"name": "GPU_COUNT", "value": "1"},
                    {"name": "MEMORY_LIMIT", "value": "16Gi"},
                ],
                "resources": resources,
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                },
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "volumeMounts": [{"name": "shared-memory", "mountPath": "/dev/shm"}],
            }
        ],
        "volumes": [
            {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}
        ],
    }


def test_the_restricted_level_runs_as_a_fixed_user_other_than_root() -> None:
    assert pod(unit(), is_restricted=True)["securityContext"] == {
        "seccompProfile": {"type": "RuntimeDefault"},
        "runAsNonRoot": True,
        "runAsUser": RESTRICTED_UID,
    }


def test_storages_are_volumes_that_each_of_our_pods_may_write_to() -> None:
    mounts = (
        StorageMount(name="models", mountPath="/models", readOnly=True),
        StorageMount(name="a" * 63, mountPath="/work"),
    )
    found = pod(unit(storageMounts=mounts))
    assert found["volumes"][1:] == [
        {"name": "storage-0", "persistentVolumeClaim": {"claimName": "models"}},
        {"name": "storage-1", "persistentVolumeClaim": {"claimName": "a" * 63}},
    ]
    (runtime,) = found["containers"]
    assert runtime["volumeMounts"][1:] == [
        {"name": "storage-0", "mountPath": "/models", "readOnly": True},
        {"name": "storage-1", "mountPath": "/work"},
    ]
    assert found["securityContext"] == {
        "seccompProfile": {"type": "RuntimeDefault"},
        "fsGroup": RESTRICTED_UID,
        "fsGroupChangePolicy": "OnRootMismatch",
    }


def of_secret(name: str, key: str) -> SecretKey:
    return SecretKey(name=name, key=key)


@pytest.mark.parametrize("tenant", ["", "team-a"])
def test_secrets_are_those_of_the_units_own_tenant(tenant: str) -> None:
    template = Template(
        envs=(EnvVar(name="TOKEN", secret=of_secret("hub", "token")),),
        files=(SecretFile(path="/etc/tls/key", secret=of_secret("tls", "tls.key")),),
    )
    given = {labels.TENANT: tenant} if tenant else {}
    found = pod(unit(given=given, template=template, imagePullSecrets=("images",)))
    (runtime,) = found["containers"]
    reference = {"name": secret_name_of(tenant, "hub"), "key": "token"}
    assert runtime["env"][-1] == {"name": "TOKEN", "valueFrom": {"secretKeyRef": reference}}
    assert found["volumes"][-1]["secret"]["secretName"] == secret_name_of(tenant, "tls")
    assert found["imagePullSecrets"] == [{"name": secret_name_of(tenant, "images")}]


def test_each_secret_with_files_is_one_volume_of_only_the_keys_that_are_named() -> None:
    files = (
        SecretFile(path="/a", secret=of_secret("tls", "tls.key")),
        SecretFile(path="/b", secret=of_secret("hub", "token")),
        SecretFile(path="/c", secret=of_secret("tls", "tls.crt")),
        SecretFile(path="/d", secret=of_secret("tls", "tls.crt")),
    )
    found = pod(unit(template=Template(files=files)))
    shown = [
        (each["name"], each["secret"]["secretName"], each["secret"]["items"])
        for each in found["volumes"][1:]
    ]
    assert shown == [
        (
            "secret-0",
            secret_name_of("", "tls"),
            [{"key": each, "path": each} for each in ("tls.key", "tls.crt")],
        ),
        ("secret-1", secret_name_of("", "hub"), [{"key": "token", "path": "token"}]),
    ]
    (runtime,) = found["containers"]
    mounts = [
        (each["name"], each["mountPath"], each["subPath"], each["readOnly"])
        for each in runtime["volumeMounts"][1:]
    ]
    assert mounts == [
        ("secret-0", "/a", "tls.key", True),
        ("secret-1", "/b", "token", True),
        ("secret-0", "/c", "tls.crt", True),
        ("secret-0", "/d", "tls.crt", True),
    ]


def test_the_operators_pull_secrets_come_before_the_units_own() -> None:
    defaults = configured(PodDefaults, image_pull_secrets=("platform",))
    found = pod(unit(imagePullSecrets=("a", "a", "b")), pod_defaults=defaults)
    own = [secret_name_of("", name) for name in ("a", "b")]
    assert [each["name"] for each in found["imagePullSecrets"]] == ["platform", *own]


def test_the_callers_environment_follows_the_platforms_in_its_own_order() -> None:
    envs = (EnvVar(name="Z", value="1"), EnvVar(name="A", value=""))
    names = [each["name"] for each in container(unit(template=Template(envs=envs)))["env"]]
    assert names == ["SPEC_NAME", "UNIT_NAME", "GPU_COUNT", "MEMORY_LIMIT", "Z", "A"]


def test_absent_quantities_are_replaced_by_defaults_everywhere() -> None:
    defaults = configured(PodDefaults, cpu="3", memory="6Gi", ephemeral_storage="2Gi")
    found = pod(unit(), pod_defaults=defaults)
    (runtime,) = found["containers"]
    assert runtime["resources"]["limits"] == {
        "cpu": "3",
        "memory": "6Gi",
        "ephemeral-storage": "2Gi",
    }
    assert runtime["env"][3] == {"name": "MEMORY_LIMIT", "value": "6Gi"}
    assert found["volumes"][0]["emptyDir"]["sizeLimit"] == "3Gi"


@pytest.mark.parametrize(
    ("limit", "request_", "reserved"),
    [
        ("10Gi", "1Gi", "1Gi"),
        ("100Mi", "1Gi", "100Mi"),
        ("2Gi", "2Gi", "2Gi"),
        ("1G", "1Gi", "1G"),
    ],
    ids=["a part of the limit", "no more than the limit", "the limit", "in any unit"],
)
def test_a_node_reserves_a_part_of_the_ephemeral_storage(
    limit: str, request_: str, reserved: str
) -> None:
    defaults = configured(PodDefaults, ephemeral_storage=limit, ephemeral_storage_request=request_)
    resources = container(unit(), pod_defaults=defaults)["resources"]
    assert resources["requests"]["ephemeral-storage"] == reserved
    assert resources["limits"]["ephemeral-storage"] == limit


@given(gpu=st.integers(0, 16), resource=st.sampled_from(["nvidia.com/gpu", "amd.com/gpu"]))
def test_requests_equal_limits_but_for_scratch_and_a_unit_without_a_gpu_requests_none(
    gpu: int, resource: str
) -> None:
    resources = container(unit(gpu=gpu), gpu_resource=resource)["resources"]
    requests, limits = resources["requests"], resources["limits"]
    assert {**requests, "ephemeral-storage": "10Gi"} == limits
    assert resources["limits"].get(resource) == (str(gpu) if gpu else None)


@given(memory=st.sampled_from(["1", "3", "1500m", "1k", "16Gi", "1e3", "0.5Gi", "7Mi"]))
def test_shared_memory_is_at_most_half_of_the_memory(memory: str) -> None:
    size = pod(unit(memory=memory))["volumes"][0]["emptyDir"]["sizeLimit"]
    half = parse_quantity(memory).rounded_up // 2
    assert parse_quantity(size).rounded_up == half


@pytest.mark.parametrize(
    ("spec", "runs"),
    [
        ({}, (RESERVATION_IMAGE, ["sh", "-c", "sleep infinity"], None)),
        ({"image": "x"}, ("x", None, None)),
        ({"template": Template(command=("a",))}, (RESERVATION_IMAGE, ["a"], None)),
        ({"template": Template(args=("b",))}, (RESERVATION_IMAGE, None, ["b"])),
        (
            {"image": "x", "template": Template(command=("a",), args=("b", "c"))},
            ("x", ["a"], ["b", "c"]),
        ),
    ],
    ids=["nothing to run", "image", "command", "arguments", "image, command and arguments"],
)
def test_the_container_runs_the_image_and_command_of_the_unit(
    spec: dict[str, Any], runs: tuple[Any, ...]
) -> None:
    found = container(unit(**spec))
    assert (found["image"], found.get("command"), found.get("args")) == runs


def test_the_container_has_the_ports_of_the_template() -> None:
    ports = (HTTP, Port(name="dns", port=53, protocol="UDP"))
    assert container(unit(template=Template(ports=ports)))["ports"] == [
        {"name": "http", "containerPort": 80, "protocol": "TCP"},
        {"name": "dns", "containerPort": 53, "protocol": "UDP"},
    ]


def probe(of: GPUUnit) -> Any:
    return container(of).get("readinessProbe")


def test_an_active_unit_is_ready_when_its_primary_port_can_be_reached() -> None:
    template = Template(ports=(HTTP, METRICS))
    assert probe(unit(template=template))["tcpSocket"] == {"port": 80}
    chosen = unit(template=template, access=Access(primaryPort="metrics"))
    assert probe(chosen)["tcpSocket"] == {"port": 9090}


@pytest.mark.parametrize(
    "of",
    [
        unit(),
        unit(template=Template(ports=(HTTP,)), access=Access(readiness="none")),
        unit(template=Template(ports=(Port(name="dns", port=53, protocol="UDP"),))),
        unit(OPTIONS.stock_namespace, template=Template(ports=(HTTP,))),
    ],
    ids=["no port", "turned off", "not tcp", "stock"],
)
def test_a_unit_without_a_port_to_reach_has_no_probe(of: GPUUnit) -> None:
    assert probe(of) is None


def test_the_primary_port_is_the_named_one_or_the_first() -> None:
    ports = Template(ports=(HTTP, METRICS))
    assert primary_port(unit(template=ports)) == HTTP
    assert primary_port(unit(template=ports, access=Access(primaryPort="metrics"))) == METRICS
    assert primary_port(unit(access=Access(primaryPort="http"))) is None


def test_the_operators_defaults_are_in_every_pod() -> None:
    toleration = {"key": "gpu", "operator": "Exists"}
    defaults = configured(
        PodDefaults,
        image_pull_secrets=("registry",),
        tolerations=(toleration,),
        node_selector={"zone": "a"},
        runtime_class="nvidia",
    )
    found = pod(unit(), pod_defaults=defaults)
    assert found["imagePullSecrets"] == [{"name": "registry"}]
    assert found["tolerations"] == [toleration]
    assert found["nodeSelector"] == {"zone": "a"}
    assert found["runtimeClassName"] == "nvidia"


def test_a_gpu_product_is_added_to_the_operators_selector() -> None:
    defaults = configured(PodDefaults, node_selector={"zone": "a", labels.GPU_PRODUCT: "any"})
    found = pod(unit(gpuProduct="H100"), pod_defaults=defaults)
    assert found["nodeSelector"] == {"zone": "a", labels.GPU_PRODUCT: "H100"}


def test_the_placement_decides_where_a_pod_runs() -> None:
    at = Placement(priority_class="high", preferred_node="node-1", ends_at_once=True)
    found = pod(unit(), at=at)
    assert found["priorityClassName"] == "high"
    assert found["terminationGracePeriodSeconds"] == 0
    (preference,) = found["affinity"]["nodeAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]
    assert preference["preference"]["matchExpressions"] == [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1"]}
    ]


def test_a_pod_has_our_labels_and_no_other_label_of_the_user() -> None:
    given = {labels.POOL: "p", labels.TENANT: "t", "team": "x"}
    assert labels_of(unit(given=given)) == {
        "app.kubernetes.io/name": "gpuruntime-unit",
        "app.kubernetes.io/managed-by": "gpuruntime",
        labels.UNIT: "demo",
        labels.UNIT_UID: "u1",
        labels.SPEC: "g1.1",
        labels.POOL: "p",
        labels.TENANT: "t",
    }
