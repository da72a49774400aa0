"""Rules of mounted volumes: one unit at a time, filled before, and never deleted below."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

import attrs

from gpuruntime.audit.breach import Finding, reference_to
from gpuruntime.audit.index import SnapshotIndex
from gpuruntime.models.encoding import codec
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.phases import StepPhase, StoragePhase, storage_phase_of
from gpuruntime.models.kinds.provenance import is_terminating
from gpuruntime.models.kinds.storages import FINALIZER, GPUStorage
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.pods import Pod, PodSpec
from gpuruntime.models.kubernetes.workloads import Deployment

# A file server follows the unit's Pod to its node within this time.
FOLLOW_SECONDS: Final = 180.0


@attrs.frozen(slots=True)
class Mount:
    """A claim, and the Pods that use its volume."""

    claim: Key
    pods: tuple[Pod, ...]


@attrs.frozen(kw_only=True, slots=True)
class _Template:
    spec: PodSpec = PodSpec()


@attrs.frozen(kw_only=True, slots=True)
class _DeploymentSpec:
    template: _Template = _Template()


def mounts(index: SnapshotIndex) -> Iterator[Mount]:
    """Yield the mounts by units, one for each claim."""
    for claim, pods in index.mounting.items():
        yield Mount(claim, tuple(pods))


def uses(index: SnapshotIndex) -> Iterator[Mount]:
    """Yield the mounts by units, and by storages that are filled as a copy."""
    yield from mounts(index)
    for claim, pods in index.copying.items():
        yield Mount(claim, tuple(pods))


def mounted_once(mount: Mount, _: SnapshotIndex) -> Iterator[Finding]:
    """A volume goes to another unit only once the last Pod of the first is gone."""
    units = sorted({_unit_of(pod) for pod in mount.pods})
    if len(units) > 1:
        yield Finding(
            objects=tuple(map(reference_to, mount.pods)),
            message=f"claim {mount.claim} is mounted by {len(units)} units: {', '.join(units)}",
            remedy="suspend all of them but the one that the storage's status names as holder",
        )


def held_by_its_unit(mounting: Mount | Deployment, index: SnapshotIndex) -> Iterator[Finding]:
    """A unit that mounts a storage holds it before its Pods are created and until they are gone.

    A Deployment belongs to a unit by the uid of its owner, since the next unit may have its name.
    """
    if isinstance(mounting, Deployment):
        yield from _deployed_by_its_holder(mounting, index)
        return
    storage = index.storage_by_key.get(mounting.claim)
    if storage is None:
        return
    holder = storage.status.holder
    for pod in mounting.pods:
        uid = pod.metadata.labels.get(labels.UNIT_UID, holder.uid if holder else "")
        if holder is None or (holder.name, holder.uid) != (_unit_of(pod), uid):
            yield _not_holding(pod, storage)


def kept_below(mount: Mount, index: SnapshotIndex) -> Iterator[Finding]:
    """A storage that a Pod mounts exists, and cannot be deleted before the Pod.

    A terminating storage is allowed, because its finalizer keeps it and its claim.
    """
    storage, claim = index.storage_by_key.get(mount.claim), index.claim_by_key.get(mount.claim)
    fault = ""
    if storage is None:
        fault = "storage is gone"
    elif FINALIZER not in storage.metadata.finalizers:
        fault = f"storage does not bear the finalizer {FINALIZER}"
    elif claim is None or is_terminating(claim):
        fault = f"claim is {'gone' if claim is None else 'being deleted'}"
    if fault:
        names = ", ".join(pod.metadata.name for pod in mount.pods)
        yield Finding(
            objects=tuple(map(reference_to, mount.pods)),
            message=f"{mount.claim} is mounted by {names}, and its {fault}",
            remedy="save what is on the volume, and set its PersistentVolume to Retain",
        )


def filled_before(mount: Mount, index: SnapshotIndex) -> Iterator[Finding]:
    """A storage is not mounted or copied before its prepare has succeeded and it has a volume.

    A volume that fails under a Pod is allowed.
    """
    storage = index.storage_by_key.get(mount.claim)
    fault = _unready(storage) if storage else ""
    if storage is not None and fault:
        yield Finding(
            objects=(reference_to(storage), *map(reference_to, mount.pods)),
            message=f"{reference_to(storage)} {fault}, and is mounted",
            remedy="suspend the unit, or delete the Job, until the storage is Ready",
        )


def on_one_node(mount: Mount, index: SnapshotIndex) -> Iterator[Finding]:
    """A volume is on one node at a time. A file server may take a while to follow the unit."""
    nodes = {pod.spec.nodeName for pod in mount.pods if _runs(pod)}
    for server in index.serving[mount.claim]:
        node = server.spec.nodeName
        if nodes and _runs(server) and node not in nodes:
            yield Finding(
                objects=(reference_to(server), *map(reference_to, mount.pods)),
                message=f"{reference_to(server)} serves {mount.claim} on node {node}, "
                f"and its unit runs on {', '.join(sorted(nodes))}",
                remedy="delete the file server's Pod; see that a manager leads",
                allowed_seconds=FOLLOW_SECONDS,
            )


def may_mount(index: SnapshotIndex) -> Iterable[Mount | Deployment]:
    return chain(mounts(index), index.snapshot.deployments or ())


def _deployed_by_its_holder(deployment: Deployment, index: SnapshotIndex) -> Iterator[Finding]:
    metadata = deployment.metadata
    owner = metadata.controller_owner
    if labels.UNIT not in metadata.labels or owner is None or is_terminating(deployment):
        return
    for claim in _claims_of(deployment):
        storage = index.storage_by_key.get(Key(metadata.namespace, claim))
        holder = storage.status.holder if storage else None
        if storage is not None and (holder is None or holder.uid != owner.uid):
            yield _not_holding(deployment, storage)


def _claims_of(deployment: Deployment) -> Iterator[str]:
    spec = bytes(deployment.spec)
    if b"claimName" not in spec:
        return
    for volume in codec.decode(spec, _DeploymentSpec).template.spec.volumes:
        if volume.persistentVolumeClaim is not None:
            yield volume.persistentVolumeClaim.claimName


def _not_holding(mounting: Pod | Deployment, storage: GPUStorage) -> Finding:
    holder = storage.status.holder
    whose = f"unit {holder.name} ({holder.uid})" if holder else "nobody"
    return Finding(
        objects=(reference_to(mounting), reference_to(storage)),
        message=f"{reference_to(mounting)} mounts {reference_to(storage)}, "
        f"which is held by {whose}",
        remedy="suspend the unit whose Pod this is, before both write to one volume",
    )


def _unready(storage: GPUStorage) -> str:
    status = storage.status
    is_asked = storage.spec.prepare is not None or bool(status.prepare.phase)
    if is_asked and status.prepare.phase != StepPhase.SUCCEEDED:
        return f"is not prepared ({status.prepare.phase or 'not begun'})"
    is_ready = storage_phase_of(status.conditions) is StoragePhase.READY
    return "" if is_ready or status.capacity else "never had a volume"


def _unit_of(pod: Pod) -> str:
    return pod.metadata.labels.get(labels.UNIT, "")


def _runs(pod: Pod) -> bool:
    return bool(pod.spec.nodeName) and not is_terminating(pod)
