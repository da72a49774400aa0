"""A control plane and a real node shared by all tests of a run; failures show the ends of logs."""

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.proofs.real_cluster import binaries as control_plane_binaries
from tests.proofs.real_cluster.controlplane import ControlPlane, Options, control_plane
from tests.proofs.real_node import binaries, pods
from tests.proofs.real_node.configuration import Layout
from tests.proofs.real_node.deployment import Deployment
from tests.proofs.real_node.images import preloaded
from tests.proofs.real_node.isolation import enclosure
from tests.proofs.real_node.node import Node, node

RUNNING = pytest.StashKey[Node]()
# kwok simulates only the nodes with this annotation, and leaves the real node alone.
KWOK = (
    "--manage-all-nodes=false",
    "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
)
APISERVER = ("--kubelet-preferred-address-types=InternalIP",)


@pytest.fixture(scope="session")
def place() -> Path:
    """Return the enclosure's folder; outside of an enclosure no part of a node may start."""
    try:
        return enclosure.folder()
    except enclosure.EnclosureError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def images(place: Path) -> preloaded.Images:
    del place
    return preloaded.find()


@pytest.fixture(scope="session")
def plane(place: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    del place
    options = Options(
        nodes=0, address=enclosure.ADDRESS, apiserver_flags=APISERVER, kwok_flags=KWOK
    )
    logs = tmp_path_factory.mktemp("cluster-logs")
    with control_plane(control_plane_binaries.find(), logs, options) as started:
        yield started


@pytest.fixture(scope="session")
def real_node(
    place: Path,
    plane: ControlPlane,
    images: preloaded.Images,
    tmp_path_factory: pytest.TempPathFactory,
    pytestconfig: pytest.Config,
) -> Iterator[Node]:
    layout = Layout(
        binaries=binaries.find(),
        data=place / "node",
        kubeconfig=plane.kubeconfig,
        address=enclosure.ADDRESS,
        cgroup=f"/{place.name}",
    )
    with node(plane, layout, tmp_path_factory.mktemp("node-logs"), images.archives) as started:
        pytestconfig.stash[RUNNING] = started
        yield started


@pytest.fixture(scope="session")
def client(plane: ControlPlane, real_node: Node) -> pods.Client:
    del real_node
    return pods.Client(plane)


@pytest.fixture(scope="session")
def product(place: Path, plane: ControlPlane, real_node: Node) -> Deployment:
    del real_node
    deployment = Deployment(plane, place / "deployment")
    deployment.apply()
    return deployment


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    started = item.config.stash.get(RUNNING, None)
    if report.failed and started and item.get_closest_marker("node"):
        for name, tail in started.log_tails().items():
            report.sections.append((f"the end of {started.logs}/{name}.log", tail))
    return report
