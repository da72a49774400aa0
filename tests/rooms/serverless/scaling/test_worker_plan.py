from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.models.kinds.functions import Serverless
from gpuruntime.models.kubernetes.names import is_dns_label
from gpuruntime.serverless.scaling.worker_plan import (
    LASTING_SECONDS,
    SILENT_SECONDS,
    Shortage,
    Worker,
    WorkerGroup,
    WorkerPhase,
    WorkerPlan,
    next_names,
    plan_workers,
    replacement_seconds,
    workers_asked_for,
    workers_for,
)

LIMITS = Serverless(requestID="echo", maxWorkers=4, timeoutSeconds=60)


def worker(number: int = 1, phase: WorkerPhase = WorkerPhase.READY, **members: Any) -> Worker:
    return Worker(name=f"echo-w-{number}", phase=phase, **members)


def ready(count: int) -> tuple[Worker, ...]:
    return tuple(worker(number) for number in range(1, count + 1))


def plan(
    *workers: Worker, needed: int | None = 0, free_stock: int = 100, **members: Any
) -> WorkerPlan:
    limits = attrs.evolve(LIMITS, **members.pop("limits", {}))
    return plan_workers(
        WorkerGroup(
            limits=limits, workers=workers, needed=needed, free_stock=free_stock, **members
        )
    )


def names(*numbers: int) -> tuple[str, ...]:
    return tuple(f"echo-w-{number}" for number in numbers)


def test_the_first_invocation_claims_the_first_worker() -> None:
    assert plan(needed=1).claims == 1


def test_a_worker_takes_as_many_invocations_as_its_concurrency() -> None:
    limits = attrs.evolve(LIMITS, concurrency=3)
    assert [workers_for(depth, limits) for depth in (0, 1, 3, 4, 7)] == [0, 1, 1, 2, 3]


def test_starting_workers_count_as_needed_ones() -> None:
    assert plan(worker(1, WorkerPhase.STARTING), needed=2).claims == 1


def test_there_are_never_more_than_max_workers() -> None:
    found = plan(*ready(3), needed=50)
    assert (found.wanted, found.claims) == (4, 1)


def test_a_draining_worker_still_has_its_seat() -> None:
    found = plan(*ready(3), worker(4, WorkerPhase.DRAINING), needed=4)
    assert (found.wanted, found.claims) == (4, 0)


def test_the_last_worker_drains_without_work() -> None:
    found = plan(*ready(1), needed=0)
    assert (found.wanted, found.drain) == (0, names(1))


def test_the_minimum_of_workers_exists_without_any_invocation() -> None:
    assert plan(limits={"minAvailableCount": 2}).claims == 2
    assert plan(*ready(3), limits={"minAvailableCount": 2}).drain == names(3)


def test_unready_workers_drain_first_and_then_idle_ones() -> None:
    busy = worker(3, busy=1)
    starting = worker(1, WorkerPhase.STARTING)
    assert plan(starting, worker(2), busy, needed=1).drain == names(1, 2)


def test_outdated_workers_drain_before_current_ones() -> None:
    assert plan(worker(1, is_current=False, busy=1), worker(2), needed=1).drain == names(1)


def test_workers_stay_as_they_are_while_the_work_is_unknown() -> None:
    found = plan(*ready(2), needed=None)
    assert (found.wanted, found.claims, found.drain) == (2, 0, ())
    assert plan(needed=None, limits={"minAvailableCount": 1}).claims == 1


@pytest.mark.parametrize("forbidden", [Shortage.SUSPENDED, Shortage.INVALID])
def test_a_forbidden_function_has_no_workers(forbidden: Shortage) -> None:
    found = plan(*ready(2), needed=9, forbidden=forbidden, limits={"minAvailableCount": 1})
    assert (found.wanted, found.claims, found.shortage) == (0, 0, forbidden)
    assert sorted(found.drain) == sorted(names(1, 2))


def test_no_more_is_claimed_than_there_is_stock_and_the_lack_is_reported() -> None:
    found = plan(needed=3, free_stock=1)
    assert (found.claims, found.shortage) == (1, Shortage.CAPACITY)
    assert plan(needed=3, free_stock=3).shortage is None


def test_a_seat_that_is_still_taken_is_not_a_lack_of_stock() -> None:
    assert plan(*ready(3), worker(4, WorkerPhase.GONE), needed=4, free_stock=0).shortage is None


def test_a_worker_whose_container_fails_keeps_its_seat_and_gets_no_successor() -> None:
    found = plan(worker(1, WorkerPhase.FAILED), needed=1)
    assert (found.claims, found.drain, found.shortage) == (0, (), Shortage.WORKER_FAILED)


