from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.proofs.browser import binaries
from tests.proofs.browser.chromium import Browser, browsing
from tests.proofs.browser.site import Site, cluster_with_each_phase
from tests.proofs.real_cluster.binaries import MissingBinariesError
from tests.rooms.api.service import service


@pytest.fixture(scope="session")
def program() -> Path:
    try:
        return binaries.find()
    except MissingBinariesError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture
async def browser(program: Path, tmp_path: Path) -> AsyncIterator[Browser]:
    async with browsing(program, tmp_path / "profile") as started:
        yield started


@pytest.fixture
async def site(browser: Browser) -> AsyncIterator[Site]:
    """Yield a site, and fail the test if the page logged an unexpected error."""
    cluster = cluster_with_each_phase()
    async with service(cluster) as api:
        tab = await browser.open()
        await tab.look(1280, 800)
        yield Site(cluster, api, tab)
        assert tab.faults == []
        await tab.go("about:blank")
