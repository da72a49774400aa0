from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.api.service import service
from tests.cluster.binaries import MissingBinariesError
from tests.console import binaries
from tests.console.chromium import Browser, browsing
from tests.console.site import Site, furnished


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
    """Nothing may go wrong in the page that no test has asked for."""
    cluster = furnished()
    async with service(cluster) as api:
        tab = await browser.open()
        await tab.look(1280, 800)
        yield Site(cluster, api, tab)
        assert tab.faults == []
        await tab.go("about:blank")
