"""Fixtures for the product on a real control plane: installations, a fleet and storage worlds."""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack
from typing import Final

import attrs
import pytest

from tests.proofs.product.maintenance.fleet import Fleet, running_fleet
from tests.proofs.product.storages import storage_world
from tests.proofs.real_cluster.auditing import audited, told
from tests.proofs.real_cluster.controlplane import ControlPlane
from tests.proofs.real_cluster.product import Caller, Installation, Process, installation

# Slightly more than the longest grace period of an audit rule.
GRACES_SECONDS: Final = 330.0

_numbers = itertools.count(1)

Open = Callable[[], AbstractAsyncContextManager[storage_world.StorageWorld]]


@attrs.frozen
class Product:
    """A running installation: two api replicas and a manager."""

    made: Installation
    manager: Process
    apis: tuple[Process, Process]

    @property
    def callers(self) -> tuple[Caller, Caller]:
        first, second = (Caller(each.address) for each in self.apis)
        return first, second

    @property
    def caller(self) -> Caller:
        return self.callers[0]

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        return self.made.plane.kubectl(*arguments, stdin=stdin)


@pytest.fixture(scope="session")
def product(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """Yield the shared installation; a test that stops a part of it needs its own."""
    with installation(cluster, tmp_path_factory.mktemp("product")) as made:
        yield running(made)
        assert_sound(made)


@pytest.fixture
def install(
    cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Installation]]:
    """Return a function that creates installations, which end with the test."""
    with ExitStack() as stack:

        def make(name: str) -> Installation:
            logs = tmp_path_factory.mktemp(name)
            return stack.enter_context(installation(cluster, logs, name))

        yield make


@pytest.fixture(scope="session")
def fleet(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Yield a fleet at rest; tests leave it at rest, with a manager of this version."""
    with installation(cluster, tmp_path_factory.mktemp("fleet"), "fleet") as made:
        yield running_fleet(made)
        assert_sound(made)


@pytest.fixture(scope="session")
def volumes(
    cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Installation, Process]]:
    """Yield an installation whose helper Pods fit on no node."""
    with installation(cluster, tmp_path_factory.mktemp("volumes"), "volumes") as made:
        manager, api = made.manager(helpers={"cpu": storage_world.TOO_MUCH}), made.api()
        for process in (manager, api):
            process.wait_until_ready()
        yield made, api
        assert_sound(made)


@pytest.fixture(
    params=[
        pytest.param("real", marks=pytest.mark.cluster),
        pytest.param("embedded", marks=pytest.mark.looptime),
    ]
)
def open_world(request: pytest.FixtureRequest) -> Open:
    """Run a test on both servers, each time with its own prefix for names."""
    prefix = f"t{next(_numbers)}"
    if request.param == "embedded":
        return lambda: storage_world.embedded(prefix)
    made, api = request.getfixturevalue("volumes")
    return lambda: storage_world.real(made, api, prefix)


def assert_sound(made: Installation) -> None:
    """Assert that the audit finds nothing after the grace periods of all its rules."""
    report = asyncio.run(audited(made, watch_seconds=GRACES_SECONDS))
    assert not told(report)
    assert not report.suspicion_count


def running(made: Installation) -> Product:
    manager, first, second = made.manager(), made.api(), made.api()
    for process in (manager, first, second):
        process.wait_until_ready()
    return Product(made, manager, (first, second))
