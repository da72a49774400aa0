"""A sound snapshot: a pool of four units, with one consumed, one claimed, and an active unit.

The active unit holds a storage, which was filled by a Job and has a file server.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import msgspec

from gpuruntime.audit.audit import suspicions
from gpuruntime.audit.snapshot import Snapshot
from gpuruntime.models.encoding import codec
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.pools import StockPool, StockPoolSpec, StockPoolStatus
from gpuruntime.models.kinds.storages import (
    FINALIZER,
    GPUStorage,
    GPUStorageSpec,
    GPUStorageStatus,
    Holder,
    Prepare,
    PrepareStatus,
)
from gpuruntime.models.kinds.tombstones import TOMBSTONE_APP, DeletedObject
from gpuruntime.models.kinds.units import (
    GPUUnit,
    GPUUnitSpec,
    GPUUnitStatus,
    StorageMount,
    Timeline,
)
from gpuruntime.models.kubernetes.cluster import ConfigMap
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import ObjectMeta, OwnerReference
from gpuruntime.models.kubernetes.network import NetworkPolicy, Service
from gpuruntime.models.kubernetes.pods import ClaimSource, Pod, PodSpec, PodVolume
from gpuruntime.models.kubernetes.timestamps import rfc3339_micro
from gpuruntime.models.kubernetes.volumes import Job, JobStatus, VolumeClaim, VolumeClaimStatus
from gpuruntime.models.kubernetes.workloads import Deployment

STOCK, INSTANCE, SYSTEM = "runtime-stock", "runtime-instance", "runtime-system"
MADE = datetime(2025, 1, 1, tzinfo=UTC)
LATER = MADE + timedelta(hours=1)
OURS = {labels.MANAGED_BY: labels.MANAGER, labels.APP_NAME: labels.UNIT_APP}
STORAGE = "data"
JOB = f"storage-prepare-{STORAGE}-1"
BOUND = VolumeClaimStatus(phase="Bound")


def ready(reason: str = "DeploymentReady", *, generation: int = 1) -> tuple[Condition, ...]:
    is_good = reason in ("DeploymentReady", "FunctionDeclared", "StockReady", "VolumeReady")
    return (
        Condition(
            type="Ready",
            status="True" if is_good else "False",
            reason=reason,
            observedGeneration=generation,
        ),
    )


def status(*, started: bool = False, **members: Any) -> GPUUnitStatus:
    timeline = Timeline(createdAt=LATER) if started else Timeline()
    known: dict[str, Any] = {
        "phase": "Ready",
        "readyReplicas": 1,
        "observedGeneration": 1,
        "conditions": ready(),
        "timeline": timeline,
    }
    return GPUUnitStatus(**{**known, **members})


def stock_unit(ordinal: int, **annotations: str) -> GPUUnit:
    name = f"p-{ordinal}"
    given = {labels.UNIT: name, labels.POOL: "p", labels.SPEC: "g1.1"}
    return GPUUnit(
        metadata=ObjectMeta(
            name=name,
            namespace=STOCK,
            uid=f"uid-{name}",
            generation=1,
            creationTimestamp=MADE,
            labels={**OURS, **given},
            annotations={labels.POOL_UID: "uid-p", **annotations},
        ),
        spec=GPUUnitSpec(specName="g1.1", cpu="1", memory="16Gi", gpu=1),
        status=status(started=True),
    )


def claim_marks(unit: str, operation: str) -> dict[str, str]:
    return {
        labels.CLAIMED_BY: f"{INSTANCE}/{unit}",
        labels.CLAIM_ATTEMPT: "a.1",
        labels.OPERATION_ID: operation,
        labels.REQUEST_HASH: "hash",
        labels.CLAIMED_AT: rfc3339_micro(LATER),
    }


def active_unit(name: str, ordinal: int, *, operation: str, started: bool) -> GPUUnit:
    source = f"p-{ordinal}"
    waiting = status(phase="Progressing", readyReplicas=0, conditions=ready("ClaimLost"))
    return GPUUnit(
        metadata=ObjectMeta(
            name=name,
            namespace=INSTANCE,
            uid=f"uid-{name}",
            generation=1,
            creationTimestamp=LATER,
            labels={**OURS, labels.UNIT: name, labels.SPEC: "g1.1"},
            annotations={
                labels.OPERATION_ID: operation,
                labels.REQUEST_HASH: "hash",
                labels.SOURCE_STOCK: f"{STOCK}/{source}",
                labels.SOURCE_STOCK_UID: f"uid-{source}",
            },
        ),
        spec=GPUUnitSpec(specName="g1.1", cpu="1000m", memory="16384Mi", gpu=1),
        status=status(started=True) if started else waiting,
    )


def pool(**members: Any) -> StockPool:
    known: dict[str, Any] = {
        "phase": "Ready",
        "available": 2,
        "claimed": 1,
        "seeded": 4,
        "consumed": 1,
        "observedGeneration": 1,
        "conditions": ready("StockReady"),
    }
    return StockPool(
        metadata=ObjectMeta(
            name="p",
            namespace=STOCK,
            uid="uid-p",
            generation=1,
            creationTimestamp=MADE,
            labels={labels.POOL: "p", labels.SPEC: "g1.1"},
            annotations={labels.OPERATION_ID: "seed-p"},
        ),
        spec=StockPoolSpec(specName="g1.1", memory="16Gi", gpu=1, replicas=4, refill="Never"),
        status=StockPoolStatus(**{**known, **members}),
    )


def child_metadata(unit: str, *owners: OwnerReference) -> ObjectMeta:
    return ObjectMeta(
        name=f"unit-{unit}",
        namespace=INSTANCE,
        uid=f"uid-child-of-{unit}",
        labels={**OURS, labels.UNIT: unit},
        ownerReferences=owners or (owner(unit),),
    )


def storage_metadata(name: str, *, uid: str = f"uid-{STORAGE}") -> ObjectMeta:
    """Return the metadata of a child of the storage."""
    owners = (OwnerReference(kind="GPUStorage", name=STORAGE, uid=uid, controller=True),)
    given = {labels.APP_NAME: labels.STORAGE_APP, labels.STORAGE: STORAGE}
    return ObjectMeta(
        name=name,
        namespace=INSTANCE,
        uid=f"uid-child-{name}",
        labels={**OURS, **given},
        ownerReferences=owners,
    )


def claim_metadata(name: str = STORAGE) -> ObjectMeta:
    marks = {labels.OWNER_UID: f"uid-{STORAGE}"}
    return attrs.evolve(storage_metadata(name), ownerReferences=(), annotations=marks)


def storage() -> GPUStorage:
    done = PrepareStatus(phase="Succeeded", jobName=JOB, observedDigest="1")
    return GPUStorage(
        metadata=ObjectMeta(
            name=STORAGE,
            namespace=INSTANCE,
            uid=f"uid-{STORAGE}",
            generation=1,
            finalizers=(FINALIZER,),
        ),
        spec=GPUStorageSpec(size="1Gi", prepare=Prepare(fromImage="filler:1", args=("fill",))),
        status=GPUStorageStatus(
            phase="Ready",
            claimName=STORAGE,
            capacity="1Gi",
            holder=Holder(name="demo", uid="uid-demo"),
            mountedBy=("demo",),
            prepare=done,
            observedGeneration=1,
            conditions=ready("VolumeReady"),
        ),
    )


def job(name: str = JOB, *, ended: str = "Complete", uid: str = f"uid-{STORAGE}") -> Job:
    conditions = (Condition(type=ended, status="True"),) if ended else ()
    return Job(metadata=storage_metadata(name, uid=uid), status=JobStatus(conditions=conditions))


def mounting(claim: str = STORAGE, *, node: str = "node-1") -> PodSpec:
    volume = PodVolume(persistentVolumeClaim=ClaimSource(claimName=claim))
    return PodSpec(nodeName=node, volumes=(PodVolume(), volume))


def unit_pod(unit: str, **members: Any) -> Pod:
    metadata = attrs.evolve(child_metadata(unit), name=f"unit-{unit}-1", ownerReferences=())
    marks = {**metadata.labels, **selector(unit)}
    return Pod(metadata=attrs.evolve(metadata, labels=marks), spec=mounting(**members))


def copying_pod(name: str) -> Pod:
    """Return the Pod of another storage that is filled from this one."""
    metadata = storage_metadata(f"storage-prepare-{name}-1")
    marks = {**metadata.labels, labels.STORAGE: name}
    return Pod(metadata=attrs.evolve(metadata, labels=marks), spec=mounting())


def filling_pod(job: str, **members: Any) -> Pod:
    """Return the Pod that fills the storage itself."""
    by = OwnerReference(kind="Job", name=job, uid=f"uid-child-{job}", controller=True)
    metadata = attrs.evolve(storage_metadata(f"{job}-1"), ownerReferences=(by,), **members)
    marks = {**metadata.labels, labels.PREPARE: STORAGE}
    return Pod(metadata=attrs.evolve(metadata, labels=marks), spec=mounting())


def server_pod(*, node: str = "node-1") -> Pod:
    metadata = storage_metadata(f"storage-accessor-{STORAGE}-1")
    return Pod(
        metadata=attrs.evolve(
            metadata,
            labels={**metadata.labels, labels.ACCESSOR: f"storage-accessor-{STORAGE}"},
        ),
        spec=mounting(node=node),
    )


def deployment(unit: str, *, claim: str = "") -> Deployment:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}] if claim else []
    selects = {"matchLabels": selector(unit)}
    spec = {"selector": selects, "template": {"spec": {"volumes": volumes}}}
    return Deployment(metadata=child_metadata(unit), spec=raw(spec))


def service(unit: str) -> Service:
    return Service(metadata=child_metadata(unit), spec=raw({"selector": selector(unit)}))


def policy(unit: str) -> NetworkPolicy:
    spec = {"podSelector": {"matchLabels": selector(unit)}, "policyTypes": ["Ingress", "Egress"]}
    noted = {labels.APPLIED: json.dumps({"inputs": "1:a", "body": {"spec": spec}})}
    metadata = attrs.evolve(child_metadata(unit), annotations=noted)
    return NetworkPolicy(metadata=metadata, spec=raw(spec))


def selector(unit: str) -> dict[str, str]:
    return {labels.UNIT: unit, labels.UNIT_UID: f"uid-{unit}"}


def raw(spec: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(spec))


def owner(unit: str, *, kind: str = "GPUUnit") -> OwnerReference:
    return OwnerReference(kind=kind, name=unit, uid=f"uid-{unit}", controller=True)


def tombstone(operation: str, *, kind: str = "GPUUnit", name: str, uid: str) -> ConfigMap:
    buried = DeletedObject(kind=kind, namespace=INSTANCE, name=name, uid=uid, requestHash="hash")
    return ConfigMap(
        metadata=ObjectMeta(
            name=f"operation-{operation}",
            namespace=SYSTEM,
            uid=f"uid-grave-{operation}",
            labels={labels.APP_NAME: TOMBSTONE_APP},
            annotations={labels.OPERATION_ID: operation},
        ),
        data={uid: codec.encode(codec.to_json(buried)).decode()},
    )


def sound() -> Snapshot:
    """Return the snapshot; `demo` has consumed p-1, and p-4 is claimed for `next`."""
    demo = active_unit("demo", 1, operation="one", started=True)
    mounts = (StorageMount(name=STORAGE, mountPath="/data"),)
    return Snapshot(
        stock=(stock_unit(2), stock_unit(3), stock_unit(4, **claim_marks("next", "two"))),
        units=(
            with_spec(demo, storageMounts=mounts),
            active_unit("next", 4, operation="two", started=False),
        ),
        pools=(pool(),),
        storages=(storage(),),
        deployments=(deployment("demo", claim=STORAGE),),
        services=(
            service("demo"),
            Service(metadata=storage_metadata(f"storage-accessor-{STORAGE}")),
        ),
        policies=(policy("demo"),),
        pods=(unit_pod("demo"), server_pod()),
        claims=(VolumeClaim(metadata=claim_metadata(), status=BOUND),),
        jobs=(job(),),
        tombstones=(tombstone("old", name="old", uid="uid-old"),),
    )


def change(snapshot: Snapshot, kind: str, name: str, edit: Callable[[Any], Any]) -> Snapshot:
    """Return the snapshot with one of its objects edited; the name must exist."""
    held = getattr(snapshot, kind)
    assert any(each.metadata.name == name for each in held)
    edited: Any = tuple(edit(each) if each.metadata.name == name else each for each in held)
    return attrs.evolve(snapshot, **{kind: edited})


def without(snapshot: Snapshot, kind: str, name: str) -> Snapshot:
    held = getattr(snapshot, kind)
    assert any(each.metadata.name == name for each in held)
    left: Any = tuple(each for each in held if each.metadata.name != name)
    return attrs.evolve(snapshot, **{kind: left})


def added(snapshot: Snapshot, kind: str, value: object) -> Snapshot:
    more: Any = (*getattr(snapshot, kind), value)
    return attrs.evolve(snapshot, **{kind: more})


def with_metadata(value: Any, **members: Any) -> Any:
    return attrs.evolve(value, metadata=attrs.evolve(value.metadata, **members))


def with_status(value: Any, **members: Any) -> Any:
    return attrs.evolve(value, status=attrs.evolve(value.status, **members))


def with_spec(value: Any, **members: Any) -> Any:
    return attrs.evolve(value, spec=attrs.evolve(value.spec, **members))


def with_labels(value: Any, **changes: str | None) -> Any:
    return with_metadata(value, labels=_edited(value.metadata.labels, changes))


def with_notes(value: Any, changes: dict[str, str | None]) -> Any:
    return with_metadata(value, annotations=_edited(value.metadata.annotations, changes))


def aged(snapshot: Snapshot, seconds: float) -> Snapshot:
    """Return the snapshot as if all suspicions had lasted for that long."""
    ages = dict.fromkeys((each.identity for each in suspicions(snapshot)), seconds)
    return attrs.evolve(snapshot, ages=ages)


def _edited(given: dict[str, str], changes: dict[str, str | None]) -> dict[str, str]:
    merged = {**given, **changes}
    return {name: value for name, value in merged.items() if value is not None}
