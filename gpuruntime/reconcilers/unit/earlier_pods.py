"""Pods under a unit's name: its own, or those that an earlier unit of the same name left.

Their labels are the same: a Service that selects the unit's Pods would select the earlier ones,
too.
"""

from collections.abc import Iterable

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.pods import Pod
from gpuruntime.reconcilers.unit.pod_failures import ENDED, unended


def own_pods(unit: GPUUnit, pods: Iterable[Pod], *, has_deployment: bool) -> tuple[Pod, ...]:
    return tuple(pod for pod in pods if _is_own(unit, pod, has_deployment=has_deployment))


def awaited_pods(unit: GPUUnit, pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Return the Pods that must end before a unit without a Deployment gets any child.

    A worker does not wait for another worker of its tenant, because no Service leads to workers.
    It replaces a worker that is lost with its node, and whose Pod may never end.
    """
    left = (pod for pod in unended(pods) if not _is_own(unit, pod, has_deployment=False))
    return tuple(pod for pod in left if not _is_fellow(unit, pod))


def waiting_message(unit: GPUUnit, awaited: tuple[Pod, ...], obstacle: str) -> str:
    """Return the message; `obstacle` names the owner of a Deployment that may keep the Pods."""
    names = ", ".join(sorted(pod.metadata.name for pod in awaited))
    text = f"waits until the Pod of an earlier unit {unit.metadata.name} has ended: {names}"
    return f"{text}; {obstacle}" if obstacle else text


def _is_own(unit: GPUUnit, pod: Pod, *, has_deployment: bool) -> bool:
    """Return whether the Pod belongs to this unit and not to an earlier one.

    A Deployment is created only after all earlier Pods have ended, so a Pod that runs beside it is
    the unit's own. Without a Deployment, the Pods have outlived one. Only timestamps tell whose it
    was, and those of two API servers may differ slightly.
    """
    is_older = _is_older(unit, pod)
    if has_deployment:
        return not (is_older and pod.status.phase in ENDED)
    return unit.status.timeline.createdAt is not None and not is_older


def _is_older(unit: GPUUnit, pod: Pod) -> bool:
    made, unit_made = pod.metadata.creationTimestamp, unit.metadata.creationTimestamp
    return made is not None and unit_made is not None and made < unit_made


def _is_fellow(unit: GPUUnit, pod: Pod) -> bool:
    tenants = (each.metadata.labels.get(labels.TENANT, "") for each in (unit, pod))
    return unit.spec.is_function_worker and len({*tenants}) == 1
