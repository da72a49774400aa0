"""Requests of Pods for a counted resource, as the scheduler sums them up."""

import pytest

from gpuruntime.models.encoding import codec
from gpuruntime.models.kubernetes.pod_requests import RequestingPod

GPU = "nvidia.com/gpu"


def container(amount: object = None, **members: object) -> dict[str, object]:
    requests = {} if amount is None else {GPU: amount, "cpu": "1"}
    return {"name": "c", "image": "i", "resources": {"requests": requests}, **members}


SIDECAR = container("1", restartPolicy="Always")


@pytest.mark.parametrize(
    ("spec", "gpus"),
    [
        ({"containers": [container()]}, 0),
        ({"containers": [container("2"), container(), container("1")]}, 3),
        ({"containers": [container(2)]}, 2),
        ({"containers": [container("many")]}, 0),
        ({"containers": [container("1")], "initContainers": [container("4")]}, 4),
        ({"containers": [container("2")], "initContainers": [SIDECAR]}, 3),
        ({"containers": [container("1")], "initContainers": [SIDECAR, container("4")]}, 5),
        ({"containers": [container("4")], "initContainers": [container("4"), SIDECAR]}, 5),
    ],
    ids=[
        "none",
        "containers together",
        "a number, not a text",
        "a malformed quantity",
        "an init container before the others",
        "a sidecar beside the others",
        "an init container beside a sidecar",
        "a sidecar after an init container",
    ],
)
def test_a_pod_requests_the_most_that_its_containers_need_at_once(
    spec: dict[str, object], gpus: int
) -> None:
    body = {"metadata": {"name": "p"}, "spec": {**spec, "nodeName": "n"}, "status": {}}
    pod = codec.decode(codec.encode(body), RequestingPod)  # type: ignore[arg-type]  # plain JSON
    assert pod.requested(GPU) == gpus
