"""The part of a unit's status that is about its current spec."""

from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.units import GPUUnit


def is_current(unit: GPUUnit) -> bool:
    return unit.status.observedGeneration == unit.metadata.generation


def is_ready(unit: GPUUnit | None) -> bool:
    return unit is not None and provenance.is_ready(unit) and is_current(unit)


def reason_of(unit: GPUUnit | None) -> str:
    """Return the reason of the Ready condition, or "" if the status is of an earlier spec."""
    if unit is None or not is_current(unit):
        return ""
    return next((each.reason for each in unit.status.conditions if each.type == "Ready"), "")
