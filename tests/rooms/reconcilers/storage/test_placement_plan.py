"""Node of a storage's file server while its unit's Pods come and go."""

from datetime import UTC, datetime
from typing import Any

import pytest

from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.kubernetes.pods import Pod, PodSpec, PodStatus
from gpuruntime.reconcilers.storage.children import Placing
from gpuruntime.reconcilers.storage.placement_plan import placing_of_server

MOMENT = datetime(2025, 1, 1, tzinfo=UTC)
HERE, THERE, ANYWHERE, OFF = Placing(node="a"), Placing(node="b"), Placing(), Placing(is_off=True)


def pod(name: str, node: str = "", *, is_ending: bool = False, is_refused: bool = False) -> Pod:
    deleted: dict[str, Any] = {"deletionTimestamp": MOMENT} if is_ending else {}
    refused = Condition(type="PodScheduled", status="False", reason="Unschedulable")
    return Pod(
        metadata=ObjectMeta(name=name, **deleted),
        spec=PodSpec(nodeName=node),
        status=PodStatus(conditions=(refused,) if is_refused else ()),
    )


@pytest.mark.parametrize(
    ("pods", "before", "after"),
    [
        pytest.param([pod("p", "a")], ANYWHERE, HERE, id="it goes where the Pod is"),
        pytest.param([pod("p", "a")], OFF, HERE, id="it comes back where the Pod is"),
        pytest.param([pod("p", "b")], HERE, THERE, id="it follows the Pod to another node"),
        pytest.param(
            [pod("p", "a", is_ending=True)], HERE, HERE, id="it stays with an ending Pod"
        ),
        pytest.param(
            [pod("new"), pod("old", "a", is_ending=True)],
            HERE,
            HERE,
            id="it stays with an ending Pod beside one without a node",
        ),
        pytest.param(
            [pod("old", "a", is_ending=True), pod("new", "b")],
            HERE,
            THERE,
            id="it goes with the new Pod, not with the ending one",
        ),
        pytest.param([], HERE, HERE, id="it stays between two Pods"),
        pytest.param([pod("new")], HERE, HERE, id="it stays until a new Pod has a node"),
        pytest.param(
            [pod("new")], ANYWHERE, ANYWHERE, id="it serves until a first Pod has a node"
        ),
        pytest.param(
            [pod("new", is_refused=True)], HERE, OFF, id="it makes way for a Pod without a place"
        ),
        pytest.param([pod("new")], OFF, OFF, id="it stays away until the Pod has a node"),
        pytest.param([], OFF, ANYWHERE, id="it comes back once nobody waits"),
    ],
)
def test_a_file_server_moves_only_if_it_must(
    pods: list[Pod], before: Placing, after: Placing
) -> None:
    assert placing_of_server(pods, before, is_stuck=False) == after


def test_an_unschedulable_file_server_leaves_its_node_once_no_pod_is_there() -> None:
    assert placing_of_server([], HERE, is_stuck=True) == ANYWHERE
    assert placing_of_server([pod("p", "a")], HERE, is_stuck=True) == HERE
