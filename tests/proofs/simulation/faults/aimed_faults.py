"""Sequences of faults aimed at what the script does, because chance hardly ever produces them."""

from collections.abc import Callable, Iterable, Iterator
from itertools import product
from random import Random
from typing import Final

from gpuruntime.models.kinds import labels
from gpuruntime.operations.hashing import derived_name, operation_digest
from tests.proofs.simulation.faults.kinds import (
    APIS,
    FIRST_SECOND,
    LAST_SECOND,
    LEADER,
    MANAGERS,
    PROCESSES,
    STANDBY,
    FaultKind,
    PlannedFault,
    Target,
)
from tests.proofs.simulation.stories.script import SCARCE, Release, Script, Step

# The probability that a sequence is a part of the plan.
SHARE: Final = 0.5


def aimed_faults(seed: int, script: Script) -> Iterator[PlannedFault]:
    rng = Random(f"{seed} aimed")
    for events in SEQUENCES:
        if rng.random() < SHARE:
            yield from events(rng, script)


def _unit_create_lands_after_deletion(rng: Random, script: Script) -> Iterator[PlannedFault]:
    for unit in script.units:
        if unit.operation == "unit-hasty":
            yield from _at_each(
                APIS,
                unit.begins_at,
                FaultKind.LANDS_LATE,
                Target.CREATE,
                _create_of(unit.name),
                rng.uniform(25.0, 55.0),
            )


def _unit_create_is_slow(rng: Random, script: Script) -> Iterator[PlannedFault]:
    unit = rng.choice(script.units)
    aim, seconds = _create_of(unit.unit_name), rng.uniform(5.0, 25.0)
    yield from _at_each(APIS, unit.begins_at, FaultKind.SLOW_BEFORE, Target.CREATE, aim, seconds)


def _pool_shrinks_during_claims(rng: Random, script: Script) -> Iterator[PlannedFault]:
    for shrinking_pool in script.shrinking_pools:
        for number in range(2, 2 + 2 * shrinking_pool.replicas):
            aim = f"gpuunits/{shrinking_pool.name}-{number}"
            seconds = rng.uniform(2.0, 6.0)
            yield from _at_each(
                MANAGERS,
                shrinking_pool.begins_at,
                FaultKind.SLOW_BEFORE,
                Target.DELETE,
                aim,
                seconds,
            )
        for name in shrinking_pool.units[1:]:
            seconds = rng.uniform(8.0, 20.0)
            yield from _at_each(
                APIS,
                shrinking_pool.begins_at,
                FaultKind.SLOW_BEFORE,
                Target.CREATE,
                _create_of(name),
                seconds,
            )


def _stock_create_lands_after_its_use(rng: Random, script: Script) -> Iterator[PlannedFault]:
    for shrinking_pool in script.shrinking_pools:
        yield from _at_each(
            MANAGERS,
            shrinking_pool.begins_at,
            FaultKind.LANDS_LATE,
            Target.CREATE,
            _create_of(f"{shrinking_pool.name}-1"),
            rng.uniform(35.0, 55.0),
        )


def _ordinal_is_skipped(rng: Random, script: Script) -> Iterator[PlannedFault]:
    for seed in script.seeds:
        if seed.replicas > 1:
            ordinal = rng.randrange(1, seed.replicas)
            aim = _create_of(f"{derived_name(seed.operation)}-{ordinal}")
            kind = rng.choice((FaultKind.DROPPED, FaultKind.REFUSED_500, FaultKind.UNREACHABLE))
            yield from _at_each(MANAGERS, seed.begins_at, kind, Target.CREATE, aim)


def _claim_release_is_lost(_: Random, script: Script) -> Iterator[PlannedFault]:
    aim = f'"{labels.CLAIMED_BY}":null'
    for namesakes in script.namesakes:
        yield from _at_each(APIS, namesakes.begins_at, FaultKind.DROPPED, Target.PATCH, aim)


def _hold_release_lands_late(rng: Random, script: Script) -> Iterator[PlannedFault]:
    for storage in script.storages:
        seconds = rng.uniform(10.0, 55.0)
        yield from _at_each(
            MANAGERS,
            storage.begins_at,
            FaultKind.LANDS_LATE,
            Target.PATCH,
            '"holder":null',
            seconds,
        )


def _stale_standby_begins_to_lead(rng: Random, _: Script) -> Iterator[PlannedFault]:
    at = rng.uniform(FIRST_SECOND + 10.0, LAST_SECOND - 80.0)
    yield PlannedFault(
        at=at, process=STANDBY, kind=FaultKind.WATCHES_LATE, seconds=rng.uniform(40.0, 60.0)
    )
    end = rng.choice((FaultKind.STOP, FaultKind.KILL))
    yield PlannedFault(at=at + rng.uniform(5.0, 20.0), process=LEADER, kind=end, seconds=10.0)


