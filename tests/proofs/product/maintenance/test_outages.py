"""Outages on a real control plane: roles stop, the leader changes, the API server goes away."""

from collections.abc import Callable, Iterator

import pytest

from tests.eventually import eventually_blocking
from tests.proofs.product.conftest import Product, running
from tests.proofs.real_cluster.controlplane import ControlPlane
from tests.proofs.real_cluster.fixtures import started
from tests.proofs.real_cluster.product import Caller, Installation, installation, request

pytestmark = pytest.mark.cluster

STOCK = {"operationID": "stock", "specName": "g1.1", "memory": "1Gi", "gpu": 1, "replicas": 2}
SHORT_LEASE = {"leaseDuration": 6, "renewDeadline": 5, "retryPeriod": 0.5, "enabled": True}


def unit(name: str) -> dict[str, object]:
    return {"operationID": name, "name": name, "specName": "g1.1", "image": "python:3.12"}


@pytest.fixture
def own_cluster(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[ControlPlane]:
    yield from started(tmp_path_factory, pytestconfig)


@pytest.fixture
def own_product(
    own_cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Product]:
    with installation(own_cluster, tmp_path_factory.mktemp("own-product")) as made:
        yield running(made)


def test_the_api_works_without_a_manager_and_the_next_manager_catches_up(
    install: Callable[[str], Installation],
) -> None:
    made = install("alone")
    api = made.api()
    api.wait_until_ready()
    caller = Caller(api.address)
    assert caller.post("/operator/stock-units", STOCK).status == 202
    assert caller.get("/operator/jobs/stock").data["status"] == "pending"
    manager = made.manager()
    caller.until("/operator/jobs/stock", lambda job: job["ready"] == 2)
    assert manager.stop() == 0
    assert caller.post("/gpu-units", unit("kept")).status == 201
    made.manager()
    caller.until("/gpu-units/kept", lambda unit: unit["phase"] == "Ready")
    assert api.stop() == 0


def test_a_standby_leads_when_the_leader_stops_and_when_it_is_killed(
    install: Callable[[str], Installation],
) -> None:
    made = install("leaders")
    first, api = made.manager(leaderElection=SHORT_LEASE), made.api()
    first.said("leading")
    second = made.manager(leaderElection=SHORT_LEASE)
    second.wait_until_ready()
    assert first.stop() == 0
    second.said("leading")
    third = made.manager(leaderElection=SHORT_LEASE)
    third.wait_until_ready()
    second.kill()
    third.said("leading")
    caller = Caller(api.address)
    assert caller.post("/operator/stock-units", STOCK).status == 202
    caller.until("/operator/jobs/stock", lambda job: job["ready"] == 2)


def test_a_lease_taken_by_another_holder_ends_the_leader(
    install: Callable[[str], Installation],
) -> None:
    made = install("robbed")
    manager = made.manager(leaderElection=SHORT_LEASE)
    manager.said("leading")
    made.plane.kubectl(
        "patch", "lease", "gpuruntime-manager", "-n", made.system, "--type=merge",
        "-p", '{"spec":{"holderIdentity":"somebody-else"}}',
    )  # fmt: skip
    assert manager.exit_code() == 4


def test_an_unreachable_required_cluster_ends_the_api(
    install: Callable[[str], Installation],
) -> None:
    made = install("required")
    settings = {
        "mode": "required",
        "kubeconfig": str(made.kubeconfig("api", "http://127.0.0.1:9")),
    }
    assert made.api(kubernetes=settings).exit_code() == 3


def test_an_outage_of_the_control_plane_is_reported_and_survived(own_product: Product) -> None:
    caller, plane = own_product.caller, own_product.made.plane
    assert caller.post("/operator/stock-units", STOCK).status == 202
    caller.until("/operator/jobs/stock", lambda job: job["ready"] == 2)
    plane.kill("kube-apiserver")
    caller.until("/health", lambda health: not health["kubernetesConnected"])
    refused = caller.post("/gpu-units", unit("late"))
    assert (refused.status, refused.code) == (503, "service_unavailable")
    assert int(refused.headers["retry-after"]) > 0
    assert request("GET", f"{own_product.apis[0].operations}/readyz").status == 200
    plane.kill("etcd")
    plane.start("etcd")
    plane.start("kube-apiserver")
    plane.wait_until_ready()
    caller.until("/health", lambda health: health["kubernetesConnected"])
    made = eventually_blocking(
        lambda: caller.post("/gpu-units", unit("late")), lambda answer: answer.status in (200, 201)
    )
    caller.until("/gpu-units/late", lambda unit: unit["phase"] == "Ready")
    left = eventually_blocking(
        lambda: caller.get("/gpu-units?lifecycle=stock").data, lambda stock: len(stock) == 1
    )
    assert left[0]["name"] != made.data["sourceStock"]["name"]
