"""A few seeds of the simulation; `nox -s simulate` runs many."""

import pytest

from tests.simulate.check import check
from tests.simulate.mutations import MUTATIONS, Mutation
from tests.simulate.plan import Kind, Planned, plan_of
from tests.simulate.planting import planted, source_of
from tests.simulate.run import simulate
from tests.simulate.shrink import shrunk

# Short ones, in which processes die and caches lag.
SEEDS = (1, 16, 17)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_disturbed_run_keeps_every_promise_and_ends_like_an_undisturbed_one(seed: int) -> None:
    assert check(seed, plan_of(seed)).faults == ()


def test_a_seed_gives_the_same_run_to_the_last_event() -> None:
    first, second = (simulate(1, plan_of(1)) for _ in range(2))
    assert (first.events, first.digest) == (second.events, second.digest)


def test_a_plan_is_shrunk_to_the_faults_that_matter_together() -> None:
    plan = [Planned(at=float(number), process="api-0", kind=Kind.KILL) for number in range(20)]
    needed = {plan[3], plan[17]}
    assert shrunk(plan, lambda some: needed <= set(some)) == [plan[3], plan[17]]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.name)
def test_a_mutation_can_be_planted(mutation: Mutation) -> None:
    source = source_of(mutation).read_text(encoding="utf-8")
    compile(planted(mutation, source), mutation.module, "exec")
