"""Functions and their workers, found among all units."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.operations.lookup.caches import (
    FUNCTION,
    UNIT_INDEXES,
    Cache,
    UnitIndexes,
)
from gpuruntime.operations.lookup.repository import owner_of

SERVING: Final = "serving"


def _by_service(unit: GPUUnit) -> Iterator[str]:
    if unit.spec.serverless and unit.spec.is_function_worker:
        yield unit.spec.serverless.requestID


def functions_in(units: Cache[GPUUnit]) -> set[str]:
    """Return all functions that a unit declares."""
    return {
        unit.spec.serverless.requestID
        for unit in units.store.values()
        if unit.spec.serverless and unit.spec.is_function_template
    }


def strays_of(
    units: Cache[GPUUnit], function: str
) -> Iterator[tuple[GPUUnit, tuple[GPUUnit, ...]]]:
    """Yield units that own no function any more, each with its workers for the function.

    If the unit itself is gone, the cluster's garbage collection deletes its workers.
    """
    workers_of: defaultdict[tuple[Key, str], list[GPUUnit]] = defaultdict(list)
    for worker in units.store.by_index(SERVING, function):
        owner = worker.spec.serverless.workerOf if worker.spec.serverless else None
        if owner is not None:
            key = Key(worker.metadata.namespace, owner.name)
            workers_of[key, owner.uid].append(worker)
    for (key, uid), workers in workers_of.items():
        template = units.store.get(key)
        is_there = template is not None and template.metadata.uid == uid
        if template is not None and is_there and not _owns_a_function(template, units):
            yield template, tuple(workers)


def _owns_a_function(unit: GPUUnit, units: Cache[GPUUnit]) -> bool:
    if unit.spec.serverless is None or not unit.spec.is_function_template:
        return False
    owner = owner_of(units.store.by_index(FUNCTION, unit.spec.serverless.requestID))
    return owner is not None and owner.metadata.uid == unit.metadata.uid


INDEXES: Final[UnitIndexes] = {**UNIT_INDEXES, SERVING: _by_service}
