"""If a manager dies at any write of a rollout, its successor gives all stock the pool's image.

A pool that creates its units once and one that refills change their image together. In each world
the manager dies once, each time at another write after that change.
"""

from functools import partial
from typing import Any, Final

import pytest

from gpuruntime.models.kinds.pools import STOCK_POOLS
from gpuruntime.operations.objects import new_pool, pool_order
from gpuruntime.operations.options import Namespaces
from gpuruntime.operations.requests import parse_create_pool
from tests.options import configured
from tests.proofs.crash.comparison import State, counts_of, state_of
from tests.proofs.crash.manager_runs import MOST_ALIVE, Run, Runs, crashes, ended
from tests.proofs.crash.unit_story import StoryContext
from tests.proofs.crash.world import MakeWorld, RestartedRole, World, crash_fault, in_parallel
from tests.proofs.real_cluster.proxy import nth

pytestmark = pytest.mark.cluster

ENVELOPE: Final = {"cpu": "1", "memory": "1Gi", "gpu": 1, "image": "old:1"}
POOLS: Final = (
    {"operationID": "once", "name": "once", "specName": "g1.1", "replicas": 2, "refill": "Never"},
    {"operationID": "kept", "name": "kept", "specName": "g2.1", "replicas": 2},
)
UNITS: Final = 4


def run_all(context: StoryContext) -> Runs:
    world = context.make("ro")
    manager = stocked(world)
    before = len(manager.proxy.writes)
    change_pools(world)
    world.until(lambda: has_followed(world), bool)
    undisturbed = ended(world, manager, state_of(world))
    writes = len(manager.proxy.writes) - before
    stories = {
        f"{moment}-{number}": partial(
            run_with_crash, context.make, number, moment, undisturbed.end
        )
        for number, moment in crashes(writes)
    }
    done = in_parallel(stories)
    worlds = [world, *(each.world for each in done.values())]
    return Runs(undisturbed, done, counts_of(context.plane, worlds))


def test_each_manager_died_at_its_write(runs: Runs) -> None:
    assert len(runs.alive) <= MOST_ALIVE, runs.alive


def test_the_end_is_the_same_as_in_an_undisturbed_run(runs: Runs) -> None:
    wrong = runs.other_ends
    assert not wrong, "\n\n".join(f"{name}\n{text}" for name, text in wrong.items())


def test_each_unit_changed_once_under_its_old_name(runs: Runs) -> None:
    for run in (runs.undisturbed, *runs.crashed.values()):
        units = [each for name, each in run.end.items() if name.startswith("gpuunits ")]
        changes = [(each["metadata"]["generation"], each["spec"]["image"]) for each in units]
        assert changes == [(2, "new:1")] * UNITS


def test_everything_was_created_and_deleted_exactly_as_often(runs: Runs) -> None:
    assert not runs.other_counts


def test_the_audit_finds_nothing(runs: Runs) -> None:
    assert not runs.breaches


def run_with_crash(make: MakeWorld, number: int, moment: str, end: State) -> Run:
    world = make(f"ro-{moment}-{number}")
    manager = stocked(world)
    manager.proxy.script = nth(number, crash_fault(manager, moment))
    change_pools(world)
    seen = world.until_equal(lambda: has_followed(world), lambda: state_of(world), end)
    return ended(world, manager, seen)


def stocked(world: World) -> RestartedRole:
    """Start a manager, create the pools, and return it once all stock is available."""
    manager = world.manager()
    names = configured(Namespaces, stock=world.installation.stock)
    for request in POOLS:
        order = pool_order(parse_create_pool({**request, **ENVELOPE}, names), names.stock)
        world.plane.request("POST", STOCK_POOLS.path(namespace=names.stock), new_pool(order))
    world.until(lambda: told(world, "available", "seeded"), [(2, 2), (2, 2)].__eq__)
    return manager


def change_pools(world: World) -> None:
    for pool in pools(world):
        name, namespace = pool["metadata"]["name"], world.installation.stock
        changed = {**pool, "spec": {**pool["spec"], "image": "new:1"}}
        path = STOCK_POOLS.path(namespace=namespace, name=name)
        world.plane.request("PUT", path, changed)


def has_followed(world: World) -> bool:
    are_told = told(world, "available", "stale", "observedGeneration") == [(2, 0, 2)] * 2
    return are_told and all(each["status"]["phase"] == "Ready" for each in pools(world))


def pools(world: World) -> list[dict[str, Any]]:
    return world.items(STOCK_POOLS.path(namespace=world.installation.stock))


def told(world: World, *members: str) -> list[tuple[int, ...]]:
    return [
        tuple(each.get("status", {}).get(member, 0) for member in members) for each in pools(world)
    ]
