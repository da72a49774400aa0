"""The rights of the roles in a cluster: enough for the code, and nothing beyond."""

from typing import Any

import pytest

from gpuruntime.models.kubernetes.reviews import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS
from gpuruntime.roles.dev.installation import PRIORITIES
from gpuruntime.settings.schema import NamespaceSettings, PriorityClassSettings
from tests.rooms.manifests.overlays import NAMES, documents
from tests.row_ids import in_words

TOO_MUCH = {"*", "escalate", "impersonate", "bind", "deletecollection", "approve", "sign"}
OUT_OF_BOUNDS = {
    "*",
    "pods/exec",
    "pods/attach",
    "pods/portforward",
    "pods/proxy",
    "pods/ephemeralcontainers",
    "services/proxy",
    "nodes/proxy",
    "serviceaccounts/token",
}
READ = ["list", "watch"]
# The component is this right; its policy, and tests of a cluster, bound it to containers of units.
OF_GATEWAY_EXEC = {"pods/exec", "pods/portforward"}


def rules(overlay: str = "full") -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{role['metadata']['name']} {role['metadata'].get('namespace', '')}", rule)
        for role in documents("Role", overlay) + documents("ClusterRole", overlay)
        for rule in role["rules"]
    ]


@pytest.mark.parametrize(("role", "rule"), rules(), ids=in_words)
def test_no_rule_grants_more_than_its_purpose(role: str, rule: dict[str, Any]) -> None:
    assert not TOO_MUCH & set(rule["verbs"]), role
    allowed = OF_GATEWAY_EXEC if role == "gpuruntime-gateway-exec runtime-instance" else set()
    assert not (OUT_OF_BOUNDS - allowed) & set(rule["resources"]), role
    assert "*" not in rule["apiGroups"], role
    assert rule.keys() == {"apiGroups", "resources", "verbs"}, role


OF_API = ("gpuruntime-api runtime-instance", {"create", "patch", "delete"})
OF_MANAGER = (
    "gpuruntime-manager-functions runtime-instance",
    {"get", "create", "patch", "delete"},
)


@pytest.mark.parametrize(
    ("overlay", "expected"), [("full", [OF_API, OF_MANAGER]), ("minimal", [OF_API])]
)
def test_the_api_reads_no_secret_and_no_role_lists_them(
    overlay: str, expected: list[tuple[str, set[str]]]
) -> None:
    """Only with functions may a role read Secrets: the manager, those of workers."""
    found = [
        (role, set(rule["verbs"]))
        for role, rule in rules(overlay)
        if "secrets" in rule["resources"]
    ]
    assert found == expected


def test_cluster_wide_rights_are_reads_and_reviews() -> None:
    found = {
        (role["metadata"]["name"], resource): rule["verbs"]
        for role in documents("ClusterRole")
        for rule in role["rules"]
        for resource in rule["resources"]
    }
    assert found == {
        ("gpuruntime-manager", "priorityclasses"): READ,
        ("gpuruntime-manager", "storageclasses"): READ,
        ("gpuruntime-api", "nodes"): READ,
        ("gpuruntime-api-pods", "pods"): READ,
        ("gpuruntime-api-reviews", TOKEN_REVIEWS.plural): ["create"],
        ("gpuruntime-api-reviews", SUBJECT_ACCESS_REVIEWS.plural): ["create"],
    }


@pytest.mark.parametrize("overlay", NAMES)
def test_each_account_is_bound_to_its_own_roles_alone(overlay: str) -> None:
    bindings = documents("RoleBinding", overlay) + documents("ClusterRoleBinding", overlay)
    accounts = {each["metadata"]["name"] for each in documents("ServiceAccount", overlay)}
    for binding in bindings:
        [subject] = binding["subjects"]
        role = binding["roleRef"]["name"]
        assert role == binding["metadata"]["name"]
        assert role == subject["name"] or role.startswith(f"{subject['name']}-")
        assert subject["name"] in accounts
    bound = {(each["roleRef"]["name"], each["metadata"].get("namespace")) for each in bindings}
    roles = documents("Role", overlay) + documents("ClusterRole", overlay)
    assert bound == {
        (each["metadata"]["name"], each["metadata"].get("namespace")) for each in roles
    }


@pytest.mark.parametrize("overlay", NAMES)
def test_accounts_and_processes_match_one_to_one(overlay: str) -> None:
    pods = [one["spec"]["template"]["spec"] for one in documents("Deployment", overlay)]
    accounts = {each["metadata"]["name"] for each in documents("ServiceAccount", overlay)}
    assert {each["serviceAccountName"] for each in pods} == accounts
    assert len(pods) == len(accounts)


def test_namespaces_match_the_configurations_defaults() -> None:
    names = {one["metadata"]["name"] for one in documents("Namespace")}
    defaults = NamespaceSettings()
    assert names == {defaults.stock, defaults.instance, defaults.system}


def test_priority_classes_match_those_of_dev() -> None:
    names = PriorityClassSettings()
    found = {
        one["metadata"]["name"]: (one["value"], one["preemptionPolicy"])
        for one in documents("PriorityClass")
    }
    assert found == {
        names.stock: PRIORITIES["stock"],
        names.instance: PRIORITIES["instance"],
    }
