"""Pure decision whether a unit may mount its storages, by the storages and the waiting units.

A storage has one holder, by uid, until that unit's Pods are gone. Of the waiting units, the oldest
is next. This order is the same for all storages, so units that wait for several never wait for
each other. A unit is in line only if it lacks nothing but storages that other units hold.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from operator import attrgetter
from typing import Final, TypeAlias

import attrs

from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.phases import StoragePhase, UnitPhase, phase_of, storage_phase_of
from gpuruntime.models.kinds.reasons import ConditionType, MountReason, UnitReason
from gpuruntime.models.kinds.storages import GPUStorage, Holder
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.conditions import condition_of
from gpuruntime.operations.storage_identity import mistaken

GIVE_UP: Final = "delete that unit, or take the storage out of its storageMounts"


@attrs.frozen(slots=True)
class Mountable:
    """All storages are ready, and this unit holds them."""


@attrs.frozen(slots=True)
class Takes:
    """The unit may take these storages: they are ready and free, and it is the first in line.

    They are sorted by name: two units that take several in different orders could get one each.
    """

    storages: tuple[GPUStorage, ...]


@attrs.frozen(kw_only=True, slots=True)
class Blocked:
    reason: MountReason
    message: str
    # The unit is in a wait cycle, which ends when this unit gives back what it no longer mounts.
    makes_way: bool = False


Mounts: TypeAlias = Mountable | Takes | Blocked
Stored: TypeAlias = Callable[[str], GPUStorage | None]


def mounts_of(
    unit: GPUUnit,
    stored: Stored,
    rivals: Mapping[str, Collection[GPUUnit]],
    *,
    is_stuck: Callable[[GPUUnit], bool] = lambda _: False,
) -> Mounts:
    """Decide whether the unit may mount its storages.

    `rivals` lists, by storage name, the units that mount it, this one included. A unit that is
    stuck waits for units that wait for it, so it keeps no other unit waiting.
    """
    free, is_ready = [], is_in_line(unit, stored)
    for mount in unit.spec.storageMounts:
        storage = stored(mount.name)
        blocked = _unready(unit, mount.name, storage)
        if blocked is not None or storage is None:
            return blocked or _missing(mount.name)
        holder = storage.status.holder
        if holder is not None and holder.uid != unit.metadata.uid:
            return _held(mount.name, _why(holder, rivals.get(mount.name, ())))
        if holder is None and is_ready:
            line = [each for each in rivals.get(mount.name, ()) if is_in_line(each, stored)]
            first = _first(unit, line, is_stuck)
            if first is not None and first.metadata.uid != unit.metadata.uid:
                why = f"goes to unit {first.metadata.name}, which is older: {GIVE_UP}"
                return _held(mount.name, why)
            free.append(storage)
    return Takes(tuple(sorted(free, key=attrgetter("metadata.name")))) if free else Mountable()


def next_in_line(units: Iterable[GPUUnit]) -> GPUUnit | None:
    """Return the oldest unit that waits; one that cannot start keeps no other waiting."""
    return min((unit for unit in units if waits(unit)), key=provenance.seniority, default=None)


def is_in_line(unit: GPUUnit, stored: Stored) -> bool:
    """Return whether all storages of the unit are ready, though other units may hold them."""
    mounts = unit.spec.storageMounts
    return not any(_unready(unit, each.name, stored(each.name)) for each in mounts)


def _first(
    unit: GPUUnit, rivals: Collection[GPUUnit], is_stuck: Callable[[GPUUnit], bool]
) -> GPUUnit | None:
    first = next_in_line(rivals)
    if first is None or first.metadata.uid == unit.metadata.uid or not is_stuck(first):
        return first
    return next_in_line(
        each for each in rivals if each.metadata.uid == unit.metadata.uid or not is_stuck(each)
    )


def waits(unit: GPUUnit) -> bool:
    is_failed = phase_of(unit.status.conditions) is UnitPhase.FAILED
    is_idle = unit.spec.suspended or unit.spec.is_function_template
    is_stopped = is_idle or is_failed or lacks_stock(unit)
    return not (provenance.is_terminating(unit) or is_stopped)


def lacks_stock(unit: GPUUnit) -> bool:
    ready = condition_of(unit.status.conditions, ConditionType.READY)
    return ready is not None and ready.reason == UnitReason.CLAIM_LOST


def as_suspended(unit: GPUUnit) -> GPUUnit:
    return attrs.evolve(unit, spec=attrs.evolve(unit.spec, suspended=True))


def with_held_mounts(unit: GPUUnit, stored: Stored) -> GPUUnit:
    """Return the unit without the mounts of storages that it does not hold."""

    def is_held(name: str) -> bool:
        storage = stored(name)
        return storage is not None and _is_held_by(unit, storage)

    mounts = tuple(each for each in unit.spec.storageMounts if is_held(each.name))
    return attrs.evolve(unit, spec=attrs.evolve(unit.spec, storageMounts=mounts))


def _unready(unit: GPUUnit, name: str, storage: GPUStorage | None) -> Blocked | None:
    if storage is None:
        return _missing(name)
    if not _is_held_by(unit, storage) and (fault := mistaken(unit, storage)):
        return Blocked(
            reason=MountReason.STORAGE_MISSING,
            message=f"storage {name} {fault}: set storageMounts anew, or take it out of them",
        )
    if provenance.is_terminating(storage):
        return Blocked(
            reason=MountReason.STORAGE_MISSING,
            message=f"storage {name} is being deleted: take it out of storageMounts, "
            "or create it again once it is gone",
        )
    phase = storage_phase_of(storage.status.conditions)
    if phase is StoragePhase.READY:
        return None
    ready = condition_of(storage.status.conditions, ConditionType.READY)
    words = ready.message if ready else "it has just been made"
    is_failed = phase is StoragePhase.FAILED
    return Blocked(
        reason=MountReason.STORAGE_FAILED if is_failed else MountReason.STORAGE_NOT_READY,
        message=f"storage {name} {'failed' if is_failed else 'is not ready'}: {words}",
    )


def _missing(name: str) -> Blocked:
    return Blocked(
        reason=MountReason.STORAGE_MISSING,
        message=f"storage {name} does not exist: create it, or take it out of storageMounts",
    )


def _is_held_by(unit: GPUUnit, storage: GPUStorage) -> bool:
    holder = storage.status.holder
    return holder is not None and holder.uid == unit.metadata.uid


def _why(holder: Holder, naming: Iterable[GPUUnit]) -> str:
    """Say why; leave the remedy out if the holder is about to give the storage back."""
    why = f"is held by unit {holder.name} until its Pod is gone"
    if not any(each.metadata.uid == holder.uid for each in naming):
        return why
    return f"{why}: {GIVE_UP}"


def _held(name: str, why: str) -> Blocked:
    return Blocked(reason=MountReason.STORAGE_HELD, message=f"storage {name} {why}")
