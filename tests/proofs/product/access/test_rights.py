"""Accounts have every right that the product uses, and no other.

The stories bring about every request that a role ever sends, so a right that no story used is
superfluous. Without a needed right its story is refused, and the audit log shows it.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.eventually import eventually_blocking
from tests.proofs.product.access.rare_requests import API_VERSION, STORIES, RareRequests
from tests.proofs.real_cluster.controlplane import ControlPlane, ControlPlaneError
from tests.proofs.real_cluster.product import installation
from tests.proofs.real_cluster.proxy import Proxy, proxy
from tests.rooms.bus.broker import broker
from tests.rooms.manifests import rights

pytestmark = pytest.mark.cluster

OWNERS = {
    ("stock", "GPUUnit"): {"specName": "owner.1"},
    ("instance", "GPUUnit"): {"specName": "owner.1", "suspended": True},
    ("instance", "GPUStorage"): {"size": "1Gi"},
}


@pytest.fixture(scope="module")
def rare_requests(
    cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RareRequests]:
    with ExitStack() as stack:
        made = stack.enter_context(
            installation(cluster, tmp_path_factory.mktemp("rights"), "rights")
        )
        queue = stack.enter_context(broker())

        def between() -> Proxy:
            return stack.enter_context(proxy(cluster.url, cluster.certificate))

        yield RareRequests(made, between, queue.url)


def events(rare_requests: RareRequests) -> Iterator[dict[str, Any]]:
    """Yield the audit events of this installation's accounts."""
    own = f"{rights.ACCOUNTS}{rare_requests.made.system}:"
    for event in rare_requests.made.plane.audit_events():
        if event["user"]["username"].startswith(own):
            yield event


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_each_story_of_rare_requests_succeeds(
    rare_requests: RareRequests, story: Callable[[RareRequests], None]
) -> None:
    story(rare_requests)


def test_no_unused_right_is_granted(rare_requests: RareRequests) -> None:
    unused = rights.granted() - rights.used(events(rare_requests))
    assert rights.lines(unused) == "", "after all the stories"


def test_no_right_is_missing(rare_requests: RareRequests) -> None:
    assert rights.lines(rights.refused(events(rare_requests))) == ""


@pytest.mark.parametrize(("place", "kind"), OWNERS)
def test_a_child_that_blocks_the_deletion_of_its_owner_needs_its_own_right(
    rare_requests: RareRequests, place: str, kind: str
) -> None:
    """Admission checks this right, so that the audit log does not show its use."""
    namespace, plural = f"{rare_requests.made.name}-{place}", f"{kind.lower()}s"
    rare_requests.apply(kind, namespace, "owner", OWNERS[place, kind])
    owner = rare_requests.find(plural, namespace, "owner")
    child = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "child",
            "namespace": namespace,
            "ownerReferences": [
                {
                    "apiVersion": API_VERSION,
                    "kind": kind,
                    "name": "owner",
                    "uid": owner["metadata"]["uid"],
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "selector": {"matchLabels": {"app": "child"}},
            "template": {
                "metadata": {"labels": {"app": "child"}},
                "spec": {"containers": [{"name": "main", "image": "busybox:1.36"}]},
            },
        },
    }
    manager = f"--as={rights.ACCOUNTS}{rare_requests.made.system}:gpuruntime-manager"
    create = ("create", "--dry-run=server", manager, "-f", "-")
    rare_requests.kubectl(*create, stdin=json.dumps(child))

    role = ("role", "gpuruntime-manager", "-n", namespace)
    rules = json.loads(rare_requests.kubectl("get", *role, "-o", "json"))["rules"]
    others = [each for each in rules if each["resources"] != [f"{plural}/finalizers"]]
    assert len(others) == len(rules) - 1
    rare_requests.kubectl("patch", *role, "--type=merge", "-p", json.dumps({"rules": others}))

    def refusal() -> str:
        try:
            return rare_requests.kubectl(*create, stdin=json.dumps(child))
        except ControlPlaneError as error:
            return str(error)

    eventually_blocking(refusal, lambda said: "cannot set blockOwnerDeletion" in said)
