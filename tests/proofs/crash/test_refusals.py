"""The end is the same if the first try of every write is refused, lost, delayed or cut off.

In each world the manager and the api meet one fault at the first try of every write. The second
try succeeds.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

import attrs
import pytest

from tests.proofs.crash.comparison import Counts, State, counts_of, difference
from tests.proofs.crash.unit_story import StoryContext, leftovers, normalized, run_story, seed
from tests.proofs.crash.world import World, in_parallel
from tests.proofs.real_cluster.proxy import (
    ANSWER_LOST,
    REQUEST_LOST,
    Fault,
    Proxy,
    Refusal,
    first_of_each,
)

pytestmark = pytest.mark.cluster

CONFLICT: Final = Refusal(409, "Conflict")
THROTTLED: Final = Refusal(429, "TooManyRequests", retry_after_seconds=1)
INTERNAL: Final = Refusal(500, "InternalError")
UNAVAILABLE: Final = Refusal(503, "ServiceUnavailable")
TIMEOUT: Final = Refusal(504, "Timeout")
GATEWAY: Final = Refusal(504)
# The statuses that a caller may receive: none of them is an internal error.
EXPECTED_STATUSES: Final = frozenset({200, 201, 202, 204, 404, 429, 503, 504})

FAULTS: Final[dict[str, Callable[[Proxy], Fault]]] = {
    "conflict": lambda _: Fault(refusal=CONFLICT),
    "throttled": lambda _: Fault(refusal=THROTTLED),
    "internal": lambda _: Fault(refusal=INTERNAL),
    "internal-done": lambda _: Fault(refusal=INTERNAL, is_done=True),
    "unavailable": lambda _: Fault(refusal=UNAVAILABLE),
    "timeout": lambda _: Fault(refusal=TIMEOUT),
    "gateway-done": lambda _: Fault(refusal=GATEWAY, is_done=True),
    "request-lost": lambda _: REQUEST_LOST,
    "answer-lost": lambda _: ANSWER_LOST,
    "watches-cut": lambda proxy: Fault(after=proxy.cut_watches),
    "slow": lambda _: Fault(held_seconds=0.5),
}


@attrs.frozen
class Run:
    world: World
    steps: dict[str, State]
    breaches: list[str]


@attrs.frozen
class Runs:
    by_fault: dict[str, Run]
    counts: dict[str, Counts]


def run_all(context: StoryContext) -> Runs:
    done = in_parallel({name: partial(run_with_fault, context, name) for name in FAULTS})
    return Runs(done, counts_of(context.plane, [each.world for each in done.values()]))


@pytest.mark.parametrize("fault", FAULTS)
def test_each_step_ends_as_in_an_undisturbed_run(
    runs: Runs, context: StoryContext, fault: str
) -> None:
    steps = runs.by_fault[fault].steps
    assert not difference(context.undisturbed.ends, steps)


@pytest.mark.parametrize("fault", FAULTS)
def test_everything_was_created_and_deleted_exactly_as_often(
    runs: Runs, context: StoryContext, fault: str
) -> None:
    counts = normalized(runs.counts[runs.by_fault[fault].world.name])
    assert counts == context.undisturbed.counts


@pytest.mark.parametrize("fault", FAULTS)
def test_callers_receive_only_expected_statuses(runs: Runs, fault: str) -> None:
    assert {*runs.by_fault[fault].world.answers} <= EXPECTED_STATUSES


@pytest.mark.parametrize("fault", FAULTS)
def test_the_audit_finds_nothing(runs: Runs, fault: str) -> None:
    assert not runs.by_fault[fault].breaches


def run_with_fault(context: StoryContext, fault: str) -> Run:
    undisturbed = context.undisturbed
    world = context.make(f"rf-{fault}")
    manager, api = world.manager(), world.api()
    for role in (manager, api):
        role.proxy.script = first_of_each(FAULTS[fault](role.proxy))
    seed(world, api, replicas=1)
    steps = run_story(world, api, 0, undisturbed.ends)
    if steps == undisturbed.ends:
        world.until(lambda: leftovers(world), lambda left: not left)
    breaches = world.breaches()
    world.close()
    return Run(world, steps, breaches)
