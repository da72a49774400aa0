"""Each overlay is complete: everything that its Pods name exists, and every Pod is guarded."""

import copy
import json
import re
from importlib.metadata import version
from typing import Any

import pytest
import yaml

from gpuruntime.cli import main
from gpuruntime.models.kinds import labels
from gpuruntime.roles.activator import activator_role
from gpuruntime.roles.results import results_role
from gpuruntime.settings.access import AuthMode
from gpuruntime.settings.load import load
from gpuruntime.settings.results import StoreKind
from tests.rooms.manifests.overlays import MANIFESTS, NAMES, documents, everything, sources
from tests.row_ids import in_words

ROLES = {
    "minimal": {"manager", "api"},
    "full": {"manager", "api", "activator", "results", "gateway"},
}
FOLDERS = {
    "minimal": ("crds", "base", "control-plane"),
    "full": (
        *("crds", "base", "control-plane", "serverless", "authentication"),
        *("gateway", "gateway-exec"),
    ),
}
SIZES = {"cpu", "memory", "ephemeral-storage"}
CLUSTER_WIDE = {
    *("CustomResourceDefinition", "Namespace", "PriorityClass", "ClusterRole"),
    *("ClusterRoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
}
# The variable in which the manifests of `full` give the broker's address.
BROKER = {"GPURUNTIME_NATS_URL": "nats://nats.nats.svc:4222"}
OF_BROKER = ("manager", "api", "activator", "results")


def name_of(document: dict[str, Any]) -> tuple[str, str, str]:
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace", ""), metadata["name"]


def deployments(overlay: str) -> dict[str, dict[str, Any]]:
    found = {one["metadata"]["name"]: one for one in documents("Deployment", overlay)}
    return {name.removeprefix("gpuruntime-"): one for name, one in found.items()}


def container_of(deployment: dict[str, Any]) -> dict[str, Any]:
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    assert isinstance(container, dict)
    return container


@pytest.fixture(params=NAMES)
def overlay(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def unrendered(document: dict[str, Any]) -> Any:
    """Return a rendered document without the image's tag and the hashes of ConfigMaps' names."""
    text = json.dumps(document).replace(f'"gpuruntime:{version("gpuruntime")}"', '"gpuruntime"')
    return json.loads(re.sub(r'("name": "gpuruntime-[a-z-]+)-[24-9bcdfghkmt]{10}"', r'\1"', text))


def has(whole: Any, part: Any) -> bool:
    """Return whether all of the part is in the whole, which may have more members and entries."""
    match part:
        case dict():
            return all(name in whole and has(whole[name], part[name]) for name in part)
        case list():
            return all(any(has(each, one) for each in whole) for one in part)
        case _:
            return bool(whole == part)


def test_the_rendered_overlay_has_every_object_of_its_folders_once(overlay: str) -> None:
    """Deployments of `full` are patched, so that they have more members."""
    written = {name_of(one): one for folder in FOLDERS[overlay] for one in sources(folder)}
    found = [one for one in everything(overlay) if one["kind"] != "ConfigMap"]
    assert sorted(map(name_of, found)) == sorted(written)
    for one in found:
        plain, source = unrendered(one), written[name_of(one)]
        is_patched = overlay == "full" and one["kind"] == "Deployment"
        if is_patched and source["metadata"]["name"] == "gpuruntime-api":
            source = without_secrets(source)
        assert has(plain, source) if is_patched else plain == source, name_of(one)


def without_secrets(api: dict[str, Any]) -> Any:
    """Return the api without the volume that the gateway's component replaces."""
    made = copy.deepcopy(api)
    volumes = made["spec"]["template"]["spec"]["volumes"]
    volumes.remove(next(each for each in volumes if each["name"] == "secrets"))
    return made


PATCHES = [(role, f"overlays/full/{role}-secrets.yaml") for role in OF_BROKER] + [
    (role, f"gateway/address-for-{role}.yaml") for role in ("manager", "api")
]


@pytest.mark.parametrize(("role", "file"), PATCHES, ids=in_words)
def test_the_rendered_deployments_of_full_are_patched(role: str, file: str) -> None:
    patch = yaml.safe_load((MANIFESTS / file).read_text())
    for volume in patch["spec"]["template"]["spec"].get("volumes", ()):
        if volume.get("projected"):
            assert volume.pop("secret") is None
    assert has(unrendered(deployments("full")[role]), patch)


def test_the_rendered_config_maps_have_the_configuration_files(overlay: str) -> None:
    file_of = {"minimal": "control-plane/{}-configuration.yaml", "full": "overlays/full/{}.yaml"}
    maps = {
        unrendered(one)["metadata"]["name"]: one["data"] for one in documents("ConfigMap", overlay)
    }
    files = {role: file_of[overlay].format(role) for role in ROLES[overlay]}
    if overlay == "full":
        assert maps.pop("gpuruntime-gateway-address") == {
            "publicURL": "https://*.units.example.com"
        }
        files["gateway"] = "gateway/gateway-configuration.yaml"
    assert maps == {
        f"gpuruntime-{role}": {f"{role}.yaml": (MANIFESTS / file).read_text()}
        for role, file in files.items()
    }


def test_the_command_prints_the_overlay(overlay: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["manifests", overlay]) == 0
    printed = tuple(yaml.safe_load_all(capsys.readouterr().out))
    assert printed == everything(overlay)


def test_the_default_overlay_is_minimal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["manifests"]) == 0
    assert tuple(yaml.safe_load_all(capsys.readouterr().out)) == everything("minimal")


def test_an_unknown_overlay_exits_with_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["manifests", "large"])
    assert "invalid choice: 'large'" in capsys.readouterr().err


