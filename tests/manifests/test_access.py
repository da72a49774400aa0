"""What the roles may do in a cluster: enough for the code, and nothing that reaches further."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuruntime.roles.dev import PRIORITIES
from gpuruntime.settings import NamespaceSettings, PriorityClassSettings

BASE = Path(__file__).parents[2] / "manifests" / "base"
TOO_MUCH = {"*", "escalate", "impersonate", "bind", "deletecollection"}
OUT_OF_BOUNDS = {
    "*",
    "pods/exec",
    "pods/attach",
    "nodes/proxy",
    "serviceaccounts/token",
}


def documents(kind: str) -> list[dict[str, Any]]:
    found = yaml.safe_load((BASE / "kustomization.yaml").read_text())["resources"]
    files = [BASE / name for name in found if name.endswith(".yaml")]
    every = (one for file in files for one in yaml.safe_load_all(file.read_text()))
    return [one for one in every if one["kind"] == kind]


def rules() -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{role['metadata']['name']} {role['metadata'].get('namespace', '')}", rule)
        for role in documents("Role") + documents("ClusterRole")
        for rule in role["rules"]
    ]


@pytest.mark.parametrize(("role", "rule"), rules())
def test_no_rule_reaches_further_than_its_purpose(role: str, rule: dict[str, Any]) -> None:
    assert not TOO_MUCH & set(rule["verbs"]), role
    assert not OUT_OF_BOUNDS & set(rule["resources"]), role
    assert "*" not in rule["apiGroups"], role


def test_only_the_manager_touches_secrets_and_finds_none_that_it_does_not_name() -> None:
    found = [
        (role, set(rule["verbs"])) for role, rule in rules() if "secrets" in rule["resources"]
    ]
    assert found == [
        ("gpuruntime-manager runtime-instance", {"get", "create", "patch", "delete"}),
    ]


def test_the_whole_cluster_is_only_read() -> None:
    verbs = {
        verb
        for role in documents("ClusterRole")
        for rule in role["rules"]
        for verb in rule["verbs"]
    }
    assert verbs == {"list", "watch"}


def test_each_account_is_bound_to_its_own_roles_alone() -> None:
    for binding in documents("RoleBinding") + documents("ClusterRoleBinding"):
        names = {subject["name"] for subject in binding["subjects"]}
        assert names == {binding["roleRef"]["name"]} == {binding["metadata"]["name"]}


def test_namespaces_are_those_of_the_configuration() -> None:
    names = {one["metadata"]["name"] for one in documents("Namespace")}
    defaults = NamespaceSettings()
    assert names == {defaults.stock, defaults.instance, defaults.system}


def test_the_priorities_are_those_of_dev() -> None:
    names = PriorityClassSettings()
    found = {
        one["metadata"]["name"]: (one["value"], one["preemptionPolicy"])
        for one in documents("PriorityClass")
    }
    assert found == {
        names.stock: PRIORITIES["stock"],
        names.instance: PRIORITIES["instance"],
    }
