"""Rules of ownership: children have their owners, and nothing outlives its owner for long."""

from collections.abc import Container, Iterator
from typing import Final, TypeAlias

from gpuruntime.audit.breach import Finding, reference_to
from gpuruntime.audit.drift import HEAL_SECONDS
from gpuruntime.audit.index import SnapshotIndex
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.provenance import is_terminating
from gpuruntime.models.kinds.storages import GPU_STORAGES, GPUStorage
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit, child_key
from gpuruntime.models.kubernetes.network import NetworkPolicy, Service
from gpuruntime.models.kubernetes.pods import Pod
from gpuruntime.models.kubernetes.volumes import Job, VolumeClaim
from gpuruntime.models.kubernetes.workloads import Deployment

Child: TypeAlias = Deployment | Service | NetworkPolicy | VolumeClaim | Job

# The cluster's garbage collector needs only seconds, unless it is just being restarted.
COLLECT_SECONDS: Final = 120.0
# A caller whose deletion was interrupted sends it again within this time.
DELETE_SECONDS: Final = 180.0
# A Pod terminates within this time after its Deployment was deleted.
END_SECONDS: Final = 60.0
# The phases of a claim that has no volume yet.
_UNBOUND: Final = frozenset({"", "Pending"})


def one_owner(child: Child, index: SnapshotIndex) -> Iterator[Finding]:
    """A child of a unit is created with its one owner, and deleted with it.

    Terminating children are allowed, and for a while children whose unit is gone.
    """
    metadata = child.metadata
    if not _is_of(child, labels.UNIT_APP) or is_terminating(child):
        return
    yield from _ownership(child, GPU_UNITS.kind, index.unit_by_uid.keys())
    owner = metadata.controller_owner
    unit = index.unit_by_uid.get(owner.uid) if owner else None
    if unit is None:
        return
    is_named = metadata.key == child_key(unit)
    if not is_named:
        yield _of_child(
            child,
            f"belongs to {reference_to(unit)} without its name",
            f"delete it: the child of that unit is {child_key(unit)}",
        )
    elif metadata.labels.get(labels.UNIT) != unit.metadata.name:
        yield _of_child(
            child,
            f"belongs to {reference_to(unit)} without its label",
            "see that a manager leads, which labels it",
            allowed_seconds=HEAL_SECONDS,
        )


def one_storage(child: Child, index: SnapshotIndex) -> Iterator[Finding]:
    """A child of a storage has its one owner, like a unit's.

    The claim has the very name of its storage, because Pods find it by that name.
    """
    metadata = child.metadata
    if not _is_of(child, labels.STORAGE_APP) or is_terminating(child):
        return
    if isinstance(child, VolumeClaim):
        yield from _held_by_annotation(child, index)
        uid = child.storage_uid
    else:
        yield from _ownership(child, GPU_STORAGES.kind, index.storage_by_uid.keys())
        uid = metadata.controller_owner.uid if metadata.controller_owner else ""
    storage = index.storage_by_uid.get(uid)
    if storage is None:
        return
    is_named = not isinstance(child, VolumeClaim) or metadata.key == storage.metadata.key
    if not is_named or metadata.labels.get(labels.STORAGE) != storage.metadata.name:
        yield _of_child(
            child,
            f"belongs to {reference_to(storage)} without its name",
            "find who wrote it by hand; a storage finds its children by name and label",
        )


def pod_of_a_unit(pod: Pod, index: SnapshotIndex) -> Iterator[Finding]:
    """A Pod runs for a unit that exists.

    Terminating Pods are allowed, and for a while Pods whose unit is gone.
    """
    name = pod.metadata.labels.get(labels.UNIT, "")
    is_gone = index.unit_of(pod) is None
    if _is_of(pod, labels.UNIT_APP) and is_gone and not is_terminating(pod):
        yield _of_child(
            pod,
            f"runs for unit {name}, which is gone",
            "see that the cluster's garbage collector runs; or delete its Deployment",
            allowed_seconds=COLLECT_SECONDS,
        )