def test_a_broken_template_gets_no_more_stock() -> None:
    failed = worker(1, WorkerPhase.FAILED)
    assert plan(failed, needed=4).claims == 0
    assert plan(failed, worker(2, WorkerPhase.STARTING), needed=4).claims == 0


def test_a_failed_worker_beside_ready_ones_does_not_block_the_others() -> None:
    assert plan(worker(1, WorkerPhase.FAILED), worker(2), needed=4).claims == 2


def test_failures_of_an_older_template_do_not_block_the_new_one() -> None:
    assert plan(worker(1, WorkerPhase.FAILED, is_current=False), needed=2).claims == 1


def adrift(number: int = 1, seconds: float = LASTING_SECONDS) -> Worker:
    return worker(number, WorkerPhase.ADRIFT, since_seconds=seconds)


def test_a_lost_worker_is_replaced_only_if_the_loss_lasts() -> None:
    brief = plan(adrift(seconds=LASTING_SECONDS - 1), needed=1)
    assert (brief.drain, brief.shortage) == ((), Shortage.WORKER_LOST)
    lasting = plan(adrift(), needed=1)
    assert (lasting.drain, lasting.replaced) == (names(1), "echo-w-1")


def test_lost_workers_are_replaced_one_by_one_longest_lost_first() -> None:
    assert plan(adrift(1, 130), adrift(2, 140), needed=2).replaced == "echo-w-2"


def test_the_next_lost_worker_waits_for_the_back_off() -> None:
    assert plan(adrift(), needed=1, replacement_in_seconds=5).drain == ()


def test_a_lost_worker_stays_while_there_is_no_stock_for_another() -> None:
    assert plan(adrift(), needed=1, free_stock=0).drain == ()


def withdrawn(number: int = 1, **members: Any) -> Worker:
    members = {"has_withdrawn": True, "since_seconds": LASTING_SECONDS, **members}
    return worker(number, WorkerPhase.ADRIFT, **members)


def test_a_worker_that_drained_without_an_order_is_replaced_after_a_while() -> None:
    assert plan(withdrawn(since_seconds=LASTING_SECONDS - 1), needed=1).drain == ()
    lasting = plan(withdrawn(), needed=1)
    assert (lasting.drain, lasting.replaced) == (names(1), "echo-w-1")


def test_a_withdrawn_worker_frees_its_seat_while_stock_is_awaited() -> None:
    """Its seat may be the one that the stock waits for."""
    assert plan(withdrawn(), needed=1, free_stock=0).drain == names(1)
    assert plan(adrift(1), withdrawn(2), needed=2, free_stock=0).drain == names(2)
    found = plan(withdrawn(), needed=2, free_stock=0)
    assert (found.drain, found.shortage) == (names(1), Shortage.CAPACITY)


def test_missing_workers_are_claimed_before_a_lost_one_is_replaced() -> None:
    found = plan(withdrawn(), needed=2)
    assert (found.claims, found.drain) == (1, ())


def test_a_withdrawn_worker_waits_for_the_back_off() -> None:
    assert plan(withdrawn(), needed=1, replacement_in_seconds=5).drain == ()


def test_replacements_back_off_from_ten_seconds_to_ten_minutes() -> None:
    delays = [replacement_seconds(count) for count in (1, 2, 3, 7, 8, 5_000)]
    assert delays == [10, 20, 40, 600, 600, 600]


def old(number: int = 1, phase: WorkerPhase = WorkerPhase.READY, **members: Any) -> Worker:
    return worker(number, phase, is_current=False, **members)


STARTING, FAILED, DRAINING = WorkerPhase.STARTING, WorkerPhase.FAILED, WorkerPhase.DRAINING


@attrs.frozen(kw_only=True, slots=True)
class Update:
    """The workers that an update finds, and what it does next."""

    workers: tuple[Worker, ...]
    needed: int | None = 1
    free_stock: int = 1
    most: int = 1
    recreating: bool = False
    claims: int = 0
    drain: tuple[str, ...] = ()
    shortage: Shortage | None = None


