"""Rules of functions: a template runs nothing itself, and has only the workers it may have."""

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import attrs

from gpuruntime.audit.breach import Finding, reference_to
from gpuruntime.audit.children import COLLECT_SECONDS
from gpuruntime.audit.index import SnapshotIndex
from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.envelopes import envelope_of
from gpuruntime.models.kinds.functions import Serverless, Update
from gpuruntime.models.kinds.phases import UnitPhase, phase_of
from gpuruntime.models.kinds.reasons import ConditionType, UnitReason
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.conditions import condition_of
from gpuruntime.models.kubernetes.network import NetworkPolicy, Service
from gpuruntime.models.kubernetes.pods import Pod
from gpuruntime.models.kubernetes.workloads import Deployment
from gpuruntime.strict import validation

# A child or a Pod of a unit, or a stock unit that is claimed for it.
Held: TypeAlias = Deployment | Service | NetworkPolicy | Pod | GPUUnit

# A unit may have run before it declared a function, and another leader may have to take over.
STOP_SECONDS: Final = 180.0
# Added to the longest attempt, for its answer, the deletion, and a change of leader.
DRAIN_SLACK_SECONDS: Final = 60.0
# A claim with an unknown outcome is retried, and so is the claim of a leader that is gone.
CLAIM_SECONDS: Final = 180.0


def runs_nothing(held: Held, index: SnapshotIndex) -> Iterator[Finding]:
    """A template has no children, no Pod and no stock, because its workers have them.

    Terminating objects are allowed, and any object of a template whose spec is invalid. For a
    while, so is everything that the unit had before it declared a function.
    """
    template = _template_with(held, index)
    if template is None or provenance.is_terminating(template) or provenance.is_terminating(held):
        return
    if validation.unit_problems(template) or _waits_for_pods(held, template, index):
        return
    yield Finding(
        objects=(reference_to(template), reference_to(held)),
        message=f"{reference_to(template)} is the template of a function, and has "
        f"{reference_to(held)}",
        remedy="see that a manager leads; else delete what the template has",
        allowed_seconds=STOP_SECONDS,
    )


def one_owner_serves(templates: list[GPUUnit], index: SnapshotIndex) -> Iterator[Finding]:
    """If several units declare one function, only the oldest has workers.

    Any number of templates is allowed. Workers of a newer template are allowed for as long as a
    drain takes.
    """
    owner = min(templates, key=provenance.seniority)
    for template in templates:
        workers = _staying(template, index)
        if template is not owner and workers:
            yield Finding(
                objects=(reference_to(template), reference_to(owner)),
                message=f"function {_function_of(template).requestID} belongs to "
                f"{reference_to(owner)}, and {reference_to(template)} has workers: "
                f"{_names(workers)}",
                remedy="give one of the two another requestID, or delete the workers",
                allowed_seconds=_drain_seconds(_function_of(template)),
            )


def within_limit(template: GPUUnit, index: SnapshotIndex) -> Iterator[Finding]:
    """A function has no more workers than its limit; draining workers count until they are gone.

    During an update one more is allowed, the successor of an outdated worker. If the limit was
    lowered, more workers are allowed for as long as a drain takes.
    """
    function, workers = _function_of(template), index.workers_of[template.metadata.uid]
    if len(workers) > function.maxWorkers + _is_updating(template, workers):
        yield Finding(
            objects=(reference_to(template),),
            message=f"{reference_to(template)} has {len(workers)} workers, and its maxWorkers "
            f"is {function.maxWorkers}",
            remedy="see that an activator leads, which drains them; or delete the youngest",
            allowed_seconds=_drain_seconds(function),
            version=f"{function.maxWorkers} {function.timeoutSeconds}",
        )


def enough_workers(template: GPUUnit, index: SnapshotIndex) -> Iterator[Finding]:
    """The least number of available workers is claimed as long as there is stock for them.

    Fewer workers are allowed while draining workers count towards the limit. They are also allowed
    while a worker fails, since no stock is spent on a broken image.
    """
    function, all_workers = _function_of(template), index.workers_of[template.metadata.uid]
    staying = _staying(template, index)
    if len(staying) >= function.minAvailableCount or len(all_workers) >= function.maxWorkers:
        return
    has_stock = template.spec.specName in index.free_specs
    if not has_stock or not _is_declared(template) or any(map(_has_failed, staying)):
        return
    reason = template.status.serverless.reason if template.status.serverless else ""
    yield Finding(
        objects=(reference_to(template),),
        message=f"{reference_to(template)} has {len(staying)} workers of "
        f"{function.minAvailableCount} that must be available, and stock of "
        f"{template.spec.specName} is free ({reason or 'no reason is reported'})",
        remedy="see that an activator leads, and what it logs of claims of this unit's workers",
        allowed_seconds=CLAIM_SECONDS,
        version=f"{len(staying)} of {function.minAvailableCount}",
    )