def isolated(child: Deployment | Pod, index: SnapshotIndex) -> Iterator[Finding]:
    """The NetworkPolicy of an active unit exists before its Deployment and for as long.

    Terminating children are allowed. So are the children of a deleted unit, even while the next
    unit of the name waits for their end, and for a while Pods without a Deployment.
    """
    unit = index.unit_of(child) if isinstance(child, Pod) else _owner_of(child, index)
    is_active = unit is not None and unit.metadata.uid not in index.stock_by_uid
    if unit is None or not is_active or is_terminating(unit) or is_terminating(child):
        return
    deployment = index.deployment_by_key.get(child_key(unit))
    if isinstance(child, Pod) and deployment and is_left_behind(deployment, index):
        return
    policy = index.policy_by_key.get(child_key(unit))
    owner = policy.metadata.controller_owner if policy else None
    if owner is None or owner.uid != unit.metadata.uid:
        yield _of_child(
            child,
            f"is not isolated: NetworkPolicy {child_key(unit)} of its unit does not exist",
            "see that a manager leads, which writes it; suspend the unit until then",
            allowed_seconds=END_SECONDS if isinstance(child, Pod) else 0.0,
        )


def deletion_ends(value: GPUUnit | GPUStorage, index: SnapshotIndex) -> Iterator[Finding]:
    """A tombstone is written before its object is deleted, which may take a while."""
    operation = index.buried.get(value.metadata.uid)
    if operation is not None and not is_terminating(value):
        yield Finding(
            objects=(reference_to(value),),
            message=f"{reference_to(value)} exists, and the tombstone of operation "
            f"{operation} says that it was deleted",
            remedy="delete it again",
            allowed_seconds=DELETE_SECONDS,
        )


def is_left_behind(child: Deployment, index: SnapshotIndex) -> bool:
    """Return whether the child belongs to a deleted unit; the next unit creates its own."""
    owner = child.metadata.controller_owner
    return owner is not None and owner.uid not in index.unit_by_uid


def _owner_of(child: Deployment, index: SnapshotIndex) -> GPUUnit | None:
    owner = child.metadata.controller_owner
    return index.unit_by_uid.get(owner.uid) if owner else None


def _ownership(child: Child, kind: str, uids: Container[str]) -> Iterator[Finding]:
    """Yield the faults in the owner of a child that must belong to an object of the kind."""
    controllers = [owner for owner in child.metadata.ownerReferences if owner.controller]
    owner = controllers[0] if controllers else None
    if len(controllers) > 1:
        yield _of_child(child, "has two controllers", f"remove the one that is not a {kind}")
    elif owner is None:
        remedy = "see that a manager leads, which owns it again; or delete it"
        yield _of_child(child, "has no owner", remedy, allowed_seconds=HEAL_SECONDS)
    elif owner.kind != kind:
        yield _of_child(
            child,
            f"belongs to {owner.kind} {owner.name}",
            f"remove its label {labels.MANAGED_BY}",
        )
    elif owner.uid not in uids:
        yield _of_child(
            child,
            f"belongs to {kind} {owner.name}, which is gone",
            "see that the cluster's garbage collector runs; or delete it",
            allowed_seconds=COLLECT_SECONDS,
        )


def _held_by_annotation(claim: VolumeClaim, index: SnapshotIndex) -> Iterator[Finding]:
    """A claim is not owned by its storage, since an owned claim may be deleted under a Pod.

    A claim without a volume is allowed, since it holds no data, and the moment in which it gets
    one.
    """
    uid = claim.storage_uid
    if not uid:
        name = claim.metadata.labels.get(labels.STORAGE, "")
        remedy = f"annotate it {labels.OWNER_UID}= the uid of its storage {name}, if it is its own"
        yield _of_child(claim, "belongs to no storage", remedy)
    elif uid not in index.storage_by_uid:
        yield _of_child(
            claim,
            f"belongs to a {GPU_STORAGES.kind} of uid {uid}, which is gone",
            "save what is on it, and delete it",
            allowed_seconds=COLLECT_SECONDS,
        )
    elif claim.status.phase not in _UNBOUND and any(
        owner.uid == uid for owner in claim.metadata.ownerReferences
    ):
        yield _of_child(
            claim,
            "is owned by its storage: a deletion in the foreground would take it from its Pods",
            "see that a manager leads, which removes the reference",
            allowed_seconds=COLLECT_SECONDS,
        )


def _is_of(child: Child | Pod, app: str) -> bool:
    given = child.metadata.labels
    is_managed = given.get(labels.MANAGED_BY) == labels.MANAGER
    return is_managed and given.get(labels.APP_NAME) == app


def _of_child(
    child: Child | Pod, fault: str, remedy: str, *, allowed_seconds: float = 0.0
) -> Finding:
    return Finding(
        objects=(reference_to(child),),
        message=f"{reference_to(child)} {fault}",
        remedy=remedy,
        allowed_seconds=allowed_seconds,
    )
