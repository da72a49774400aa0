"""One installation on the real control plane for the suites that share it: two apis, a manager."""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack
from typing import Final

import attrs
import pytest

from tests.proofs.product.maintenance.fleet import Fleet, manned
from tests.proofs.product.storages import storage_world
from tests.proofs.real_cluster.auditing import audited, told
from tests.proofs.real_cluster.controlplane import ControlPlane
from tests.proofs.real_cluster.product import Caller, Installation, Process, installation

# The longest that a rule allows anything, and a little more.
GRACES_SECONDS: Final = 330.0

_numbers = itertools.count(1)

Open = Callable[[], AbstractAsyncContextManager[storage_world.StorageWorld]]


@attrs.frozen
class Product:
    """Running, with all that it takes to look behind it."""

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
    """Whoever stops a part of it needs an installation of their own."""
    with installation(cluster, tmp_path_factory.mktemp("product")) as made:
        yield running(made)
        demand_sound(made)


@pytest.fixture
def install(
    cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Installation]]:
    """Makes installations that end with the test."""
    with ExitStack() as stack:

        def make(name: str) -> Installation:
            logs = tmp_path_factory.mktemp(name)
            return stack.enter_context(installation(cluster, logs, name))

        yield make


@pytest.fixture(scope="session")
def fleet(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """At rest; whoever disturbs it leaves it at rest, with a manager of this version."""
    with installation(cluster, tmp_path_factory.mktemp("fleet"), "fleet") as made:
        yield manned(made)
        demand_sound(made)


@pytest.fixture(scope="session")
def volumes(
    cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Installation, Process]]:
    """Whose helpers fit on no node."""
    with installation(cluster, tmp_path_factory.mktemp("volumes"), "volumes") as made:
        manager, api = made.manager(helpers={"cpu": storage_world.TOO_MUCH}), made.api()
        for process in (manager, api):
            process.wait_until_ready()
        yield made, api
        demand_sound(made)


@pytest.fixture(
    params=[
        pytest.param("real", marks=pytest.mark.cluster),
        pytest.param("embedded", marks=pytest.mark.looptime),
    ]
)
def on(request: pytest.FixtureRequest) -> Open:
    """Either server: the same cases, each with names of its own."""
    prefix = f"t{next(_numbers)}"
    if request.param == "embedded":
        return lambda: storage_world.embedded(prefix)
    made, api = request.getfixturevalue("volumes")
    return lambda: storage_world.real(made, api, prefix)


def demand_sound(made: Installation) -> None:
    """Whatever the tests did to it: what may come right by itself is given its time."""
    report = asyncio.run(audited(made, watch_seconds=GRACES_SECONDS))
    assert not told(report)
    assert not report.suspicion_count


def running(made: Installation) -> Product:
    manager, first, second = made.manager(), made.api(), made.api()
    for process in (manager, first, second):
        process.wait_until_ready()
    return Product(made, manager, (first, second))
