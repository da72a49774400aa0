"""Whose a function is: of several units that declare one requestID, the oldest."""

from collections.abc import Iterable

from gpuruntime.models.kinds.provenance import seniority
from gpuruntime.models.kinds.units import GPUUnit


def owner_of(templates: Iterable[GPUUnit]) -> GPUUnit | None:
    """Until it is gone; the others are told that they declare nothing."""
    return min(templates, key=seniority, default=None)
