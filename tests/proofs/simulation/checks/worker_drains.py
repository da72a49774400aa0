"""A check of drains: a function that keeps a minimum of workers keeps one that can serve."""

from collections.abc import Iterable

from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.functions import WorkerOf
from gpuruntime.models.kinds.units import GPUUnit
from tests.proofs.simulation.checks.unit_status import is_ready


def is_last_to_serve(worker: GPUUnit, units: Iterable[GPUUnit]) -> bool:
    """Return whether a ready worker would leave none that stays and has ever been ready.

    Only workers of a function that keeps a minimum count, and is neither suspended nor deleted.
    """
    all_units = tuple(units)
    owner = _owner_of(worker)
    template = next((each for each in all_units if owner and each.metadata.uid == owner.uid), None)
    if template is None or not is_ready(worker) or not _keeps_workers(template, all_units):
        return False
    mates = (each for each in all_units if _owner_of(each) == owner)
    return not any(_may_serve(mate) for mate in mates if mate.metadata.uid != worker.metadata.uid)


def is_draining(unit: GPUUnit) -> bool:
    return labels.DRAINING in unit.metadata.annotations


def _owner_of(unit: GPUUnit) -> WorkerOf | None:
    return unit.spec.serverless.workerOf if unit.spec.serverless else None


def _keeps_workers(template: GPUUnit, units: tuple[GPUUnit, ...]) -> bool:
    """Return whether the template owns its function, and workers must be available for it."""
    function = template.spec.serverless
    if function is None or not function.minAvailableCount or template.spec.suspended:
        return False
    rivals = (
        each
        for each in units
        if each.spec.is_function_template
        and each.spec.serverless
        and each.spec.serverless.requestID == function.requestID
    )
    is_owner = min(rivals, key=provenance.seniority).metadata.uid == template.metadata.uid
    return is_owner and not provenance.is_terminating(template)


def _may_serve(worker: GPUUnit) -> bool:
    is_leaving = provenance.is_terminating(worker) or is_draining(worker)
    return not is_leaving and worker.status.timeline.readyAt is not None
