"""A few seeds of the simulation; `nox -s simulate` runs many."""

import asyncio
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from gpuruntime.kube.transport import Request
from tests.proofs.simulation.checks.verdict import check
from tests.proofs.simulation.faults.active_faults import ActiveFaults
from tests.proofs.simulation.faults.kinds import FaultKind, PlannedFault, Target
from tests.proofs.simulation.faults.plan import plan_of
from tests.proofs.simulation.mutations.catalogue import MUTATIONS
from tests.proofs.simulation.mutations.mutation import Mutation, planted, source_of
from tests.proofs.simulation.run import FATAL_LINES, simulate
from tests.proofs.simulation.shrink import shrunk
from tests.proofs.simulation.virtual_time import run_virtually

ROOT = Path(__file__).parents[3]
# Short runs with crashes and lagging caches; the second one has a function.
SEEDS = (1, 7, 17)
TELL_DIGEST = """
from tests.proofs.simulation.faults.plan import plan_of
from tests.proofs.simulation.run import simulate
print(simulate(7, plan_of(7)).digest)
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_disturbed_run_keeps_every_promise_and_ends_like_an_undisturbed_one(seed: int) -> None:
    assert check(seed, plan_of(seed)).faults == ()


@pytest.mark.parametrize("seed", SEEDS[:2])
def test_a_seed_gives_the_same_run_to_the_last_event(seed: int) -> None:
    first, second = (simulate(seed, plan_of(seed)) for _ in range(2))
    assert (first.events, first.digest) == (second.events, second.digest)


def test_tasks_are_cancelled_in_an_order_that_is_the_same_in_every_run() -> None:
    async def wait(number: int, cancelled: list[int]) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.append(number)

    async def cancel_many() -> list[int]:
        cancelled: list[int] = []
        with suppress(TimeoutError):
            async with asyncio.timeout(1), asyncio.TaskGroup() as group:
                for number in range(100):
                    group.create_task(wait(number, cancelled))
        return cancelled

    orders = []
    for size in (1, 2000):
        fillers = [bytearray(length) for length in range(size)]
        orders.append(run_virtually(cancel_many()))
        fillers.clear()
    assert orders[0] == orders[1]


def test_a_run_does_not_depend_on_the_hash_seed_of_its_process() -> None:
    """Run a seed with two hash seeds, because the order of a set of strings depends on them."""
    digests = [
        subprocess.run(
            [sys.executable, "-c", TELL_DIGEST],
            check=True,
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[3],
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    ]
    assert digests[0] == digests[1] != ""


def test_a_plan_is_shrunk_to_the_faults_that_matter_together() -> None:
    plan = [
        PlannedFault(at=float(number), process="api-0", kind=FaultKind.KILL)
        for number in range(20)
    ]
    needed = {plan[3], plan[17]}
    assert shrunk(plan, lambda some: needed <= set(some)) == [plan[3], plan[17]]


def test_a_fault_waits_for_the_request_that_it_is_aimed_at() -> None:
    active_faults = ActiveFaults()
    fault = PlannedFault(
        at=0.0, process="api-0", kind=FaultKind.DROPPED, target=Target.CREATE, aim='"name":"one"'
    )
    active_faults.armed.append(fault)
    other, meant = (
        Request(method="POST", path="/units", body=f'{{"name":"{name}"}}'.encode())
        for name in ("another", "one")
    )
    assert [active_faults.hit(each) for each in (other, meant, meant)] == [None, fault, None]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.name)
def test_a_mutation_can_be_planted(mutation: Mutation) -> None:
    source = source_of(mutation).read_text(encoding="utf-8")
    compile(planted(mutation, source), mutation.module, "exec")


def test_the_tests_that_mutations_name_exist() -> None:
    named = {each.test for each in MUTATIONS if each.test}
    assert len(named) > 20
    assert [each for each in sorted(named) if not is_there(each)] == []


def is_there(test: str) -> bool:
    """Return whether the file exists and defines the test, if one is named behind `::`."""
    path, _, name = test.partition("::")
    file = ROOT / path
    return file.is_file() and f"def {name.partition('[')[0]}" in file.read_text()


def test_mutations_have_different_names() -> None:
    assert len({each.name for each in MUTATIONS}) == len(MUTATIONS)


@pytest.mark.parametrize("event", sorted(FATAL_LINES))
def test_a_fatal_log_line_is_one_that_the_product_writes(event: str) -> None:
    calls = re.compile(rf'log\.\w+\(\s*"{re.escape(event)}"')
    sources = (ROOT / "gpuruntime").rglob("*.py")
    assert any(calls.search(path.read_text()) for path in sources)
