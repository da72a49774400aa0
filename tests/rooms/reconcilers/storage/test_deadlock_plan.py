"""Wait cycles of units, and the unit that ends its Pod so that all go on."""

import pytest

from gpuruntime.models.kinds.reasons import MountReason
from gpuruntime.models.kinds.storages import GPUStorage
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.reconcilers.storage.deadlock_plan import Holdings, wait_cycle_of, with_wait_cycle
from gpuruntime.reconcilers.storage.mount_plan import Blocked, Takes, mounts_of
from tests.rooms.reconcilers.storage.test_mount_plan import storage, unit

BLOCKED = Blocked(reason=MountReason.STORAGE_HELD, message="storage s is held by unit b")
Held = dict[str, str]
CHANGE: tuple[tuple[GPUUnit, ...], Held] = (
    (unit("a", "t", age=2), unit("b", "s", age=1)),
    {"s": "a", "t": "b"},
)


def holdings(units: tuple[GPUUnit, ...], held: Held) -> Holdings:
    storages = {name: storage(name, held_by=holder) for name, holder in held.items()}

    def of(name: str) -> list[GPUStorage]:
        return [storages[each] for each, holder in held.items() if holder == name]

    def asking(name: str) -> list[GPUUnit]:
        return [unit for unit in units if name in {each.name for each in unit.spec.storageMounts}]

    return Holdings(
        storage=storages.get,
        of=of,
        unit={each.metadata.name: each for each in units}.get,
        asking=asking,
    )


@pytest.mark.parametrize(
    ("units", "held", "makes_way"),
    [
        (*CHANGE, {"b"}),
        (
            (unit("a", "t", age=1), unit("b", "u", age=3), unit("c", "s", age=2)),
            {"s": "a", "t": "b", "u": "c"},
            {"a"},
        ),
        # Only the older unit holds a storage that it no longer mounts.
        ((unit("a", "t", age=9), unit("b", "s", "t")), {"s": "a", "t": "b"}, {"a"}),
        # Each unit mounts all that it holds, so no other unit is given any of it.
        ((unit("a", "s", "t"), unit("b", "t", "s")), {"s": "a", "t": "b"}, set()),
        # The spare storage is not one that the others wait for.
        ((unit("a", "s", "t"), unit("b", "t", "s")), {"s": "a", "t": "b", "u": "b"}, set()),
    ],
    ids=["two", "three", "one spare", "none spare", "nobody asks"],
)
def test_the_youngest_unit_that_holds_a_spare_storage_makes_way(
    units: tuple[GPUUnit, ...], held: Held, makes_way: set[str]
) -> None:
    found = holdings(units, held)
    blocked = {each.metadata.name: with_wait_cycle(each, BLOCKED, found) for each in units}
    assert {name for name, each in blocked.items() if each.makes_way} == makes_way
    for each in blocked.values():
        assert each.message == f"{BLOCKED.message}; that unit waits for this one in turn"


@pytest.mark.parametrize(
    ("units", "held"),
    [
        ((unit("a", "t"), unit("b", "t")), {"s": "a", "t": "b"}),
        ((unit("a", "t"), unit("b", "s", suspended=True)), {"s": "a", "t": "b"}),
        ((unit("a", "t"),), {"s": "a", "t": "b"}),
        ((unit("a", "t"), unit("b", "u"), unit("c", "t")), {"t": "b", "u": "c", "s": "a"}),
    ],
    ids=["runs", "sleeps", "gone", "others wait for each other"],
)
def test_a_unit_outside_every_cycle_runs_on(units: tuple[GPUUnit, ...], held: Held) -> None:
    assert with_wait_cycle(units[0], BLOCKED, holdings(units, held)) == BLOCKED


def test_the_first_in_line_does_not_block_a_unit_that_it_waits_for() -> None:
    older, holder = unit("older", "s", "t", age=9), unit("holder", "s", "t", age=1)
    found = holdings((older, holder), {"s": "holder", "t": ""})
    mounts = mounts_of(
        holder,
        found.storage,
        dict.fromkeys(("s", "t"), (older, holder)),
        is_stuck=lambda other: bool(wait_cycle_of(other, found)),
    )
    assert isinstance(mounts, Takes)
    assert [each.metadata.name for each in mounts.storages] == ["t"]


def test_a_unit_outside_every_cycle_comes_before_stuck_units() -> None:
    older, holder = unit("older", "s", "t", age=9), unit("holder", "s", "t", age=1)
    free = unit("free", "t", age=5)
    found = holdings((older, holder, free), {"s": "holder", "t": ""})
    for each, expected in ((free, Takes), (holder, Blocked)):
        mounts = mounts_of(
            each,
            found.storage,
            {"s": (older, holder), "t": (older, holder, free)},
            is_stuck=lambda other: bool(wait_cycle_of(other, found)),
        )
        assert isinstance(mounts, expected)
