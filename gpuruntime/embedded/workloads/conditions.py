"""Conditions as the controllers of workloads keep them: a changed reason counts as an update."""

from collections.abc import Iterable
from datetime import datetime

import attrs

from gpuruntime.embedded.kinds.workload_objects import WorkloadCondition

Conditions = tuple[WorkloadCondition, ...]


def find(conditions: Iterable[WorkloadCondition], type_: str) -> WorkloadCondition | None:
    return next((each for each in conditions if each.type == type_), None)


def updated(conditions: Conditions, condition: WorkloadCondition, *, now: datetime) -> Conditions:
    """The condition goes to the end, unless status and reason are what they were."""
    before = find(conditions, condition.type)
    if before and (before.status, before.reason) == (condition.status, condition.reason):
        return conditions
    keeps = before is not None and before.status == condition.status
    moved_at = before.lastTransitionTime if before and keeps else now
    stamped = attrs.evolve(condition, lastUpdateTime=now, lastTransitionTime=moved_at)
    return (*(each for each in conditions if each is not before), stamped)


def without(conditions: Conditions, type_: str) -> Conditions:
    return tuple(each for each in conditions if each.type != type_)
