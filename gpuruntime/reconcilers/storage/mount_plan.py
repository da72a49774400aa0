"""Whether a unit may mount what it names: decided from the storages and whoever else waits.

A storage has one holder, by uid, until its Pods are gone. Of those who wait, the oldest is next:
one order over all storages, so that units which wait for several never wait for each other. Who
could not start with it, for want of anything else than what others hold, is not in line.
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
    """All of them are ready, and this unit's."""


@attrs.frozen(slots=True)
class Takes:
    """These are ready, nobody's, and nobody is before this unit.

    By name, since two that take several at once in orders of their own could each get one.
    """

    storages: tuple[GPUStorage, ...]


@attrs.frozen(kw_only=True, slots=True)
class Blocked:
    reason: MountReason
    message: str
    # Others and it wait for each other, and go on once it has let go of what it asks for no more.
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
    """`rivals` are the units that name a storage, this one among them, by the storage's name.

    One that is stuck waits for units that wait for it, so it keeps nobody else waiting.
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
    """Who cannot start anyway waits for nothing, and keeps nobody waiting."""
    return min((unit for unit in units if waits(unit)), key=provenance.seniority, default=None)


def is_in_line(unit: GPUUnit, stored: Stored) -> bool:
    """For any storage: it has all that it mounts, but for what other units hold or are given."""
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


def asleep(unit: GPUUnit) -> GPUUnit:
    return attrs.evolve(unit, spec=attrs.evolve(unit.spec, suspended=True))


def with_held_mounts(unit: GPUUnit, stored: Stored) -> GPUUnit:
    """Without the mounts of what it does not hold."""

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
    """Without a remedy where the holder is about to let go of it."""
    why = f"is held by unit {holder.name} until its Pod is gone"
    if not any(each.metadata.uid == holder.uid for each in naming):
        return why
    return f"{why}: {GIVE_UP}"


def _held(name: str, why: str) -> Blocked:
    return Blocked(reason=MountReason.STORAGE_HELD, message=f"storage {name} {why}")