def test_each_overlay_deploys_exactly_its_roles(overlay: str) -> None:
    assert deployments(overlay).keys() == ROLES[overlay]


def test_every_object_comes_after_its_namespace(overlay: str) -> None:
    there = set()
    for one in everything(overlay):
        kind, namespace, name = name_of(one)
        if kind == "Namespace":
            there.add(name)
        assert (namespace in there) is (kind not in CLUSTER_WIDE), name_of(one)


def test_each_role_mounts_its_configuration_under_its_hashed_name(
    overlay: str,
) -> None:
    maps = {one["metadata"]["name"]: one["data"] for one in documents("ConfigMap", overlay)}
    for role, deployment in deployments(overlay).items():
        volumes = deployment["spec"]["template"]["spec"]["volumes"]
        [name] = (each["configMap"]["name"] for each in volumes if "configMap" in each)
        assert maps[name].keys() == {f"{role}.yaml"}
        assert name.startswith(f"gpuruntime-{role}-")


def test_every_container_has_probes_resources_and_a_read_only_root(overlay: str) -> None:
    for role, deployment in deployments(overlay).items():
        container = container_of(deployment)
        assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys(), role
        assert container["resources"]["requests"].keys() == SIZES, role
        assert container["resources"]["limits"].keys() == SIZES, role
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert ":" in container["image"], "which version"
        mounts = container["volumeMounts"]
        assert all(mount["readOnly"] for mount in mounts)


def test_every_role_survives_the_drain_of_a_node(overlay: str) -> None:
    budgets = {
        each["spec"]["selector"]["matchLabels"][labels.APP_NAME]: each["spec"]["maxUnavailable"]
        for each in documents("PodDisruptionBudget", overlay)
    }
    for name, deployment in deployments(overlay).items():
        labelled = deployment["spec"]["template"]["metadata"]["labels"]
        assert 0 < budgets[labelled[labels.APP_NAME]] < deployment["spec"]["replicas"], name


def test_the_operations_port_of_every_pod_has_a_dns_name(overlay: str) -> None:
    services = {one["metadata"]["name"]: one["spec"] for one in documents("Service", overlay)}
    for role in ROLES[overlay]:
        spec = services[f"gpuruntime-{role}-operations"]
        assert spec["clusterIP"] == "None", "each Pod by itself"
        assert spec["ports"] == [{"name": "operations", "port": 8081, "targetPort": "operations"}]
        assert spec["selector"] == {labels.APP_NAME: f"gpuruntime-{role}"}


def test_full_takes_its_secrets_from_the_keys_that_the_page_names() -> None:
    page = (MANIFESTS.parent / "docs" / "install.md").read_text()
    for role, deployment in deployments("full").items():
        variables = {each["name"]: each["valueFrom"] for each in container_of(deployment)["env"]}
        reference = {"secretKeyRef": {"name": "gpuruntime-nats", "key": "url"}}
        assert variables.get("GPURUNTIME_NATS_URL") == (reference if role in OF_BROKER else None)
        for volume in deployment["spec"]["template"]["spec"]["volumes"]:
            secret = volume.get("secret", {})
            if not secret.get("optional", True):
                continue
            for item in secret.get("items", []):
                assert f"`{item['key']}`" in page, role


def test_the_roles_accept_their_configuration_of_full() -> None:
    loaded = {
        role: load(
            str(MANIFESTS / "overlays" / "full" / f"{role}.yaml"), flags={}, environment=BROKER
        )
        for role in OF_BROKER
    }
    assert (
        loaded["manager"].serverless.image == container_of(deployments("full")["manager"])["image"]
    )
    activator_role(loaded["activator"])
    results_role(loaded["results"])
    assert loaded["api"].auth.mode is AuthMode.KUBERNETES
    assert loaded["api"].results == loaded["results"].results
    assert loaded["api"].results.store is StoreKind.POSTGRES
    assert {each.nats.url for each in loaded.values()} == set(BROKER.values())
    places = {
        role: {mount["mountPath"] for mount in container_of(deployment)["volumeMounts"]}
        for role, deployment in deployments("full").items()
    }
    for role, file in (
        ("manager", loaded["manager"].serverless.signingKeyFile),
        ("api", loaded["api"].nats.credentialsFile),
        ("activator", loaded["activator"].nats.credentialsFile),
        ("results", loaded["results"].nats.credentialsFile),
        ("results", loaded["results"].results.postgres.urlFile),
    ):
        assert file.rpartition("/")[0] in places[role]
