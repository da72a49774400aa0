"""One control plane for all tests of a run that ask for it; failures show its logs' ends."""

from collections.abc import Generator, Iterator

import pytest

from tests.cluster import binaries
from tests.cluster.controlplane import ControlPlane, control_plane


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The logs stay in pytest's own temporary folder, which keeps those of the last runs."""
    try:
        folder = binaries.find()
    except binaries.MissingBinariesError as error:
        pytest.fail(str(error), pytrace=False)
    with control_plane(folder, tmp_path_factory.mktemp("cluster-logs")) as plane:
        yield plane


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    plane = getattr(item, "funcargs", {}).get("cluster")
    if report.failed and isinstance(plane, ControlPlane):
        for name, tail in plane.log_tails().items():
            report.sections.append((f"the end of {name}'s log, {plane.layout.logs}", tail))
    return report
