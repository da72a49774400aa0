"""Rules of functions: a template runs nothing itself, and has the workers that it may have."""

from collections.abc import Iterator
from typing import Final, TypeAlias

import attrs

from gpuruntime.audit.breach import Finding, reference_to
from gpuruntime.audit.children import COLLECT_SECONDS
from gpuruntime.audit.index import SnapshotIndex
from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.envelopes import envelope_of
from gpuruntime.models.kinds.functions import Serverless
from gpuruntime.models.kinds.phases import UnitPhase, phase_of
from gpuruntime.models.kinds.reasons import ConditionType, UnitReason
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.conditions import condition_of
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.network import NetworkPolicy, Service
from gpuruntime.models.kubernetes.pods import Pod
from gpuruntime.models.kubernetes.workloads import Deployment
from gpuruntime.strict import validation

# A child or a Pod of a unit, or stock that is claimed for it.
Held: TypeAlias = Deployment | Service | NetworkPolicy | Pod | GPUUnit

# A unit that comes to declare a function may have run; another leader may have to begin.
STOP_SECONDS: Final = 180.0
# Beside the longest attempt: for the answer, the deletion, and a lease to pass on.
DRAIN_SLACK_SECONDS: Final = 60.0
# A claim whose outcome is open is tried again, and so is one of a leader that is gone.
CLAIM_SECONDS: Final = 180.0


def runs_nothing(held: Held, facts: SnapshotIndex) -> Iterator[Finding]:
    """A template has no children, no Pod and no stock: its workers have.

    Allows what is ending, what a spec that cannot be carried out leaves as it was, and for a
    while what the unit had before it declared a function.
    """
    template = _template_with(held, facts)
    if template is None or provenance.is_terminating(template) or provenance.is_terminating(held):
        return
    if validation.unit_problems(template) or _waits_for_pods(held, template, facts):
        return
    yield Finding(
        objects=(reference_to(template), reference_to(held)),
        message=f"{reference_to(template)} is the template of a function, and has "
        f"{reference_to(held)}",
        remedy="see that a manager leads; else delete what the template has",
        allowed_seconds=STOP_SECONDS,
    )


def one_owner_serves(templates: list[GPUUnit], facts: SnapshotIndex) -> Iterator[Finding]:
    """Of several units that declare one function only the oldest has workers.

    Allows any number of templates, and as long as a drain takes for workers of one that an older
    unit has come before.
    """
    owner = min(templates, key=provenance.seniority)
    for template in templates:
        workers = _staying(template, facts)
        if template is not owner and workers:
            yield Finding(
                objects=(reference_to(template), reference_to(owner)),
                message=f"function {_function_of(template).requestID} belongs to "
                f"{reference_to(owner)}, and {reference_to(template)} has workers: "
                f"{_names(workers)}",
                remedy="give one of the two another requestID, or delete the workers",
                allowed_seconds=_drain_seconds(_function_of(template)),
            )


def within_limit(template: GPUUnit, facts: SnapshotIndex) -> Iterator[Finding]:
    """Workers that leave have their seats until they are gone.

    Allows more than a limit that was lowered for as long as a drain takes.
    """
    function, workers = _function_of(template), facts.workers_of[template.metadata.uid]
    if len(workers) > function.maxWorkers:
        yield Finding(
            objects=(reference_to(template),),
            message=f"{reference_to(template)} has {len(workers)} workers, and its maxWorkers "
            f"is {function.maxWorkers}",
            remedy="see that an activator leads, which drains them; or delete the youngest",
            allowed_seconds=_drain_seconds(function),
            version=f"{function.maxWorkers} {function.timeoutSeconds}",
        )


