"""Nodes, leases, priorities, config maps and Events, as far as they are read."""

from datetime import UTC, datetime

import pytest

from gpuruntime.models.encoding.codec import decode, to_json
from gpuruntime.models.kubernetes.cluster import (
    LEASES,
    NODES,
    ConfigMap,
    Event,
    Lease,
    Node,
    PriorityClass,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_the_gpus_of_a_node_are_read() -> None:
    node = decode(
        b"""{"metadata": {"name": "gpu-0", "labels": {"nvidia.com/gpu.product": "A100"}},
        "spec": {"unschedulable": true, "podCIDR": "10.0.0.0/24"},
        "status": {"capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": "7"},
        "conditions": [{"type": "Ready", "status": "True"}], "images": [{"names": ["a"]}]}}""",
        Node,
    )

    assert node.is_ready
    assert node.spec.unschedulable
    assert node.status.capacity["nvidia.com/gpu"] == "8"
    assert node.status.allocatable["nvidia.com/gpu"] == "7"


@pytest.mark.parametrize("conditions", [b"[]", b'[{"type": "Ready", "status": "Unknown"}]'])
def test_a_node_without_conditions_is_not_ready(conditions: bytes) -> None:
    assert not decode(b'{"status": {"conditions": ' + conditions + b"}}", Node).is_ready


def test_a_lease_is_written_with_the_six_digits_that_the_server_requires() -> None:
    spec = {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "leaseTransitions": 2,
        "acquireTime": "2026-03-01T12:00:00.000000Z",
        "renewTime": "2026-03-01T12:00:05.250000Z",
    }

    lease = decode(
        b"""{"spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 2,
        "acquireTime": "2026-03-01T12:00:00.000000Z",
        "renewTime": "2026-03-01T12:00:05.250000Z"}}""",
        Lease,
    )

    assert to_json(lease.spec) == spec


@pytest.mark.parametrize(
    ("times", "last_seen_at"),
    [
        (
            b'"lastTimestamp": "2026-03-01T12:00:00Z", "firstTimestamp": "2026-03-01T11:00:00Z"',
            NOON,
        ),
        (b'"lastTimestamp": null, "eventTime": "2026-03-01T12:00:00.000000Z"', NOON),
        (
            b"""\"eventTime": "2026-03-01T11:00:00.000000Z",
            "series": {"count": 3, "lastObservedTime": "2026-03-01T12:00:00.000000Z"}""",
            NOON,
        ),
        (b'"count": 1', None),
    ],
    ids=["last timestamp", "event time", "series", "no time"],
)
def test_old_and_new_events_have_the_time_at_which_they_were_last_seen(
    times: bytes, last_seen_at: datetime | None
) -> None:
    assert decode(b"{" + times + b"}", Event).last_seen_at == last_seen_at


def test_a_priority_class_preempts_others_unless_its_policy_is_never() -> None:
    assert decode(b'{"value": 5}', PriorityClass).preemptionPolicy == "PreemptLowerPriority"


def test_a_config_map_without_data_is_empty() -> None:
    assert decode(b'{"data": null}', ConfigMap).data == {}


def test_nodes_are_cluster_scoped_and_leases_are_not() -> None:
    assert NODES.path(namespace="n", name="a") == "/api/v1/nodes/a"
    assert LEASES.path(namespace="n") == "/apis/coordination.k8s.io/v1/namespaces/n/leases"
