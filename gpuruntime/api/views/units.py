"""Views of units, made from their objects."""

import attrs

from gpuruntime.models.encoding.members import shared
from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.phases import phase_of
from gpuruntime.models.kinds.reasons import ConditionType
from gpuruntime.models.kinds.units import GPUUnit, Timeline
from gpuruntime.models.kubernetes.conditions import Condition, condition_of
from gpuruntime.models.views.units import AccessView, Lifecycle, SourceStock, UnitView

_NO_CONDITION = Condition(type=ConditionType.READY)


def unit_view(unit: GPUUnit, lifecycle: Lifecycle) -> UnitView:
    metadata, status = unit.metadata, unit.status
    ready = condition_of(status.conditions, ConditionType.READY) or _NO_CONDITION
    return UnitView(
        name=metadata.name,
        namespace=metadata.namespace,
        lifecycle=lifecycle,
        tenant=metadata.labels.get(labels.TENANT, ""),
        **{**shared(unit.spec, UnitView), "access": _access_of(unit)},
        phase=phase_of(status.conditions),
        reason=ready.reason,
        message=ready.message,
        conditions=status.conditions,
        readyReplicas=status.readyReplicas,
        generation=metadata.generation,
        observedGeneration=status.observedGeneration,
        nodeName=status.nodeName,
        serviceName=status.serviceName,
        accessURL=status.accessURL,
        operationID=provenance.operation_of(unit),
        sourceStock=_source_of(unit),
        timeline=_timeline_of(unit),
        createdAt=metadata.creationTimestamp,
    )


def _access_of(unit: GPUUnit) -> AccessView:
    told = unit.status.access
    return AccessView(**shared(unit.spec.access, AccessView), slug=told.slug, urls=told.urls)


def _source_of(unit: GPUUnit) -> SourceStock | None:
    key = provenance.source_of(unit)
    if key is None:
        return None
    return SourceStock(name=key.name, namespace=key.namespace, uid=provenance.source_uid_of(unit))


def _timeline_of(unit: GPUUnit) -> Timeline:
    """Return the timeline; the API's own moments stand in until the manager has written them."""
    timeline = unit.status.timeline
    return attrs.evolve(
        timeline,
        acceptedAt=timeline.acceptedAt or provenance.accepted_at(unit),
        claimedAt=timeline.claimedAt or provenance.claimed_at(unit),
    )