def enough_workers(template: GPUUnit, facts: SnapshotIndex) -> Iterator[Finding]:
    """What must be available is claimed as long as there is stock for it.

    Allows fewer workers while those that leave have the seats, and while one fails, since no
    stock is spent on a broken image.
    """
    function, all_workers = _function_of(template), facts.workers_of[template.metadata.uid]
    staying = _staying(template, facts)
    if len(staying) >= function.minAvailableCount or len(all_workers) >= function.maxWorkers:
        return
    has_stock = template.spec.specName in facts.free_specs
    if not has_stock or not _is_declared(template) or any(map(_has_failed, staying)):
        return
    reason = template.status.serverless.reason if template.status.serverless else ""
    yield Finding(
        objects=(reference_to(template),),
        message=f"{reference_to(template)} has {len(staying)} workers of "
        f"{function.minAvailableCount} that must be available, and stock of "
        f"{template.spec.specName} is free ({reason or 'no reason is told'})",
        remedy="see that an activator leads, and what it logs of claims of this unit's workers",
        allowed_seconds=CLAIM_SECONDS,
        version=f"{len(staying)} of {function.minAvailableCount}",
    )


def works_for_its_template(worker: GPUUnit, facts: SnapshotIndex) -> Iterator[Finding]:
    """A worker goes with the unit that declares its function, and has the envelope of that.

    Allows workers that are ending, for a while those whose template is gone, and an envelope of
    which the template says nothing.
    """
    owner = _function_of(worker).workerOf
    if owner is None or provenance.is_terminating(worker):
        return
    template = facts.unit_by_uid.get(owner.uid)
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


def drain_ends(worker: GPUUnit, facts: SnapshotIndex) -> Iterator[Finding]:
    """Whether it answers or not: what it held comes back to the queue."""
    if labels.DRAINING not in worker.metadata.annotations or provenance.is_terminating(worker):
        return
    limits = _limits_of(worker, facts)
    yield _of_worker(
        worker,
        f"was told to drain at {worker.metadata.annotations[labels.DRAINING]}, and is still there",
        "see that an activator leads, which deletes it; or delete it",
        allowed_seconds=_drain_seconds(limits),
        version=str(limits.timeoutSeconds),
    )


def _template_with(held: Held, facts: SnapshotIndex) -> GPUUnit | None:
    """The template that has it, if it is one that has it."""
    match held:
        case GPUUnit():
            claimant = provenance.claimant_of(held)
            unit = facts.unit_by_key.get(claimant) if claimant else None
            unit = None if unit is None or facts.has_started(unit) else unit
        case Pod():
            name = held.metadata.labels.get(labels.UNIT, "")
            unit = facts.unit_by_key.get(Key(held.metadata.namespace, name))
        case _:
            owner = held.metadata.controller_owner
            unit = facts.unit_by_uid.get(owner.uid) if owner else None
    is_active = unit is not None and unit.metadata.uid not in facts.stock_by_uid
    return unit if unit and is_active and unit.spec.is_function_template else None


def _waits_for_pods(held: Held, template: GPUUnit, facts: SnapshotIndex) -> bool:
    """The policy of Pods goes after them, however long they take to end."""
    key = template.metadata.key
    return isinstance(held, NetworkPolicy) and any(
        pod.metadata.namespace == key.namespace
        and pod.metadata.labels.get(labels.UNIT) == key.name
        for pod in facts.snapshot.pods or ()
    )


def _staying(template: GPUUnit, facts: SnapshotIndex) -> list[GPUUnit]:
    return [
        worker
        for worker in facts.workers_of[template.metadata.uid]
        if not provenance.is_terminating(worker)
        and labels.DRAINING not in worker.metadata.annotations
    ]


def _is_declared(template: GPUUnit) -> bool:
    """The manager's word on this very spec: it is valid, not suspended, and owns its function."""
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
    """A template that was made through the API has no stock, and so no quantities."""
    mine, its = envelope_of(worker.spec), envelope_of(template.spec)
    stated = attrs.evolve(its, gpu=its.gpu or mine.gpu)
    return worker.spec.specName == template.spec.specName and mine.may_equal(stated)


def _limits_of(worker: GPUUnit, facts: SnapshotIndex) -> Serverless:
    """Limits are the template's of now."""
    own = _function_of(worker)
    template = facts.unit_by_uid.get(own.workerOf.uid) if own.workerOf else None
    return template.spec.serverless if template and template.spec.serverless else own


def _drain_seconds(limits: Serverless) -> float:
    """Twice: a leader that follows another one begins anew."""
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


def _names(units: list[GPUUnit]) -> str:
    return ", ".join(each.metadata.name for each in units)
