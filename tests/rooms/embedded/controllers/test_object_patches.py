"""Values are encoded as Kubernetes encodes them."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.embedded.apiserver.patches import merge_patch
from gpuruntime.embedded.controllers.object_patches import patch_between, wire
from gpuruntime.embedded.kinds.pod_objects import ContainerStatus, PodStatus
from gpuruntime.embedded.kinds.workload_objects import ReplicaSetStatus, WorkloadCondition

NAMES = st.sampled_from(["a", "b", "c"])
VALUES = st.recursive(
    st.integers(0, 2) | st.text(max_size=1) | st.lists(st.integers(0, 1), max_size=2),
    lambda inner: st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=3)


def test_members_at_their_defaults_are_omitted() -> None:
    assert wire(PodStatus(phase="Pending")) == {"phase": "Pending"}


def test_members_that_kubernetes_always_writes_are_kept() -> None:
    assert wire(ReplicaSetStatus()) == {"replicas": 0}
    assert wire(ContainerStatus(name="c")) == {
        "name": "c",
        "state": {},
        "lastState": {},
        "ready": False,
        "restartCount": 0,
        "image": "",
        "imageID": "",
    }


def test_timestamps_are_written_in_whole_seconds() -> None:
    moment = datetime(2025, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)

    written = wire(WorkloadCondition(type="Available", status="True", lastUpdateTime=moment))

    assert written == {
        "type": "Available",
        "status": "True",
        "lastUpdateTime": "2025-01-02T03:04:05Z",
    }


@given(OBJECTS, OBJECTS)
def test_the_patch_turns_the_old_value_into_the_new_one(old: dict, new: dict) -> None:  # type: ignore[type-arg]  # any JSON
    assert merge_patch(old, patch_between(old, new)) == new


@given(OBJECTS)
def test_the_patch_between_equal_values_is_empty(value: dict) -> None:  # type: ignore[type-arg]  # any JSON
    assert patch_between(value, dict(value)) == {}