def _events_are_lost(rng: Random, _: Script) -> Iterator[PlannedFault]:
    """Hide the events of three intervals from all watches: only the next list shows them."""
    for _number in range(3):
        at, seconds = rng.uniform(FIRST_SECOND + 5.0, LAST_SECOND - 30.0), rng.uniform(8.0, 25.0)
        yield PlannedFault(at=at, process=LEADER, kind=FaultKind.WATCHES_LATE, seconds=seconds)
        yield PlannedFault(at=at + seconds - 0.1, process=LEADER, kind=FaultKind.HISTORY_LOST)


def _watch_falls_silent_near_the_end(rng: Random, _: Script) -> Iterator[PlannedFault]:
    yield PlannedFault(
        at=rng.uniform(LAST_SECOND - 30.0, LAST_SECOND),
        process=rng.choice(PROCESSES),
        kind=FaultKind.WATCHES_SILENT,
    )


def _processes_list_again(rng: Random, _: Script) -> Iterator[PlannedFault]:
    """Let each process list again: it gets an old list, and a page of a later list expires."""
    for process in PROCESSES:
        at = rng.uniform(FIRST_SECOND + 10.0, LAST_SECOND - 20.0)
        yield PlannedFault(at=at, process=process, kind=FaultKind.OLD_LISTS)
        for number in range(2):
            again_at = at + rng.uniform(5.0, 10.0) + 10.0 * number
            yield PlannedFault(
                at=again_at,
                process=process,
                kind=FaultKind.PAGE_EXPIRED,
                target=Target.NEXT_PAGE,
            )
            yield PlannedFault(at=again_at, process=process, kind=FaultKind.WATCHES_GONE)


def _deployment_of_suspended_unit_is_late(_: Random, script: Script) -> Iterator[PlannedFault]:
    """Delay the new Deployment of a suspended unit, so that its storage is checked without one."""
    for storage in script.storages:
        if storage.is_suspended:
            # Earlier creates that name the volume: prepare Jobs, the file server, the first
            # Deployments.
            earlier = storage.is_prepared + storage.fails + storage.has_accessor
            skip = earlier + 1 + storage.is_replaced
            aim = f'"claimName":"{storage.name}"'
            for process in MANAGERS:
                yield PlannedFault(
                    at=storage.begins_at,
                    process=process,
                    kind=FaultKind.UNREACHABLE,
                    target=Target.CREATE,
                    skip=skip,
                    aim=aim,
                )


def _mount_of_suspended_unit_is_removed_late(_: Random, script: Script) -> Iterator[PlannedFault]:
    """Delay the patch of a suspended unit's Deployment: its storage is checked before it."""
    for storage in script.storages:
        if storage.release is Release.UNMOUNTED_WHILE_SUSPENDED:
            for process in MANAGERS:
                yield PlannedFault(
                    at=storage.begins_at,
                    process=process,
                    kind=FaultKind.UNREACHABLE,
                    target=Target.PATCH,
                    # The patches of this suspension, and of an earlier suspension and resume.
                    skip=1 + 2 * storage.is_suspended,
                    aim=f"deployments/unit-{storage.users[0]}",
                )


def _answer_to_unit_create_is_lost(rng: Random, script: Script) -> Iterator[PlannedFault]:
    unit = rng.choice(script.units)
    aim = _create_of(unit.unit_name)
    yield from _at_each(APIS, unit.begins_at, FaultKind.ANSWER_LOST, Target.CREATE, aim)


def _one_of_two_equal_requests_is_refused(rng: Random, script: Script) -> Iterator[PlannedFault]:
    """Refuse one of two equal requests while the other, with the same claim, is in flight."""
    for unit in script.units:
        if unit.is_doubled:
            aim, (slow, refused) = _create_of(unit.unit_name), rng.sample(APIS, 2)
            yield from _at_each(
                (slow,),
                unit.begins_at,
                FaultKind.SLOW_BEFORE,
                Target.CREATE,
                aim,
                rng.uniform(5.0, 25.0),
            )
            yield from _at_each((refused,), unit.begins_at, FaultKind.CONFLICT, Target.CREATE, aim)


def _answers_to_two_equal_requests_are_lost(rng: Random, script: Script) -> Iterator[PlannedFault]:
    """Lose the answers to the creates of two equal requests that use one claim."""
    doubled = [unit for unit in script.units if unit.is_doubled]
    if doubled:
        unit = rng.choice(doubled)
        aim = _create_of(unit.unit_name)
        yield from _at_each(APIS, unit.begins_at, FaultKind.ANSWER_LOST, Target.CREATE, aim)


def _replicas_see_different_stock(rng: Random, script: Script) -> Iterator[PlannedFault]:
    for contest in script.contests:
        yield PlannedFault(
            at=max(FIRST_SECOND, contest.begins_at - rng.uniform(3.0, 20.0)),
            process=rng.choice(APIS),
            kind=FaultKind.WATCHES_LATE,
            seconds=30.0,
        )


