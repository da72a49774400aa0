"""Fixtures: each server under test, and namespaces and paths for a single test."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
import pytest_asyncio

from tests.proofs.conformance import servers
from tests.proofs.conformance.calls import Api
from tests.proofs.conformance.definitions import define, gadget_definition, widget_definition
from tests.proofs.conformance.objects import CONFIG_MAPS, GADGETS, NAMESPACES, WIDGETS, named

_numbers = itertools.count(1)

REAL = "real"
EMBEDDED = {"in-process": servers.in_process, "http": servers.over_http}


@pytest_asyncio.fixture(params=[pytest.param(REAL, marks=pytest.mark.cluster), *EMBEDDED])
async def api(request: pytest.FixtureRequest) -> AsyncIterator[Api]:
    if request.param == REAL:
        opened = servers.real(request.getfixturevalue("cluster"))
    else:
        has_controllers = controllers.__name__ in request.fixturenames
        opened = EMBEDDED[request.param](has_controllers=has_controllers)
    async with opened as one:
        yield one


@pytest_asyncio.fixture
async def controllers(api: Api) -> AsyncIterator[None]:
    """Run the embedded cluster's controllers; if one failed, the fixture raises its error."""
    if api.embedded is None:
        yield
        return
    running = asyncio.create_task(api.embedded.run(), name="controllers")
    try:
        async with asyncio.timeout(api.deadline_seconds):
            await api.embedded.ready.wait()
        yield
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


@pytest.fixture
def unique() -> str:
    """Return a name that no other test of this run has."""
    return f"t{next(_numbers)}"


@pytest_asyncio.fixture
async def namespace(api: Api, unique: str) -> str:
    """Create a namespace for this test; a long-lived server keeps it until its own end."""
    (await api.post(NAMESPACES.path(), named(NAMESPACES, unique))).ok(201)
    return unique


@pytest.fixture
def maps(namespace: str) -> str:
    """Return the path of the test's own ConfigMaps."""
    return CONFIG_MAPS.path(namespace=namespace)


@pytest_asyncio.fixture
async def widgets(api: Api, namespace: str) -> str:
    """Return the path of the test's own Widgets, and define their kind."""
    await define(api, widget_definition())
    return WIDGETS.path(namespace=namespace)


@pytest_asyncio.fixture
async def gadgets(api: Api) -> str:
    """Return the path of all Gadgets, which have no namespace, and define their kind."""
    await define(api, gadget_definition())
    return GADGETS.path()