def works_for_its_template(worker: GPUUnit, index: SnapshotIndex) -> Iterator[Finding]:
    """A worker has the envelope of its function's template, and is deleted with it.

    Terminating workers are allowed, and for a while workers whose template is gone. An envelope
    that the template leaves open is allowed, too.
    """
    owner = _function_of(worker).workerOf
    if owner is None or provenance.is_terminating(worker):
        return
    template = index.unit_by_uid.get(owner.uid)
    if template is None:
        yield _of_worker(
            worker,
            f"works for unit {owner.name} ({owner.uid}), which is gone",
            "see that the cluster's garbage collector runs; or delete the worker",
            allowed_seconds=COLLECT_SECONDS,
        )
    elif not template.spec.is_function_template:
        yield _of_worker(
            worker,
            f"works for {reference_to(template)}, which declares no function",
            "delete the worker",
            allowed_seconds=_drain_seconds(_function_of(worker)),
        )
    elif template.metadata.name != owner.name:
        yield _of_worker(
            worker,
            f"works for unit {owner.name}, and the unit of that uid is {reference_to(template)}",
            "delete the worker: another one is claimed",
        )
    elif not _is_alike(worker, template):
        yield _of_worker(
            worker,
            f"has another specName or envelope than {reference_to(template)}, for which it works",
            "delete the worker, and declare the function with what its stock has",
        )


def drain_ends(worker: GPUUnit, index: SnapshotIndex) -> Iterator[Finding]:
    """A draining worker is deleted even if it does not answer; its calls return to the queue."""
    if labels.DRAINING not in worker.metadata.annotations or provenance.is_terminating(worker):
        return
    limits = _limits_of(worker, index)
    yield _of_worker(
        worker,
        f"is draining since {worker.metadata.annotations[labels.DRAINING]}, and still exists",
        "see that an activator leads, which deletes it; or delete it",
        allowed_seconds=_drain_seconds(limits),
        version=str(limits.timeoutSeconds),
    )


def _template_with(held: Held, index: SnapshotIndex) -> GPUUnit | None:
    """Return the template that has the object, or None if no template has it."""
    match held:
        case GPUUnit():
            claimant = provenance.claimant_of(held)
            unit = index.unit_by_key.get(claimant) if claimant else None
            unit = None if unit is None or index.has_started(unit) else unit
        case Pod():
            unit = index.unit_of(held)
        case _:
            owner = held.metadata.controller_owner
            unit = index.unit_by_uid.get(owner.uid) if owner else None
    is_active = unit is not None and unit.metadata.uid not in index.stock_by_uid
    return unit if unit and is_active and unit.spec.is_function_template else None


def _waits_for_pods(held: Held, template: GPUUnit, index: SnapshotIndex) -> bool:
    """Return whether the object is the NetworkPolicy of Pods that still exist."""
    return isinstance(held, NetworkPolicy) and any(
        index.unit_of(pod) is template for pod in index.snapshot.pods or ()
    )


def _staying(template: GPUUnit, index: SnapshotIndex) -> list[GPUUnit]:
    return [
        worker
        for worker in index.workers_of[template.metadata.uid]
        if not provenance.is_terminating(worker)
        and labels.DRAINING not in worker.metadata.annotations
    ]


def _is_declared(template: GPUUnit) -> bool:
    """Return whether the manager reports that this very spec declares its function.

    Then the spec is valid and not suspended, and the unit owns its function.
    """
    ready = condition_of(template.status.conditions, ConditionType.READY)
    return (
        ready is not None
        and ready.reason == UnitReason.FUNCTION_DECLARED
        and ready.observedGeneration == template.metadata.generation
        and not provenance.is_terminating(template)
    )


def _has_failed(worker: GPUUnit) -> bool:
    return phase_of(worker.status.conditions) is UnitPhase.FAILED


def _is_alike(worker: GPUUnit, template: GPUUnit) -> bool:
    """Return whether the envelopes agree.

    A template that the API created has no stock, and therefore no quantities and no product.
    """
    mine, its = envelope_of(worker.spec), envelope_of(template.spec)
    stated = attrs.evolve(
        its, gpu=its.gpu or mine.gpu, gpuProduct=its.gpuProduct or mine.gpuProduct
    )
    return worker.spec.specName == template.spec.specName and mine.may_equal(stated)


def _limits_of(worker: GPUUnit, index: SnapshotIndex) -> Serverless:
    """Return the limits of the worker's function; those of the live template count."""
    own = _function_of(worker)
    template = index.unit_by_uid.get(own.workerOf.uid) if own.workerOf else None
    return template.spec.serverless if template and template.spec.serverless else own


def _drain_seconds(limits: Serverless) -> float:
    """Return twice the length of a drain, since a new leader starts it again."""
    return 2 * (limits.timeoutSeconds + DRAIN_SLACK_SECONDS)


def _function_of(unit: GPUUnit) -> Serverless:
    return unit.spec.serverless or Serverless(requestID="")


def _of_worker(
    worker: GPUUnit,
    fault: str,
    remedy: str,
    *,
    allowed_seconds: float = 0.0,
    version: str = "",
) -> Finding:
    return Finding(
        objects=(reference_to(worker),),
        message=f"{reference_to(worker)} {fault}",
        remedy=remedy,
        allowed_seconds=allowed_seconds,
        version=version,
    )


def _is_updating(template: GPUUnit, workers: Iterable[GPUUnit]) -> bool:
    """Return whether a worker is outdated that drains only when its successor is ready."""
    is_rolling = _function_of(template).update == Update.ROLLING
    mounts = bool(template.spec.storageMounts)
    return is_rolling and not mounts and any(_ran(each) != _ran(template) for each in workers)


def _ran(unit: GPUUnit) -> tuple[object, ...]:
    """Return what a worker takes over from its template for its whole life."""
    spec, function = unit.spec, _function_of(unit)
    code = (
        spec.specName,
        spec.image,
        spec.template,
        spec.storageMounts,
        spec.imagePullSecrets,
    )
    return (*code, function.requestID, function.concurrency, function.framework)


def _names(units: list[GPUUnit]) -> str:
    return ", ".join(each.metadata.name for each in units)