UPDATES = {
    "the successor is claimed first, one beyond the limit": Update(workers=(old(),), claims=1),
    "of several workers, one gets a successor": Update(
        workers=(old(1), old(2), old(3)), needed=3, most=3, free_stock=9, claims=1
    ),
    "the old worker stays while its successor starts": Update(
        workers=(old(), worker(2, STARTING))
    ),
    "the old worker drains when its successor is ready": Update(
        workers=(old(busy=1), worker(2)), drain=names(1)
    ),
    "a successor that fails keeps the old worker": Update(
        workers=(old(), worker(2, FAILED)), shortage=Shortage.WORKER_FAILED
    ),
    "a successor that no node accepts keeps the old worker": Update(
        workers=(old(), worker(2, WorkerPhase.ADRIFT)), shortage=Shortage.WORKER_LOST
    ),
    "without free stock the old worker stays": Update(
        workers=(old(),), free_stock=0, shortage=Shortage.CAPACITY
    ),
    "the next successor waits until the last old worker is gone": Update(
        workers=(old(1), old(2, DRAINING), worker(3)), needed=2, most=2
    ),
    "no successor has a seat while a surplus worker drains": Update(
        workers=(old(1), worker(2, DRAINING)), most=1
    ),
    "a missing worker is claimed before any is replaced": Update(
        workers=(old(),), needed=2, most=2, claims=1
    ),
    "a claimed worker that starts is a successor, too": Update(
        workers=(old(), worker(2, STARTING)), needed=2, most=2
    ),
    "less work drains old workers, not the starting successor": Update(
        workers=(old(1), old(2), worker(3, STARTING)), most=2, drain=names(2)
    ),
    "without work all workers drain": Update(
        workers=(old(1), worker(2, STARTING)), needed=0, drain=names(2, 1)
    ),
    "a failing old worker drains first, its envelope may be the last": Update(
        workers=(old(1, FAILED),), free_stock=0, drain=names(1), shortage=Shortage.WORKER_FAILED
    ),
    "a correction drains the successor that fails": Update(
        workers=(old(1), old(2, FAILED)), drain=names(2)
    ),
    "a starting old worker stays until its successor is there": Update(
        workers=(old(1, STARTING),), free_stock=0, shortage=Shortage.CAPACITY
    ),
    "nothing is replaced while the work is unknown": Update(
        workers=(old(1), old(2)), needed=None, most=4
    ),
    "Recreate drains the old worker first": Update(
        workers=(old(),), recreating=True, drain=names(1)
    ),
    "Recreate needs no free stock": Update(
        workers=(old(),), recreating=True, free_stock=0, drain=names(1)
    ),
    "Recreate waits for the drained worker's seat": Update(
        workers=(old(1, DRAINING),), recreating=True
    ),
    "Recreate waits for the successor before the next drain": Update(
        workers=(old(1), worker(2, STARTING)), needed=2, most=2, recreating=True
    ),
    "Recreate drains the next when the successor is ready": Update(
        workers=(old(1), worker(2)), needed=2, most=2, recreating=True, drain=names(1)
    ),
}


@pytest.mark.parametrize("words", UPDATES)
def test_a_changed_template_replaces_its_workers(words: str) -> None:
    update = UPDATES[words]
    found = plan(
        *update.workers,
        needed=update.needed,
        free_stock=update.free_stock,
        limits={"maxWorkers": update.most},
        recreating=update.recreating,
    )
    told = (found.claims, found.drain, found.shortage)
    assert told == (update.claims, update.drain, update.shortage)


@pytest.mark.parametrize(
    ("workers", "asked_for"),
    [
        (ready(3), 3),
        ((old(1), old(2)), 2),
        ((old(1), worker(2, STARTING)), 1),
        ((old(1), worker(2)), 1),
        ((worker(1), worker(2, DRAINING)), 1),
        ((), 0),
    ],
    ids=["current", "outdated", "a successor", "a ready successor", "a draining one", "none"],
)
def test_a_new_leader_does_not_count_a_successor_as_demand(
    workers: tuple[Worker, ...], asked_for: int
) -> None:
    assert workers_asked_for(workers) == asked_for


def draining(**members: Any) -> Worker:
    return worker(1, WorkerPhase.DRAINING, **members)


def test_a_worker_is_deleted_once_it_has_drained() -> None:
    assert plan(draining(busy=1, since_seconds=20)).delete == ()
    assert plan(draining(has_drained=True)).delete == names(1)


def test_a_silent_draining_worker_is_deleted_anyway() -> None:
    assert plan(draining(is_silent=True, since_seconds=SILENT_SECONDS - 1)).delete == ()
    assert plan(draining(is_silent=True, since_seconds=SILENT_SECONDS)).delete == names(1)


def test_a_drain_lasts_at_most_one_attempt() -> None:
    assert plan(draining(busy=1, since_seconds=89)).delete == ()
    assert plan(draining(busy=1, since_seconds=90)).delete == names(1)


def test_a_terminating_worker_is_not_deleted_again() -> None:
    assert plan(worker(1, WorkerPhase.GONE, has_drained=True)).delete == ()


