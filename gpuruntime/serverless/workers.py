"""Functions and their workers, as they are found among all units."""

from collections.abc import Iterator
from typing import Final

from gpuruntime.inventory.stores import UNIT_INDEXES, Cache, UnitIndexes
from gpuruntime.models.units import GPUUnit

# By the uid of the template that they were made from, and by the function that they serve.
WORKER_OF: Final = "worker-of"
SERVING: Final = "serving"


def _by_template(unit: GPUUnit) -> Iterator[str]:
    if unit.spec.serverless and unit.spec.serverless.workerOf:
        yield unit.spec.serverless.workerOf.uid


def _by_service(unit: GPUUnit) -> Iterator[str]:
    if unit.spec.serverless and unit.spec.is_function_worker:
        yield unit.spec.serverless.requestID


def functions_in(units: Cache[GPUUnit]) -> set[str]:
    """All that some unit declares."""
    return {
        unit.spec.serverless.requestID
        for unit in units.store.values()
        if unit.spec.serverless and unit.spec.is_function_template
    }


INDEXES: Final[UnitIndexes] = {**UNIT_INDEXES, WORKER_OF: _by_template, SERVING: _by_service}
