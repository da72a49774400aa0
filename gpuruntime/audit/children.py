"""Rules of what belongs to whom: children to their units, and nobody to what is gone."""

from collections.abc import Iterator
from typing import Final

from gpuruntime.audit.breach import Finding, reference_to
from gpuruntime.audit.facts import Facts
from gpuruntime.models import labels
from gpuruntime.models.metadata import Key
from gpuruntime.models.network import Service
from gpuruntime.models.pods import Pod
from gpuruntime.models.provenance import is_terminating
from gpuruntime.models.units import GPU_UNITS, GPUUnit, child_key
from gpuruntime.models.workloads import Deployment

# The cluster's garbage collector comes within seconds, unless it is restarted just then.
COLLECT_SECONDS: Final = 120.0
# A caller whose deletion was cut short sends it again.
DELETE_SECONDS: Final = 180.0


def one_owner(child: Deployment | Service, facts: Facts) -> Iterator[Finding]:
    """A child of ours is made with its one owner, and goes with it.

    Allows children that are ending, and for a while those whose unit is gone.
    """
    metadata = child.metadata
    if not _is_ours(child) or is_terminating(child):
        return
    controllers = [owner for owner in metadata.ownerReferences if owner.controller]
    owner = controllers[0] if controllers else None
    if len(controllers) > 1:
        yield _of_child(child, "has two controllers", "remove the one that is no GPUUnit")
    elif owner is None:
        yield _of_child(child, "has no owner", "delete it: its unit makes another one")
    elif owner.kind != GPU_UNITS.kind:
        yield _of_child(
            child,
            f"belongs to {owner.kind} {owner.name}",
            f"remove its label {labels.MANAGED_BY}",
        )
    elif owner.uid not in facts.unit_by_uid:
        yield _of_child(
            child,
            f"belongs to GPUUnit {owner.name}, which is gone",
            "see that the cluster's garbage collector runs; or delete it",
            allowed_seconds=COLLECT_SECONDS,
        )
    else:
        unit = facts.unit_by_uid[owner.uid]
        is_named = metadata.key == child_key(unit)
        if not is_named or metadata.labels.get(labels.UNIT) != unit.metadata.name:
            yield _of_child(
                child,
                f"belongs to {reference_to(unit)} without its name",
                f"delete it: the child of that unit is {child_key(unit)}",
            )


def pod_of_a_unit(pod: Pod, facts: Facts) -> Iterator[Finding]:
    """Allows Pods that are ending, and for a while those whose unit is gone."""
    name = pod.metadata.labels.get(labels.UNIT, "")
    is_gone = Key(pod.metadata.namespace, name) not in facts.unit_by_key
    if _is_ours(pod) and is_gone and not is_terminating(pod):
        yield _of_child(
            pod,
            f"runs for unit {name}, which is gone",
            "see that the cluster's garbage collector runs; or delete its Deployment",
            allowed_seconds=COLLECT_SECONDS,
        )


def deletion_ends(unit: GPUUnit, facts: Facts) -> Iterator[Finding]:
    """A tombstone is written first, so the unit may outlive it by a while; then it is ending."""
    operation = facts.buried.get(unit.metadata.uid)
    if operation is not None and not is_terminating(unit):
        yield Finding(
            objects=(reference_to(unit),),
            message=f"{reference_to(unit)} is there, and the tombstone of operation {operation} "
            "says that it was deleted",
            remedy="delete it again",
            allowed_seconds=DELETE_SECONDS,
        )


def _is_ours(child: Deployment | Service | Pod) -> bool:
    """A unit's, as its labels say."""
    given = child.metadata.labels
    is_managed = given.get(labels.MANAGED_BY) == labels.MANAGER
    return is_managed and given.get(labels.APP_NAME) == labels.UNIT_APP


def _of_child(
    child: Deployment | Service | Pod, fault: str, remedy: str, *, allowed_seconds: float = 0.0
) -> Finding:
    return Finding(
        objects=(reference_to(child),),
        message=f"{reference_to(child)} {fault}",
        remedy=remedy,
        allowed_seconds=allowed_seconds,
    )