def test_a_plan_that_waits_for_a_drain_is_repeated_soon() -> None:
    assert plan(draining()).look_again_seconds == 1
    assert plan(*ready(1), needed=1).look_again_seconds is None


def test_new_names_have_the_lowest_free_numbers() -> None:
    taken = {"echo-w-1", "echo-w-3"}
    assert next_names("echo", taken.__contains__, 3) == ("echo-w-2", "echo-w-4", "echo-w-5")


def test_names_of_long_templates_stay_valid_and_distinct() -> None:
    one, other = ("a" * 62 + end for end in "xy")
    [first], [second] = (next_names(name, lambda _: False, 1) for name in (one, other))
    assert first != second
    assert is_dns_label(first)
    assert first.endswith("-w-1")
    assert is_dns_label(next_names(one, lambda name: not name.endswith("-1000"), 1)[0])


phases = st.sampled_from(WorkerPhase)
some_workers = st.builds(
    lambda described: tuple(
        Worker(name=f"echo-w-{number}", **members) for number, members in enumerate(described, 1)
    ),
    st.lists(
        st.fixed_dictionaries(
            {
                "phase": phases,
                "is_current": st.booleans(),
                "has_drained": st.booleans(),
                "has_withdrawn": st.booleans(),
                "is_silent": st.booleans(),
                "busy": st.integers(0, 3),
                "since_seconds": st.floats(0, 1_000),
            }
        ),
        max_size=8,
    ),
)
some_limits = st.builds(
    lambda least, more: attrs.evolve(LIMITS, minAvailableCount=least, maxWorkers=least + more),
    st.integers(0, 4),
    st.integers(1, 4),
)


@given(
    seen=st.builds(
        WorkerGroup,
        limits=some_limits,
        workers=some_workers,
        needed=st.none() | st.integers(0, 20),
        free_stock=st.integers(0, 5),
        forbidden=st.none() | st.sampled_from([Shortage.SUSPENDED, Shortage.INVALID]),
        replacement_in_seconds=st.sampled_from([0.0, 5.0]),
        recreating=st.booleans(),
    )
)
def test_every_plan_stays_within_its_bounds(seen: WorkerGroup) -> None:
    found = plan_workers(seen)
    by_name = {each.name: each for each in seen.workers}
    assert found.claims <= seen.free_stock
    is_updating = not seen.recreating and not all(each.is_current for each in seen.workers)
    most = seen.limits.maxWorkers + is_updating
    assert found.claims + len(seen.workers) <= max(most, len(seen.workers))
    assert not any(by_name[name].is_leaving for name in found.drain)
    assert all(by_name[name].phase is WorkerPhase.DRAINING for name in found.delete)
    assert not (found.claims and found.drain)
    staying = sum(not each.is_leaving for each in seen.workers)
    assert staying - len(found.drain) >= min(found.wanted - 1, staying - 1)
    if is_updating and not found.replaced:
        serving = {each.name for each in seen.staying if each.phase is WorkerPhase.READY}
        assert len(serving - set(found.drain)) >= min(found.wanted, len(serving))


def after(found: WorkerPlan, workers: tuple[Worker, ...]) -> tuple[Worker, ...]:
    """Return the workers after the plan: drained, deleted, or ready."""
    made = next_names("echo", {each.name for each in workers}.__contains__, found.claims)
    left = [each for each in workers if each.name not in found.delete]
    return (
        *(_later(each, found) for each in left if each.phase is not WorkerPhase.GONE),
        *(Worker(name=name, phase=WorkerPhase.READY) for name in made),
    )


def _later(each: Worker, found: WorkerPlan) -> Worker:
    if each.name in found.drain:
        return attrs.evolve(each, phase=WorkerPhase.DRAINING, has_drained=True)
    if each.phase in (WorkerPhase.STARTING, WorkerPhase.FAILED):
        return attrs.evolve(each, phase=WorkerPhase.READY)
    return attrs.evolve(each, since_seconds=1_000)


@given(
    needed=st.integers(0, 20), limits=some_limits, workers=some_workers, recreating=st.booleans()
)
def test_a_plan_carried_out_repeatedly_reaches_its_end(
    needed: int, limits: Serverless, workers: tuple[Worker, ...], recreating: bool
) -> None:
    for _ in range(60):
        seen = WorkerGroup(
            limits=limits,
            workers=workers,
            needed=needed,
            free_stock=99,
            recreating=recreating,
        )
        workers = after(plan_workers(seen), workers)
    assert len(workers) == min(max(needed, limits.minAvailableCount), limits.maxWorkers)
    assert all(each.phase is WorkerPhase.READY and each.is_current for each in workers)
