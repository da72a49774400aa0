"""Whose a function is: of several units that declare one requestID, the oldest."""

from collections.abc import Iterable

from gpuruntime.models.units import GPUUnit


def owner_of(templates: Iterable[GPUUnit]) -> GPUUnit | None:
    """Until it is gone; the others are told that they declare nothing."""
    return min(templates, key=_seniority, default=None)


def _seniority(template: GPUUnit) -> tuple[float, str]:
    created = template.metadata.creationTimestamp
    return (created.timestamp() if created else 0.0, template.metadata.uid)
