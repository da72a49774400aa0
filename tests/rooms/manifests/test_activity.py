"""The gateway's component lets the manager, and no other role, read the activity of units."""

from typing import Any

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.activity import ACTIVITY_PORT, GATEWAY_APP
from tests.rooms.manifests.overlays import documents, sources
from tests.rooms.manifests.test_network import EVERYBODY, SYSTEM


def of_component(kind: str) -> list[dict[str, Any]]:
    return [each for each in sources("gateway") if each["kind"] == kind]


def test_the_manager_may_list_pods_of_the_system_namespace_and_nothing_else() -> None:
    [(role, binding)] = [
        (role, binding)
        for role in of_component("Role")
        for binding in of_component("RoleBinding")
        if binding["roleRef"]["name"] == role["metadata"]["name"] == "gpuruntime-manager-activity"
    ]
    assert role["metadata"]["namespace"] == SYSTEM
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    assert [each["name"] for each in binding["subjects"]] == ["gpuruntime-manager"]


def test_without_the_component_the_manager_lists_no_pods_of_its_namespace() -> None:
    rules = [
        rule
        for role in documents("Role", "minimal")
        if role["metadata"]["namespace"] == SYSTEM
        for rule in role["rules"]
    ]
    assert not any("pods" in rule["resources"] for rule in rules)


def test_the_gateways_pods_are_found_and_asked_as_the_manager_does() -> None:
    """The table of connections has every other client of the port."""
    gateway = EVERYBODY["gateway"]
    assert gateway.labels[labels.APP_NAME] == GATEWAY_APP
    assert gateway.ports["activity"] == (ACTIVITY_PORT, "TCP")
