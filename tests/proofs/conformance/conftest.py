"""The servers that every test here runs against, and the ground each test stands on."""

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
        is_moving = controllers.__name__ in request.fixturenames
        opened = EMBEDDED[request.param](is_moving=is_moving)
    async with opened as one:
        yield one


@pytest_asyncio.fixture
async def controllers(api: Api) -> AsyncIterator[None]:
    """What makes objects move. Their end tells what broke them, if anything did."""
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
    """A name that no other test of this run has."""
    return f"t{next(_numbers)}"


@pytest_asyncio.fixture
async def namespace(api: Api, unique: str) -> str:
    """A namespace for this test alone; a server that lives on keeps it to its own end."""
    (await api.post(NAMESPACES.path(), named(NAMESPACES, unique))).ok(201)
    return unique


@pytest.fixture
def maps(namespace: str) -> str:
    """The path of the test's own ConfigMaps."""
    return CONFIG_MAPS.path(namespace=namespace)


@pytest_asyncio.fixture
async def widgets(api: Api, namespace: str) -> str:
    """The path of the test's own Widgets, whose kind is served."""
    await define(api, widget_definition())
    return WIDGETS.path(namespace=namespace)


@pytest_asyncio.fixture
async def gadgets(api: Api) -> str:
    """The path of all Gadgets, which have no namespace."""
    await define(api, gadget_definition())
    return GADGETS.path()
