"""What all worlds share: the definitions on the one control plane, and an undisturbed run."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.cluster.controlplane import ControlPlane
from tests.cluster.processes import Keeper
from tests.cluster.product import MANIFESTS
from tests.crash.ledger import counts_of
from tests.crash.story import Undisturbed, leftovers, live, seed, told
from tests.crash.world import MakeWorld, nursery, world


@pytest.fixture(scope="session")
def plane(cluster: ControlPlane) -> ControlPlane:
    cluster.kubectl("apply", "-k", str(MANIFESTS / "crds"))
    cluster.kubectl(
        "wait",
        "--for=condition=Established",
        "crd/gpuunits.runtime.lokiwager.io",
        "crd/stockpools.runtime.lokiwager.io",
    )
    return cluster


@pytest.fixture(scope="session")
def keeper() -> Iterator[Keeper]:
    with nursery() as made:
        yield made


@pytest.fixture(scope="module")
def make(
    plane: ControlPlane, keeper: Keeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MakeWorld]:
    """From any thread; what runs in the worlds ends with the tests of a module."""
    folder = tmp_path_factory.mktemp("worlds")
    with ExitStack() as stack:
        yield lambda name: stack.enter_context(world(plane, keeper, folder, name))


@pytest.fixture(scope="session")
def undisturbed(
    plane: ControlPlane, keeper: Keeper, tmp_path_factory: pytest.TempPathFactory
) -> Undisturbed:
    with world(plane, keeper, tmp_path_factory.mktemp("undisturbed"), "calm") as calm:
        manager, api = calm.manager(), calm.api()
        seed(calm, api, replicas=1)
        before = len(manager.proxy.writes)
        ends = live(calm, api, 0)
        writes = len(manager.proxy.writes) - before
        calm.until(lambda: leftovers(calm), lambda left: not left)
        return Undisturbed(ends, told(counts_of(plane, [calm])["calm"]), writes)
