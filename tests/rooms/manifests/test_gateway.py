"""The gateway as Pods: confined, without rights to write, and with its address in one place."""

from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.activity import GATEWAY_APP
from gpuruntime.roles.gateway import gateway_role
from gpuruntime.roles.options import unit_options_of
from gpuruntime.settings.load import load
from gpuruntime.settings.schema import Settings
from tests.rooms.manifests.overlays import MANIFESTS, sources

FOLDER = MANIFESTS / "gateway"
ADDRESS = "https://*.units.example.com"
SECRETS = Path("/etc/gpuruntime-secrets")


def component() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    return document


def documents(kind: str) -> list[dict[str, Any]]:
    return [each for each in sources("gateway") if each["kind"] == kind]


def template() -> dict[str, Any]:
    [deployment] = documents("Deployment")
    found: dict[str, Any] = deployment["spec"]["template"]
    return found


def container() -> dict[str, Any]:
    [found] = template()["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def patch(role: str) -> dict[str, Any]:
    document = yaml.safe_load((FOLDER / f"address-for-{role}.yaml").read_text())
    assert document["metadata"]["name"] == f"gpuruntime-{role}"
    found: dict[str, Any] = document["spec"]["template"]["spec"]
    return found


def configured() -> Settings:
    """Return the configuration of the component, as its Pods load it."""
    given = {"GPURUNTIME_GATEWAY_URL": ADDRESS}
    return load(str(FOLDER / "gateway-configuration.yaml"), flags={}, environment=given)


def files_of(spec: dict[str, Any]) -> dict[str, list[str] | None]:
    """Return the files of each Secret in the projected volume, or None for all of its keys."""
    [volume] = (each for each in spec["volumes"] if each["name"] == "secrets")
    assert volume["projected"]["defaultMode"] == 0o440
    found = {}
    for each in volume["projected"]["sources"]:
        secret = each["secret"]
        assert secret["optional"] is True
        items = secret.get("items")
        assert all(item["key"] == item["path"] for item in items or ())
        found[secret["name"]] = items and [item["path"] for item in items]
    return found


def test_the_gateway_reads_units_and_services_and_nothing_else() -> None:
    [role] = (each for each in documents("Role") if each["metadata"]["name"] == GATEWAY_APP)
    [binding] = (
        each for each in documents("RoleBinding") if each["metadata"]["name"] == GATEWAY_APP
    )
    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == "runtime-instance"
    rules = [(each["apiGroups"], each["resources"], each["verbs"]) for each in role["rules"]]
    assert rules == [
        ([labels.GROUP], ["gpuunits"], ["list", "watch"]),
        ([""], ["services"], ["list", "watch"]),
    ]
    assert [each["name"] for each in binding["subjects"]] == [GATEWAY_APP]


def test_the_pods_are_confined_as_the_restricted_profile_demands() -> None:
    spec = template()["spec"]
    assert spec["serviceAccountName"] == GATEWAY_APP
    assert template()["metadata"]["labels"][labels.APP_NAME] == GATEWAY_APP
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["securityContext"]["fsGroup"] == spec["securityContext"]["runAsGroup"]
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_gateway_listens_at_the_ports_of_its_container() -> None:
    settings = configured()
    gateway_role(settings)
    ports = {each["name"]: each["containerPort"] for each in container()["ports"]}
    assert container()["args"] == ["gateway", "--config", "/etc/gpuruntime/gateway.yaml"]
    assert ports == {
        "http": settings.gateway.listen.port,
        "activity": settings.gateway.activityListen.port,
        "operations": settings.operations.listen.port,
        "ssh": 2222,
    }
    assert {settings.gateway.listen.host, settings.gateway.activityListen.host} == {""}


def test_the_gateway_asks_the_service_of_the_api() -> None:
    text = (MANIFESTS / "control-plane" / "api.yaml").read_text()
    services = {
        f"http://{each['metadata']['name']}:{port['port']}"
        for each in yaml.safe_load_all(text)
        if each["kind"] == "Service" and each["spec"].get("clusterIP") != "None"
        for port in each["spec"]["ports"]
    }
    assert configured().gateway.api in services


def test_the_service_leads_to_http_and_ssh_and_never_to_the_activity() -> None:
    services = {each["metadata"]["name"]: each["spec"] for each in documents("Service")}
    assert services.keys() == {GATEWAY_APP, f"{GATEWAY_APP}-operations"}
    assert services[GATEWAY_APP]["ports"] == [
        {"name": "http", "port": 8090, "targetPort": "http"},
        {"name": "ssh", "port": 22, "targetPort": "ssh"},
    ]


def test_a_terminating_pod_has_more_time_than_its_connections() -> None:
    asleep = container()["lifecycle"]["preStop"]["sleep"]["seconds"]
    grace = template()["spec"]["terminationGracePeriodSeconds"]
    assert asleep + configured().shutdownGrace < grace


def test_the_memory_holds_what_every_connection_may_buffer() -> None:
    settings = configured().gateway
    most = settings.connections.all * 2 * settings.bytes.buffered
    limit = container()["resources"]["limits"]["memory"]
    assert limit.endswith("Gi")
    assert most < int(limit.removesuffix("Gi")) * 1024**3


def test_gateway_and_api_have_the_keys_and_only_the_gateway_the_private_host_key() -> None:
    assert files_of(template()["spec"]) == {
        "gpuruntime-gateway": None,
        "gpuruntime-tickets": ["tickets.yaml"],
        "gpuruntime-ssh": ["ssh_host_key", "ssh_host_key.pub"],
    }
    assert files_of(patch("api")) == {
        "gpuruntime-api": None,
        "gpuruntime-tickets": ["tickets.yaml"],
        "gpuruntime-ssh": ["ssh_host_key.pub"],
    }
    assert Path(configured().gateway.keyFile) == SECRETS / "tickets.yaml"
    [mount] = (each for each in container()["volumeMounts"] if each["name"] == "secrets")
    assert mount == {"name": "secrets", "mountPath": str(SECRETS), "readOnly": True}


@pytest.mark.parametrize("role", ["gateway", "manager", "api"])
def test_each_role_reads_the_address_from_the_one_place(role: str) -> None:
    spec = template()["spec"] if role == "gateway" else patch(role)
    [found] = spec["containers"]
    assert found["name"] == role
    [variable] = found["env"]
    key = {"name": "gpuruntime-gateway-address", "key": "publicURL"}
    assert variable == {
        "name": "GPURUNTIME_GATEWAY_URL",
        "valueFrom": {"configMapKeyRef": key},
    }
    [generated] = (
        each for each in component()["configMapGenerator"] if each["name"] == key["name"]
    )
    assert generated["literals"] == [f"publicURL={ADDRESS}"]


def test_the_address_opens_the_policies_of_units_to_the_gateway() -> None:
    settings = load("", flags={}, environment={"GPURUNTIME_GATEWAY_URL": ADDRESS})
    options = unit_options_of(settings)
    [deployment] = documents("Deployment")
    assert options.public_address is not None
    assert options.system_namespace == deployment["metadata"]["namespace"]


def test_the_image_has_the_tag_of_this_version() -> None:
    assert component()["images"] == [{"name": "gpuruntime", "newTag": version("gpuruntime")}]
    assert container()["image"] == "gpuruntime"


def test_the_component_is_optional() -> None:
    for folder in ("base", "control-plane", "serverless", "overlays/minimal"):
        text = (MANIFESTS / folder / "kustomization.yaml").read_text()
        assert "gateway" not in text
