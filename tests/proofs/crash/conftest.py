"""Fixtures: one control plane, on which all worlds run at the same time.

A suite is a module with `run_all`. All selected suites start together at the first test, because a
story spends most of its time waiting. Their tests check the outcome.
"""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from tests.proofs.crash.comparison import counts_of
from tests.proofs.crash.unit_story import StoryContext, Undisturbed, normalized, run_story, seed
from tests.proofs.crash.world import MakeWorld, World, forking_keeper, world
from tests.proofs.real_cluster.controlplane import ControlPlane
from tests.rooms.manifests.overlays import MANIFESTS


@pytest.fixture(scope="package")
def plane(cluster: ControlPlane) -> ControlPlane:
    cluster.kubectl("apply", "-k", str(MANIFESTS / "crds"))
    cluster.kubectl(
        "wait",
        "--for=condition=Established",
        "crd/gpuunits.runtime.lokiwager.io",
        "crd/stockpools.runtime.lokiwager.io",
        "crd/gpustorages.runtime.lokiwager.io",
    )
    return cluster


@pytest.fixture(scope="package")
def make(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeWorld]:
    """Return a factory of worlds for any thread; at the end, all are closed and emptied."""
    folder = tmp_path_factory.mktemp("worlds")
    with forking_keeper() as keeper, ExitStack() as stack:

        def made(name: str) -> World:
            one = world(plane, keeper, folder, name)
            stack.callback(one.remove_objects)
            stack.callback(one.close)
            return one

        yield made


@pytest.fixture(scope="package")
def context(plane: ControlPlane, make: MakeWorld) -> StoryContext:
    calm = make("calm")
    manager, api = calm.manager(), calm.api()
    seed(calm, api, replicas=1)
    before = len(manager.proxy.writes)
    ends = run_story(calm, api, 0)
    writes = len(manager.proxy.writes) - before
    calm.close()
    counts = normalized(counts_of(plane, [calm])[calm.name])
    return StoryContext(plane, make, Undisturbed(ends, counts, writes))


@pytest.fixture(scope="package")
def outcomes(
    request: pytest.FixtureRequest, context: StoryContext
) -> Iterator[dict[str, Future[Any]]]:
    modules = {each.module for each in request.session.items if isinstance(each, pytest.Function)}
    suites = [each for each in modules if hasattr(each, "run_all")]
    with ThreadPoolExecutor(max_workers=len(suites)) as pool:
        yield {each.__name__: pool.submit(each.run_all, context) for each in suites}


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest, outcomes: dict[str, Future[Any]]) -> Any:
    """Return the outcome of the module's own suite."""
    return outcomes[request.module.__name__].result()
