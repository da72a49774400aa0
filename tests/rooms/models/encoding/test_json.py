"""Raw parts keep their own bytes, and nothing else of the buffer that they were read from."""

import gc
import weakref

import msgspec
import pytest

from gpuruntime.models.encoding.codec import decode, to_json
from gpuruntime.models.kubernetes.network import NETWORK_POLICIES, SERVICES, NetworkPolicy, Service
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS, Deployment

SPEC = b'{"replicas":1,"template":{"spec":{"containers":[{"name":"runtime"}]}}}'


class Buffer(bytearray):
    """A bytearray that supports weak references."""

    __slots__ = ("__weakref__",)


@pytest.mark.parametrize("model", [Deployment, Service, NetworkPolicy])
def test_a_spec_is_kept_as_it_came(model: type[Deployment | Service | NetworkPolicy]) -> None:
    held = decode(b'{"metadata": {"name": "a"}, "spec": ' + SPEC + b"}", model)

    assert bytes(held.spec) == SPEC
    assert to_json(held)["spec"] == msgspec.json.decode(SPEC)


@pytest.mark.parametrize("model", [Deployment, Service, NetworkPolicy])
def test_a_spec_does_not_keep_its_page_in_memory(
    model: type[Deployment | Service | NetworkPolicy],
) -> None:
    page = Buffer(b'{"spec": ' + SPEC + b"}" + b" " * 1000)
    watched = weakref.ref(page)

    held = decode(memoryview(page), model)
    del page
    gc.collect()

    assert bytes(held.spec) == SPEC
    assert watched() is None


def test_an_absent_spec_is_an_empty_object() -> None:
    assert bytes(decode(b"{}", Deployment).spec) == b"{}"


def test_the_status_of_a_deployment_is_read() -> None:
    held = decode(
        b"""{"status": {"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1,
        "readyReplicas": 1, "availableReplicas": 1, "conditions": [{"type": "Progressing",
        "status": "False", "reason": "ProgressDeadlineExceeded", "message": "too slow"}]}}""",
        Deployment,
    )

    assert (held.status.observedGeneration, held.status.readyReplicas) == (2, 1)
    assert [each.reason for each in held.status.conditions] == ["ProgressDeadlineExceeded"]


def test_children_have_the_paths_of_their_groups() -> None:
    assert [each.path(namespace="n") for each in (DEPLOYMENTS, SERVICES, NETWORK_POLICIES)] == [
        "/apis/apps/v1/namespaces/n/deployments",
        "/api/v1/namespaces/n/services",
        "/apis/networking.k8s.io/v1/namespaces/n/networkpolicies",
    ]
