"""Pure decision about a storage: the next writes, in order, and what to report.

Every write that changes what the plan was decided by ends the pass, and the next pass begins at
once. So a run of a prepare is recorded by one pass, and begun by another.
"""

from collections.abc import Sequence
from typing import Final, assert_never

import attrs

from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.phases import StepPhase
from gpuruntime.models.kinds.reasons import StorageReason
from gpuruntime.models.kinds.storages import GPUStorage
from gpuruntime.models.kubernetes.pods import Pod
from gpuruntime.models.kubernetes.workloads import Deployment
from gpuruntime.reconcilers.options import UnitOptions
from gpuruntime.reconcilers.storage.children import (
    Placing,
    accessor_deployment,
    accessor_policy,
    accessor_service,
    placing_of,
    prepare_job,
    prepare_policy,
)
from gpuruntime.reconcilers.storage.intents import (
    AddFinalizer,
    CreateJob,
    GiveBack,
    Intent,
    LetGo,
    Plan,
    ReleaseJob,
    RemoveLate,
    ServeFiles,
    StopServing,
    Written,
)
from gpuruntime.reconcilers.storage.observed import (
    Holding,
    Observed,
    Stage,
    problems_of,
    stage_of,
)
from gpuruntime.reconcilers.storage.placement_plan import placing_of_server
from gpuruntime.reconcilers.storage.prepare_plan import (
    PrepareStep,
    prepare_step,
    resting_step,
    waits_of,
)
from gpuruntime.reconcilers.storage.status import ACCESSOR_OFF, ACCESSOR_WAITS, Findings
from gpuruntime.reconcilers.storage.verdict import StorageVerdict
from gpuruntime.reconcilers.storage.volume_plan import (
    claim_write,
    ending_verdict,
    foreign_claim,
    is_own,
    shelter_of,
    volume_verdict,
)
from gpuruntime.reconcilers.unit.pod_failures import current_pod, is_unschedulable

# A storage that was refused, or is being deleted, is checked this often, beside its events.
LOOK_AGAIN_SECONDS: Final = 15.0
AT_ONCE: Final = 0.0


def decide(observed: Observed, options: UnitOptions) -> Plan:
    match stage_of(observed):
        case Stage.GIVING_BACK:
            return Plan(intents=(GiveBack(),))
        case Stage.ENDING:
            return _end(observed)
        case Stage.ENDED:
            return Plan()
        case Stage.NEW:
            tombstone = observed.tombstone
            is_late = tombstone is not None and tombstone.forbids(observed.storage)
            return Plan(intents=(RemoveLate() if is_late else AddFinalizer(),))
        case Stage.INVALID:
            return _stay(observed, options)
        case Stage.CLAIMING:
            return _claim(observed)
        case Stage.FILLING:
            return _fill(observed, options)
        case stage:
            assert_never(stage)


def findings_after(plan: Plan, written: Written) -> Findings | StorageVerdict | None:
    """Return what to report; an invalid spec matters more than a write that was refused."""
    found = plan.findings
    if not isinstance(found, Findings):
        return found
    is_valid = found.volume.reason is not StorageReason.INVALID_SPEC
    volume = written.volume if is_valid else None
    prepare = written.prepare or found.prepare.verdict
    return attrs.evolve(
        found,
        volume=volume or found.volume,
        prepare=attrs.evolve(found.prepare, verdict=prepare),
        accessor=written.accessor or found.accessor,
    )


def _end(observed: Observed) -> Plan:
    """Delete the claim once no unit mounts the volume and no copy reads it."""
    storage = observed.storage
    if storage.status.holder is not None or observed.is_in_use:
        return Plan(
            intents=_shelter(observed),
            findings=ending_verdict(storage),
            again_seconds=LOOK_AGAIN_SECONDS,
        )
    live = observed.live_claim
    is_ours = live is not None and is_own(live, storage) and not provenance.is_terminating(live)
    return Plan(intents=(LetGo(live if is_ours else None),))


def _stay(observed: Observed, options: UnitOptions) -> Plan:
    """Report an invalid spec. Begin no step until it is corrected, but keep serving files."""
    storage, claim = observed.storage, observed.claim
    problems = (f"{each.field}: {each.message}" for each in problems_of(observed))
    verdict = StorageVerdict(reason=StorageReason.INVALID_SPEC, message="; ".join(problems))
    is_bound = claim is not None and is_own(claim, storage) and claim.status.phase == "Bound"
    is_served = observed.server is not None and is_bound
    return Plan(
        intents=(*_shelter(observed), _accessor(observed, options, is_ready=is_served)),
        findings=_without_volume(storage, verdict),
        again_seconds=_while_kept(observed),
    )