def _claim_lands_after_its_rival_started(rng: Random, script: Script) -> Iterator[PlannedFault]:
    """Delay a claim until the stock unit that both bodies want is gone; it then takes another."""
    for contest in script.contests:
        _, second = contest.names
        aim, seconds = f"/{second}", rng.uniform(15.0, 28.0)
        yield from _at_each(
            APIS, contest.begins_at, FaultKind.SLOW_BEFORE, Target.PATCH, aim, seconds
        )


def _stock_create_lands_after_its_pool(rng: Random, script: Script) -> Iterator[PlannedFault]:
    for pool in script.pools:
        if pool.is_deleted:
            yield from _at_each(
                MANAGERS,
                pool.begins_at,
                FaultKind.LANDS_LATE,
                Target.CREATE,
                _create_of(f"{pool.name}-1"),
                rng.uniform(35.0, 55.0),
            )


def _storage_create_lands_after_deletion(rng: Random, script: Script) -> Iterator[PlannedFault]:
    for storage in script.storage_changes:
        if not storage.is_recreated:
            yield from _at_each(
                APIS,
                storage.begins_at,
                FaultKind.LANDS_LATE,
                Target.CREATE,
                _create_of(storage.name),
                rng.uniform(48.0, 58.0),
            )


def _unit_created_again_is_deleted_late(rng: Random, script: Script) -> Iterator[PlannedFault]:
    for unit in script.units:
        if unit.operation == "unit-hasty":
            aim, seconds = f"gpuunits/{unit.name}", rng.uniform(15.0, 25.0)
            yield from _at_each(
                MANAGERS, unit.begins_at, FaultKind.SLOW_BEFORE, Target.DELETE, aim, seconds
            )


def _tombstone_cannot_be_read(_: Random, script: Script) -> Iterator[PlannedFault]:
    """Hide the tombstones of scarce units: a late replay may find neither tombstone nor stock."""
    for unit in script.units:
        if unit.spec_name == SCARCE and Step.LATE_REPLAY in unit.steps:
            for process, skip in product(APIS, range(1, 5)):
                yield PlannedFault(
                    at=unit.begins_at,
                    process=process,
                    kind=FaultKind.UNREACHABLE,
                    target=Target.READ,
                    skip=skip,
                    aim=f"operation-{operation_digest(unit.operation)}",
                )


def _leader_stops_while_a_create_may_land(rng: Random, script: Script) -> Iterator[PlannedFault]:
    for shrinking_pool in script.shrinking_pools:
        yield from _at_each(
            MANAGERS,
            shrinking_pool.begins_at,
            FaultKind.LANDS_LATE,
            Target.CREATE,
            _create_of(f"{shrinking_pool.name}-1"),
            rng.uniform(35.0, 55.0),
        )
        stops_at = shrinking_pool.begins_at + rng.uniform(3.0, 12.0)
        yield PlannedFault(at=stops_at, process=LEADER, kind=FaultKind.STOP, seconds=10.0)


def _edit_of_a_child_is_put_back_late(rng: Random, script: Script) -> Iterator[PlannedFault]:
    """Hit the first patch that puts an edit back, before or after the server carries it out."""
    kinds = (
        FaultKind.DROPPED,
        FaultKind.ANSWER_LOST,
        FaultKind.LANDS_LATE,
        FaultKind.CRASH_SENT,
    )
    for edited in script.edited:
        kind, seconds = rng.choice(kinds), rng.uniform(5.0, 40.0)
        aim = f"/unit-{edited.name}"
        yield from _at_each(MANAGERS, edited.begins_at, kind, Target.PATCH, aim, seconds)


SEQUENCES: Final[tuple[Callable[[Random, Script], Iterable[PlannedFault]], ...]] = (
    _unit_create_lands_after_deletion,
    _unit_create_is_slow,
    _pool_shrinks_during_claims,
    _stock_create_lands_after_its_use,
    _ordinal_is_skipped,
    _claim_release_is_lost,
    _hold_release_lands_late,
    _stale_standby_begins_to_lead,
    _events_are_lost,
    _watch_falls_silent_near_the_end,
    _processes_list_again,
    _deployment_of_suspended_unit_is_late,
    _mount_of_suspended_unit_is_removed_late,
    _answer_to_unit_create_is_lost,
    _one_of_two_equal_requests_is_refused,
    _replicas_see_different_stock,
    _stock_create_lands_after_its_pool,
    _storage_create_lands_after_deletion,
    _unit_created_again_is_deleted_late,
    _tombstone_cannot_be_read,
    _leader_stops_while_a_create_may_land,
    _claim_lands_after_its_rival_started,
    _answers_to_two_equal_requests_are_lost,
    _edit_of_a_child_is_put_back_late,
)


def _at_each(
    processes: Iterable[str],
    at: float,
    kind: FaultKind,
    target: Target,
    aim: str,
    seconds: float = 0.0,
) -> Iterator[PlannedFault]:
    """Plan the fault at all of these processes, because any of them may send the request."""
    for process in processes:
        yield PlannedFault(
            at=at, process=process, kind=kind, target=target, aim=aim, seconds=seconds
        )


def _create_of(name: str) -> str:
    """Return the text of a create that contains the object's name."""
    return f'"name":"{name}"'
