"""Wait cycles between units that wait for each other's storages, and the unit that ends one.

A storage that its holder still mounts is given to no other unit. But a unit that runs on as before
may hold a storage that its spec no longer mounts. In a wait cycle, the youngest such unit ends its
Pod first.
"""

from collections.abc import Callable, Iterable

import attrs

from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.storages import GPUStorage, Holder
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.reconcilers.storage.mount_plan import Blocked, is_in_line, next_in_line, waits


@attrs.frozen(kw_only=True, slots=True)
class Holdings:
    """Look-ups by name: a storage, a unit's storages, a unit, and a storage's units."""

    storage: Callable[[str], GPUStorage | None]
    of: Callable[[str], Iterable[GPUStorage]]
    unit: Callable[[str], GPUUnit | None]
    asking: Callable[[str], Iterable[GPUUnit]]


def with_wait_cycle(unit: GPUUnit, blocked: Blocked, holdings: Holdings) -> Blocked:
    """Return what blocks the unit; if it is in a wait cycle, say so and whether it makes way."""
    circle = wait_cycle_of(unit, holdings)
    if not circle:
        return blocked
    message = f"{blocked.message}; that unit waits for this one in turn"
    is_way = makes_way(unit, circle, holdings)
    return attrs.evolve(blocked, message=message, makes_way=is_way)


def wait_cycle_of(unit: GPUUnit, holdings: Holdings) -> tuple[GPUUnit, ...]:
    """Return the wait cycle that contains the unit, or nothing."""
    reached = _reached(unit, holdings)
    if unit.metadata.uid not in reached:
        return ()
    members = (each for each in reached.values() if unit.metadata.uid in _reached(each, holdings))
    return tuple(members)


def makes_way(unit: GPUUnit, circle: tuple[GPUUnit, ...], holdings: Holdings) -> bool:
    asked = {mount.name for each in circle for mount in each.spec.storageMounts}
    spare = [each for each in circle if _spares(each, holdings) & asked]
    return bool(spare) and max(spare, key=provenance.seniority).metadata.uid == unit.metadata.uid


def _reached(unit: GPUUnit, holdings: Holdings) -> dict[str, GPUUnit]:
    """Return, by uid, all units that the unit waits for, directly or through others."""
    found: dict[str, GPUUnit] = {}
    ahead = [unit]
    while ahead:
        for each in _before(ahead.pop(), holdings):
            if each.metadata.uid not in found:
                found[each.metadata.uid] = each
                ahead.append(each)
    return found


def _before(unit: GPUUnit, holdings: Holdings) -> list[GPUUnit]:
    """Return the units this unit waits for: current holders, else the next in line.

    A unit that cannot wait itself is left out.
    """
    found = []
    for mount in unit.spec.storageMounts:
        storage = holdings.storage(mount.name)
        if storage is None:
            continue
        holder = storage.status.holder
        other = _unit_of(holder, holdings) if holder else _next(mount.name, holdings)
        if other is not None and other.metadata.uid != unit.metadata.uid and waits(other):
            found.append(other)
    return found


def _next(storage: str, holdings: Holdings) -> GPUUnit | None:
    asking = holdings.asking(storage)
    return next_in_line(each for each in asking if is_in_line(each, holdings.storage))


def _unit_of(holder: Holder, holdings: Holdings) -> GPUUnit | None:
    unit = holdings.unit(holder.name)
    return unit if unit is not None and unit.metadata.uid == holder.uid else None


def _spares(unit: GPUUnit, holdings: Holdings) -> set[str]:
    """Return the storages that the unit holds but no longer mounts."""
    asked = {mount.name for mount in unit.spec.storageMounts}
    held = (
        each.metadata.name
        for each in holdings.of(unit.metadata.name)
        if each.status.holder is not None and each.status.holder.uid == unit.metadata.uid
    )
    return set(held) - asked
