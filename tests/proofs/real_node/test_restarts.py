"""Parts of the system end and return: no work is lost or doubled, and callers only retry."""

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.eventually import eventually_blocking
from tests.proofs.real_node import pods
from tests.proofs.real_node.callers import calling_in_background
from tests.proofs.real_node.deployment import ADDRESS, INSTANCE, Deployment
from tests.proofs.real_node.images.preloaded import PYTHON
from tests.proofs.real_node.node import Node
from tests.proofs.real_node.overlay import SYSTEM

pytestmark = pytest.mark.node

SERVES = "trap exit TERM; python -m http.server 8080 & wait"
TEMPLATE = {"command": ["sh", "-c", SERVES], "ports": [{"name": "http", "port": 8080}]}
SPEC = "steady.1"
STEADY = "steady"


@pytest.fixture(scope="module")
def steady(product: Deployment) -> Iterator[Deployment]:
    """Yield a deployment with a unit that serves during all tests."""
    product.clear()
    product.seed(SPEC, 5, memory="64Mi")
    product.claim(SPEC, STEADY, image=PYTHON, template=TEMPLATE)
    product.ready(STEADY)
    yield product
    product.clear()


@pytest.fixture
def unharmed(steady: Deployment) -> Iterator[Deployment]:
    """Check afterwards that the unit's Pod is the same and answers, and audit the installation."""
    before = pod_of(steady)
    yield steady
    url = str(steady.ready(STEADY)["accessURL"])
    eventually_blocking(lambda: pods.answers(url))
    assert pod_of(steady) == before
    eventually_blocking(
        lambda: steady.caller.get("/operator/audit"),
        lambda report: report.status == 200 and report.data["breaches"] == [],
    )


def pod_of(product: Deployment) -> tuple[str, int]:
    [pod] = product.pods_of(INSTANCE, f"runtime.lokiwager.io/unit={STEADY}")
    [container] = pod["status"]["containerStatuses"]
    return pod["metadata"]["uid"], container["restartCount"]


def claim_another(product: Deployment, name: str) -> None:
    product.claim(SPEC, name, image=PYTHON, template=TEMPLATE)
    product.ready(name)


@pytest.mark.parametrize("program", ["kubelet", "containerd"])
def test_a_unit_survives_the_kill_of_a_program_of_the_node(
    unharmed: Deployment, real_node: Node, program: str
) -> None:
    real_node.kill(program)
    real_node.start(program)
    real_node.wait_until_ready()
    claim_another(unharmed, f"after-{program}")


@pytest.mark.parametrize("program", ["kube-apiserver", "etcd"])
def test_a_unit_survives_the_kill_of_a_program_of_the_control_plane(
    unharmed: Deployment, program: str
) -> None:
    unharmed.plane.kill(program)
    unharmed.plane.start(program)
    unharmed.plane.wait_until_ready()
    claim_another(unharmed, f"after-{program}")


def test_the_second_manager_takes_over_when_the_leader_is_killed(
    unharmed: Deployment,
) -> None:
    leader = unharmed.leader()
    pod = next(
        pod["metadata"]["name"]
        for pod in unharmed.pods("manager")
        if leader.startswith(pod["metadata"]["name"])
    )
    unharmed.plane.kubectl("delete", "pod", pod, "-n", SYSTEM, "--force", "--grace-period=0")
    eventually_blocking(unharmed.leader, lambda name: bool(name) and name != leader)
    unharmed.seed("led.1", 1, memory="64Mi")
    unharmed.claim("led.1", "after-leader", image=PYTHON, template=TEMPLATE)
    unharmed.ready("after-leader")
    unharmed.wait_until_rolled_out()


def test_a_killed_api_pod_costs_its_callers_a_retry(unharmed: Deployment) -> None:
    before = unharmed.plane.audit_size()
    with calling_in_background(ADDRESS, "killed") as running:
        eventually_blocking(lambda: len(running.names), lambda count: count > 10)
        pod = unharmed.pods("api")[0]["metadata"]["name"]
        unharmed.plane.kubectl("delete", "pod", pod, "-n", SYSTEM, "--force", "--grace-period=0")
        unharmed.wait_until_rolled_out()
    assert running.failures == []
    assert pools_made_since(unharmed, before) == Counter(running.names)


def test_a_rolling_update_fails_no_request(unharmed: Deployment) -> None:
    before = unharmed.plane.audit_size()
    with calling_in_background(ADDRESS, "rolled") as running:
        eventually_blocking(lambda: len(running.names), lambda count: count > 10)
        unharmed.plane.kubectl("rollout", "restart", "-n", SYSTEM, "deployment/gpuruntime-api")
        unharmed.wait_until_rolled_out()
    assert running.failures == []
    assert pools_made_since(unharmed, before) == Counter(running.names)


def pools_made_since(product: Deployment, size: int) -> Counter[str]:
    """Return how often each pool was created, by the API server's audit log."""
    asked = (
        event["objectRef"]
        for event in product.plane.audit_events(size)
        if event["verb"] == "create" and event.get("responseStatus", {}).get("code") == 201
    )
    return Counter(what["name"] for what in asked if what["resource"] == "stockpools")
