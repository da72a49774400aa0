"""A control plane shared by all tests of a run; a failure shows the ends of its logs."""

from collections.abc import Generator, Iterator

import pytest

from tests.proofs.real_cluster import binaries
from tests.proofs.real_cluster.controlplane import ControlPlane, Options, control_plane
from tests.rooms.manifests import rights

RUNNING = pytest.StashKey[list[ControlPlane]]()


@pytest.fixture(scope="session")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[ControlPlane]:
    """Yield the shared control plane; a test that stops a part of it calls `started` instead.

    Afterwards, check that no account of the product was refused for the lack of a right.
    """
    for plane in started(tmp_path_factory, pytestconfig):
        yield plane
        missing = rights.refused(plane.audit_events()) - rights.NOT_FOR_EVERYBODY
        assert rights.lines(missing) == ""


def started(
    tmp_path_factory: pytest.TempPathFactory,
    config: pytest.Config,
    options: Options | None = None,
) -> Iterator[ControlPlane]:
    """Start a control plane whose logs stay in pytest's temporary folder for a few runs."""
    try:
        folder = binaries.find()
    except binaries.MissingBinariesError as error:
        pytest.fail(str(error), pytrace=False)
    running = config.stash.setdefault(RUNNING, [])
    with control_plane(folder, tmp_path_factory.mktemp("cluster-logs"), options) as plane:
        running.append(plane)
        yield plane
        running.remove(plane)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and item.get_closest_marker("cluster"):
        for plane in item.config.stash.get(RUNNING, []):
            for name, tail in plane.log_tails().items():
                report.sections.append((f"the end of {plane.layout.logs}/{name}.log", tail))
    return report
