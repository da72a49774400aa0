"""Predicates: the parts of an object that reconcilers read. Other changes enqueue nothing."""

from collections.abc import Iterator
from typing import Final

from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.phases import UnitPhase
from gpuruntime.models.kinds.pools import StockPool
from gpuruntime.models.kinds.reasons import ConditionType, PoolReason
from gpuruntime.models.kinds.storages import GPUStorage
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.conditions import condition_of
from gpuruntime.models.kubernetes.network import NetworkPolicy, Service
from gpuruntime.models.kubernetes.pods import Pod
from gpuruntime.models.kubernetes.workloads import Deployment
from gpuruntime.operations.storage_identity import uids_asked
from gpuruntime.reconcilers.children.drift import drifting_parts
from gpuruntime.reconcilers.functions.declaration_plan import staffing
from gpuruntime.reconcilers.storage.mount_plan import lacks_stock
from gpuruntime.reconcilers.unit.pod_failures import ENDED, failure_of
from gpuruntime.reconcilers.unit.status import is_current, is_rolled_out

# Index of active units by the specName of the stock that they wait for.
WAITING: Final = "waiting"


def by_wait(unit: GPUUnit) -> Iterator[str]:
    if lacks_stock(unit):
        yield unit.spec.specName


def asked(value: GPUUnit | StockPool | GPUStorage | None) -> object:
    """Return what callers ask of the object: all but its status, which we write."""
    if value is None:
        return None
    metadata = value.metadata
    return (
        metadata.uid,
        metadata.generation,
        metadata.annotations,
        metadata.labels,
        metadata.finalizers,
        metadata.deletionTimestamp is None,
    )


def is_refused(pool: StockPool) -> bool:
    """Return whether the pool is refused, as another pool of its specName has precedence."""
    ready = condition_of(pool.status.conditions, ConditionType.READY)
    return ready is not None and ready.reason == PoolReason.SPEC_CONFLICT


def has_begun(unit: GPUUnit | None) -> bool:
    """Return whether the unit has started, after which its source stock may be deleted."""
    return unit is not None and unit.status.timeline.createdAt is not None


def consumed(unit: GPUUnit | None) -> object:
    """Return which stock the unit uses, for which operation, and whether it has started."""
    if unit is None:
        return None
    source = (provenance.source_of(unit), provenance.source_uid_of(unit))
    return (source, provenance.operation_of(unit), has_begun(unit))


def offered(storage: GPUStorage | None) -> object:
    """Return what units that mount the storage, and storages that copy it, depend on."""
    if storage is None:
        return None
    ready = condition_of(storage.status.conditions, ConditionType.READY)
    words = (ready.status, ready.reason, ready.message) if ready else None
    is_going = storage.metadata.deletionTimestamp is not None
    return (storage.metadata.uid, words, storage.status.holder, is_going)


def mounted(unit: GPUUnit | None) -> object:
    """Return which storages the unit mounts, and whether it waits for them."""
    if unit is None:
        return None
    is_failed = unit.status.phase == UnitPhase.FAILED
    is_going = unit.metadata.deletionTimestamp is not None
    if not unit.spec.storageMounts:
        return None
    spec = unit.spec
    is_idle = spec.suspended or spec.is_function_template
    is_stopped = (is_idle, is_failed, lacks_stock(unit), is_going)
    return (unit.metadata.uid, spec.storageMounts, uids_asked(unit), is_stopped)


def declared(unit: GPUUnit | None) -> tuple[str, str] | None:
    """Return the unit's uid and the function that it declares, or None if it declares none."""
    if unit is None or unit.spec.serverless is None or not unit.spec.is_function_template:
        return None
    return (unit.metadata.uid, unit.spec.serverless.requestID)


def limited(unit: GPUUnit | None) -> object:
    """Return what a function's running workers receive of it: its name and its limits."""
    function = unit.spec.serverless if unit and unit.spec.is_function_template else None
    if function is None:
        return None
    return (function.requestID, function.timeoutSeconds, function.maxAttempts)


def staffed(unit: GPUUnit | None) -> object:
    """Return what the activator wrote about a function's workers; we write the other status."""
    if unit is None or not unit.spec.is_function_template:
        return None
    return staffing(unit.status.serverless)


def counted(stock: GPUUnit | None) -> object:
    """Return the pool of the stock, the state in which it counts, and what is quoted of it."""
    if stock is None:
        return None
    phase, lacks_node = provenance.present_phase(stock), provenance.lacks_node(stock)
    is_quoted = lacks_node or phase is UnitPhase.FAILED
    ready = condition_of(stock.status.conditions, ConditionType.READY)
    metadata = stock.metadata
    return (
        (metadata.labels.get(labels.POOL), metadata.annotations.get(labels.POOL_UID)),
        phase,
        lacks_node,
        ready.message if ready and is_quoted else "",
        provenance.is_claimed(stock),
        provenance.is_terminating(stock),
        metadata.generation,
    )


def is_news(
    old: Deployment | Service | NetworkPolicy | None,
    new: Deployment | Service | NetworkPolicy | None,
) -> bool:
    if old is None and new is not None and labels.APPLIED in new.metadata.annotations:
        return False
    if old is None or new is None:
        return old is not new
    return drifting_parts(old) != drifting_parts(new)


def readiness(deployment: Deployment | None) -> object:
    """Return whether the Deployment runs its current template, and why the cluster rejects it."""
    if deployment is None:
        return (False, True, "")
    status = deployment.status
    is_ready = is_current(deployment) and status.readyReplicas > 0
    return (is_ready, is_rolled_out(deployment), deployment.refusal)


def has_replicas(deployment: Deployment | None) -> bool:
    return deployment is not None and deployment.status.replicas > 0


def trouble(pod: Pod | None) -> object:
    """Return whether the Pod is ready, why not, and whether it is terminating or has ended.

    A ready unit repeats the message of its Pod, which only the embedded cluster writes.
    """
    if pod is None:
        return (False, None, False, False, "")
    is_terminating = pod.metadata.deletionTimestamp is not None
    has_ended = pod.status.phase in ENDED
    words = pod.status.message if pod.is_ready else ""
    return (pod.is_ready, failure_of((pod,)), is_terminating, has_ended, words)


def unit_name(child: Deployment | Service | NetworkPolicy | Pod | None) -> str:
    return child.metadata.labels.get(labels.UNIT, "") if child else ""