def _claim(observed: Observed) -> Plan:
    """Create or shelter the claim; a claim that is not the storage's own is never served."""
    storage, claim = observed.storage, observed.claim
    taken = foreign_claim(storage, claim) if claim is not None else None
    write = None if taken else claim_write(storage, claim, observed.storage_class)
    verdict = taken or volume_verdict(storage, claim, observed.storage_class)
    return Plan(
        intents=(*((write,) if write else ()), StopServing()),
        findings=_without_volume(storage, verdict),
        again_seconds=LOOK_AGAIN_SECONDS,
    )


def _fill(observed: Observed, options: UnitOptions) -> Plan:
    """Fill the volume once, and serve its files when nothing else may write to it."""
    storage, claim = observed.storage, observed.claim
    write = claim_write(storage, claim, observed.storage_class)
    volume = volume_verdict(storage, claim, observed.storage_class)
    waits = waits_of(storage, volume, source=observed.source, left=observed.pods_left)
    step = prepare_step(storage, observed.job, waits=waits, words=observed.words)
    is_recorded = step.status == storage.status.prepare
    # While a volume ends, a file server is a way to save its data.
    has_volume = volume.is_true or volume.reason is StorageReason.VOLUME_ENDING
    is_ready = has_volume and step.verdict.is_true
    return Plan(
        intents=(
            *((write,) if write else ()),
            *(_run(observed, options) if step.makes_job and is_recorded else ()),
            _accessor(observed, options, is_ready=is_ready),
        ),
        findings=Findings(
            volume=volume, prepare=step, accessor=_resting_accessor(storage), claim=claim
        ),
        again_seconds=_again(observed, step),
    )


def _again(observed: Observed, step: PrepareStep) -> float | None:
    job = observed.job
    if step.makes_job and step.status != observed.storage.status.prepare:
        return AT_ONCE
    if job is not None and job.is_running and not observed.job_pods:
        # No event reports a Pod that was not created.
        return LOOK_AGAIN_SECONDS
    return _while_kept(observed)


def _while_kept(observed: Observed) -> float | None:
    """Check an unwanted holder again later: the event of its Pods' end may be missed."""
    return LOOK_AGAIN_SECONDS if observed.holding is Holding.KEPT else None


def _shelter(observed: Observed) -> tuple[Intent, ...]:
    shelter = shelter_of(observed.storage, observed.claim, observed.storage_class)
    return (shelter,) if shelter else ()


def _without_volume(storage: GPUStorage, verdict: StorageVerdict) -> Findings:
    return Findings(
        volume=verdict, prepare=resting_step(storage), accessor=_resting_accessor(storage)
    )


def _run(observed: Observed, options: UnitOptions) -> tuple[Intent, ...]:
    """Begin the recorded run; its NetworkPolicy must exist before the user's container runs."""
    storage, job, prepare = observed.storage, observed.job, observed.storage.spec.prepare
    policy = prepare_policy(storage, prepare, options) if prepare is not None else None
    if job is not None and storage.status.prepare.phase == StepPhase.RUNNING:
        return (ReleaseJob(policy, job),)
    if job is None and prepare is not None and policy is not None:
        body = prepare_job(storage, prepare, options, observed.source_node)
        return (CreateJob(policy, body),)
    return ()


def _resting_accessor(storage: GPUStorage) -> StorageVerdict:
    return ACCESSOR_WAITS if storage.spec.accessor.enabled else ACCESSOR_OFF


def _accessor(observed: Observed, options: UnitOptions, *, is_ready: bool) -> Intent:
    storage = observed.storage
    if not (storage.spec.accessor.enabled and is_ready):
        return StopServing()
    placing = _placing(observed.server, observed.server_pods, observed.holder_pods)
    return ServeFiles(
        policy=accessor_policy(storage, options),
        service=accessor_service(storage, options),
        deployment=accessor_deployment(storage, options, placing),
        placing=placing,
    )


def _placing(
    server: Deployment | None, server_pods: Sequence[Pod], holder_pods: Sequence[Pod]
) -> Placing:
    before = placing_of(server) if server else Placing()
    is_stuck = is_unschedulable(current_pod(server_pods))
    return placing_of_server(holder_pods, before, is_stuck=is_stuck)
