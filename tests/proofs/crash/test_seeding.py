"""If a manager dies at any write of seeding, its successor finishes the work.

One pool seeds three units once; the other keeps one unit available. In each world the manager dies
once, each time at another write. In the last world it dies repeatedly.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import pytest

from gpuruntime.models.kinds.pools import STOCK_POOLS
from gpuruntime.operations.objects import new_pool, pool_order
from gpuruntime.operations.options import Namespaces
from gpuruntime.operations.requests import parse_create_pool, parse_seed_stock
from tests.options import configured
from tests.proofs.crash.comparison import State, counts_of, state_of
from tests.proofs.crash.manager_runs import MOST_ALIVE, Run, Runs, crashes, ended
from tests.proofs.crash.unit_story import StoryContext
from tests.proofs.crash.world import MakeWorld, RestartedRole, World, crash_fault, in_parallel
from tests.proofs.real_cluster.proxy import Fault, Script, Write, nth

pytestmark = pytest.mark.cluster

ENVELOPE: Final = {"cpu": "1", "memory": "1Gi", "gpu": 1}
ONCE: Final = {"operationID": "once", "specName": "g1.1", "replicas": 3, **ENVELOPE}
KEPT: Final = {"operationID": "kept", "name": "kept", "specName": "g2.1", "replicas": 1}
UNITS: Final = 4
MANY: Final = 4

# Gives the manager's proxy the script that kills the manager.
Plan = Callable[[RestartedRole], Script]


def run_all(context: StoryContext) -> Runs:
    undisturbed = run_undisturbed(context.make("sd"))
    writes = len(undisturbed.manager.proxy.writes)
    stories = {
        name: partial(run_with_crash, context.make, f"sd-{name}", plan, undisturbed.end)
        for name, plan in plans(writes)
    }
    done = in_parallel(stories)
    worlds = [undisturbed.world, *(each.world for each in done.values())]
    return Runs(undisturbed, done, counts_of(context.plane, worlds))


def test_each_manager_died_at_its_write(runs: Runs) -> None:
    assert len(runs.alive) <= MOST_ALIVE, runs.alive
    assert runs.crashed["often"].manager.kills >= MANY


def test_the_end_is_the_same_as_in_an_undisturbed_run(runs: Runs) -> None:
    wrong = runs.other_ends
    assert not wrong, "\n\n".join(f"{name}\n{text}" for name, text in wrong.items())


def test_everything_was_created_and_deleted_exactly_as_often(runs: Runs) -> None:
    assert not runs.other_counts


def test_the_audit_finds_nothing(runs: Runs) -> None:
    assert not runs.breaches


def plans(writes: int) -> Iterator[tuple[str, Plan]]:
    for number, moment in crashes(writes):
        yield f"{moment}-{number}", partial(once, number, moment)
    yield "often", often


def once(number: int, moment: str, manager: RestartedRole) -> Script:
    return nth(number, crash_fault(manager, moment))


def often(manager: RestartedRole) -> Script:
    """Kill the manager after every second write, MANY times in all."""
    fault = crash_fault(manager, "after")

    def script(write: Write) -> Fault | None:
        return fault if write.number % 2 == 0 and manager.kills < MANY else None

    return script


def run_undisturbed(world: World) -> Run:
    manager = world.manager()
    order_stock(world)
    world.until(lambda: is_seeded(world), bool)
    return ended(world, manager, state_of(world))


def run_with_crash(make: MakeWorld, name: str, plan: Plan, end: State) -> Run:
    world = make(name)
    manager = world.manager()
    manager.proxy.script = plan(manager)
    order_stock(world)
    seen = world.until_equal(lambda: is_seeded(world), lambda: state_of(world), end)
    return ended(world, manager, seen)


def order_stock(world: World) -> None:
    """Create the two pools as the API would write them."""
    names = configured(Namespaces, stock=world.installation.stock)
    for request in (parse_seed_stock(ONCE), parse_create_pool({**KEPT, **ENVELOPE}, names)):
        body = new_pool(pool_order(request, names.stock))
        world.plane.request("POST", STOCK_POOLS.path(namespace=names.stock), body)


def is_seeded(world: World) -> bool:
    """Return whether all stock is available and recorded; the record takes longest."""
    pools = world.items(STOCK_POOLS.path(namespace=world.installation.stock))
    return (
        [_told(each, "available") for each in pools]
        == [_told(each, "seeded") for each in pools]
        == [each["spec"]["replicas"] for each in pools]
    )


def _told(pool: dict[str, Any], count: str) -> int:
    return int(pool.get("status", {}).get(count, -1))
