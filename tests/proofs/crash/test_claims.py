"""A caller that repeats a request gets one unit, and uses one stock unit, despite any fault.

There are two replicas of the api. A fault or a crash hits the first or the second write of a claim
(the mark on the stock, and the unit) at the replica that was asked. The caller repeats the request
at the same replica or at the other one.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Final

import attrs
import pytest

from gpuruntime.models.kinds.pools import STOCK_POOLS
from gpuruntime.models.kinds.units import GPU_UNITS
from tests.proofs.crash.comparison import Counts, counts_of
from tests.proofs.crash.unit_story import Document, StoryContext, order, seed
from tests.proofs.crash.world import (
    LATE_SECONDS,
    MakeWorld,
    RestartedRole,
    World,
    crash_fault,
    in_parallel,
)
from tests.proofs.real_cluster.proxy import (
    ANSWER_LOST,
    REQUEST_LOST,
    Fault,
    Proxy,
    Refusal,
    nothing,
    nth,
)

pytestmark = pytest.mark.cluster

WRITES: Final = (1, 2)
DARK_SECONDS: Final = 1.5
GATEWAY: Final = Refusal(504)
EXPECTED_STATUSES: Final = frozenset({200, 201, 202, 429, 503, 504})

FAULTS: Final[dict[str, Callable[[RestartedRole], Fault]]] = {
    "answer lost": lambda _: ANSWER_LOST,
    "request lost": lambda _: REQUEST_LOST,
    "lands late": lambda _: Fault(lands_after_seconds=LATE_SECONDS),
    "gateway timeout, not done": lambda _: Fault(refusal=GATEWAY),
    "gateway timeout, done": lambda _: Fault(refusal=GATEWAY, is_done=True),
    "proxy unreachable afterwards": lambda api: _going_dark(api.proxy),
}
KILLS: Final[dict[str, Callable[[RestartedRole], Fault]]] = {
    moment: partial(crash_fault, moment=moment) for moment in ("before", "after", "late")
}

# The faults or crashes, and the replica that is asked again.
RUNS: Final = {
    "faults-same": (FAULTS, "same"),
    "faults-other": (FAULTS, "other"),
    "kills-same": (KILLS, "same"),
    "kills-other": (KILLS, "other"),
}


@attrs.frozen
class Run:
    world: World
    # The names of the requested units, one per operation.
    names: tuple[str, ...]
    untouched: tuple[str, ...]
    units: list[Document]
    pool: Document
    breaches: list[str]


@attrs.frozen
class Runs:
    by_name: dict[str, Run]
    counts: dict[str, Counts]


def run_all(context: StoryContext) -> Runs:
    stories = {
        name: partial(run_claims, context.make, f"cl-{name}", faults, where)
        for name, (faults, where) in RUNS.items()
    }
    done = in_parallel(stories)
    return Runs(done, counts_of(context.plane, [each.world for each in done.values()]))


@pytest.mark.parametrize("name", RUNS)
def test_every_write_was_hit_by_its_fault(runs: Runs, name: str) -> None:
    assert not runs.by_name[name].untouched


@pytest.mark.parametrize("name", RUNS)
def test_each_operation_has_one_ready_unit(runs: Runs, name: str) -> None:
    run = runs.by_name[name]
    assert sorted(unit["metadata"]["name"] for unit in run.units) == sorted(run.names)
    assert {unit["status"]["phase"] for unit in run.units} == {"Ready"}


@pytest.mark.parametrize("name", RUNS)
def test_each_operation_used_one_stock_unit(runs: Runs, name: str) -> None:
    run = runs.by_name[name]
    assert run.pool["status"]["consumed"] == len(run.names)
    counts = runs.counts[run.world.name]
    made = {key[2]: times for key, times in counts.items() if key[:2] == ("create", "gpuunits")}
    gone = {key[2]: times for key, times in counts.items() if key[:2] == ("delete", "gpuunits")}
    assert {made[each] for each in run.names} == {1}
    assert len(gone) == len(run.names)
    assert {*gone.values()} == {1}


@pytest.mark.parametrize("name", RUNS)
def test_callers_receive_only_expected_statuses(runs: Runs, name: str) -> None:
    statuses = Counter(runs.by_name[name].world.answers)
    assert {*statuses} <= EXPECTED_STATUSES, statuses


@pytest.mark.parametrize("name", RUNS)
def test_the_audit_finds_nothing(runs: Runs, name: str) -> None:
    assert not runs.by_name[name].breaches


def run_claims(
    make: MakeWorld, name: str, faults: dict[str, Callable[[RestartedRole], Fault]], where: str
) -> Run:
    world = make(name)
    world.manager()
    asked, other = world.api(), world.api()
    cases = list(product(WRITES, faults))
    seed(world, other, replicas=len(cases) + 2)
    names, untouched = [], []
    for case, (write, fault) in enumerate(cases):
        world.wait_until_serving(asked)
        asked.proxy.script = nth(write, faults[fault](asked))
        before = len(asked.proxy.writes)
        unit = f"unit-{case}"
        then = asked if where == "same" else other
        answer = world.retry_until_definite(asked, "POST", "/gpu-units", order(unit), then=then)
        assert answer.status in {200, 201}, answer
        if len(asked.proxy.writes) - before < write:
            untouched.append(f"{write} {fault}")
        asked.proxy.script = nothing
        names.append(answer.data["name"])
    pool = world.until(lambda: pool_of(world), lambda pool: is_settled(pool, len(cases)))
    units = world.items(GPU_UNITS.path(namespace=world.installation.instance))
    breaches = world.breaches()
    world.close()
    return Run(world, tuple(names), tuple(untouched), units, pool, breaches)


def is_settled(pool: Document, used: int) -> bool:
    """Return whether the pool's status is final. An unused claim is freed after its grace."""
    status = pool["status"]
    is_free = status["available"] == pool["spec"]["replicas"] - used
    return is_free and not status["claimed"] and status["consumed"] == used


def pool_of(world: World) -> Document:
    [pool] = world.items(STOCK_POOLS.path(namespace=world.installation.stock))
    return pool


def _going_dark(role_proxy: Proxy) -> Fault:
    return Fault(after=lambda: role_proxy.go_dark(DARK_SECONDS), is_answer_lost=True)
