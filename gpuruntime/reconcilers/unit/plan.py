"""Pure plan of a unit: the writes in their order, the verdict, and when to look again.

The NetworkPolicy is kept first, so that no Pod runs without it. The Service is kept before the
Deployment, so that a Pod can be reached as soon as it is ready.
"""

from datetime import datetime
from typing import Final, assert_never

import attrs

from gpuruntime.controller.controller import Result
from gpuruntime.models.kinds.reasons import UnitReason
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS, Deployment
from gpuruntime.reconcilers.children.drift import Child, body_of, is_behind
from gpuruntime.reconcilers.children.refusals import REFUSED_SECONDS, ownership_message
from gpuruntime.reconcilers.functions.declaration_plan import template_verdict
from gpuruntime.reconcilers.options import UnitOptions
from gpuruntime.reconcilers.storage.mount_plan import (
    Blocked,
    Mountable,
    Takes,
    as_suspended,
    with_held_mounts,
)
from gpuruntime.reconcilers.unit.children import (
    deployment_of,
    is_served,
    policy_of,
    service_of,
)
from gpuruntime.reconcilers.unit.intents import (
    BlockedVerdict,
    ClaimStock,
    DeleteUnit,
    HoldDeployment,
    Intent,
    KeepDeployment,
    KeepPolicy,
    KeepSecret,
    KeepService,
    Outcome,
    Overtaken,
    Plan,
    Refused,
    RemoveDeployment,
    RemovePolicy,
    RemoveService,
    RunningVerdict,
    TakeStorages,
    Written,
)
from gpuruntime.reconcilers.unit.observed import Observed
from gpuruntime.reconcilers.unit.pod_template import has_worker
from gpuruntime.reconcilers.unit.start_plan import ClaimAgain, Lose, Remove, Start, Wait
from gpuruntime.reconcilers.unit.status import (
    Verdict,
    is_serving,
    look_again_seconds,
    running_verdict,
    running_with_fault,
    waiting_verdict,
)
from gpuruntime.strict import validation

# A running unit that waits for a storage checks this often whether units wait for it in turn. A
# unit that closes such a wait cycle triggers its direct neighbours only.
CIRCLE_SECONDS: Final = 15.0
# A unit that waits for a child of an earlier unit checks this often, beside the event of its end.
LEFT_SECONDS: Final = 15.0
# A unit that has lost its stock retries after this many seconds, and as soon as stock appears.
RETRY_CLAIM_SECONDS: Final = 30.0


def decide(observed: Observed, options: UnitOptions) -> Plan:
    if observed.problems:
        message = "; ".join(str(problem) for problem in observed.problems)
        reason = validation.reason_of(observed.problems)
        return Plan(verdict=Verdict(reason=reason, message=message))
    found = observed.gate
    match found:
        case Start() if observed.unit.spec.is_function_template and not observed.is_stock:
            return _declare(observed, options)
        case Start():
            return _start(observed, options)
        case Wait(message, seconds):
            return _waiting(UnitReason.DEPLOYMENT_PROGRESSING, message, seconds)
        case Lose(message):
            return _waiting(UnitReason.OPERATION_CONFLICT, message)
        case Remove():
            return Plan(intents=(DeleteUnit(),))
        case ClaimAgain(message):
            text = f"{message}; no ready stock of {observed.unit.spec.specName} is left"
            plan = _waiting(UnitReason.CLAIM_LOST, f"{text}: waits for some", RETRY_CLAIM_SECONDS)
            own = observed.first_start.own_stock if observed.first_start else ()
            return attrs.evolve(plan, intents=(ClaimStock(own),))
        case _:
            assert_never(found)


def _waiting(reason: UnitReason, message: str, seconds: float | None = None) -> Plan:
    return Plan(verdict=Verdict(reason=reason, message=message), again_seconds=seconds)


def _declare(observed: Observed, options: UnitOptions) -> Plan:
    """Stop a unit that declares a function; its NetworkPolicy stays until its last Pod is gone."""
    verdict = template_verdict(
        observed.unit,
        owner=observed.function_owner,
        knows_broker=bool(options.sidecar.broker_url),
        pods=observed.pods,
    )
    deployment, intents = observed.own_deployment, list[Intent]()
    if deployment is not None:
        intents.append(RemoveDeployment(deployment))
    intents += _without_service(observed)
    if observed.deployment is None and not observed.pods and not observed.has_unseen_pods:
        intents += _without_policy(observed)
    return Plan(intents=tuple(intents), verdict=verdict)


def _start(observed: Observed, options: UnitOptions) -> Plan:
    """Run the unit once every storage that it mounts is ready and held by this unit alone."""
    mounts = observed.mounts
    if isinstance(mounts, Blocked):
        return _wait_for_storages(observed, options, mounts)
    if observed.is_gone:
        return Plan()
    taken: tuple[Intent, ...] = (TakeStorages(),) if isinstance(mounts, Takes) else ()
    if observed.left_behind:
        what = " and ".join(observed.left_behind)
        message = f"waits until {what} of the unit that had this name before is gone"
        plan = _waiting(UnitReason.DEPLOYMENT_PROGRESSING, message, LEFT_SECONDS)
        return attrs.evolve(plan, intents=taken)
    deployment = observed.deployment
    if deployment is not None and observed.own_deployment is None:
        what = f"{DEPLOYMENTS.kind} {deployment.metadata.key}"
        message = ownership_message(what, deployment.metadata.controller_owner)
        plan = _waiting(UnitReason.DEPLOYMENT_SYNC_FAILED, message, REFUSED_SECONDS)
        return attrs.evolve(plan, intents=taken)
    deployed = KeepDeployment(_desired(observed.unit, observed, options))
    return Plan(
        intents=(*taken, *_network(observed, options), deployed),
        verdict=RunningVerdict(None if mounts is None else Mountable()),
    )


def _wait_for_storages(observed: Observed, options: UnitOptions, blocked: Blocked) -> Plan:
    """Keep the unit as it is while it may not mount its storages.

    A running Pod goes on, isolated as before, unless the unit must end it for another. No new Pod
    starts.
    """
    if observed.is_gone:
        return Plan()
    unit, intents = observed.unit, list[Intent]()
    desired = _desired(unit, observed, options)
    if observed.has_pods:
        intents += _network(observed, options)
    deployment = observed.own_deployment
    if deployment is not None and blocked.makes_way:
        intents.append(KeepDeployment(_desired(as_suspended(unit), observed, options)))
    elif deployment is not None:
        intents.append(HoldDeployment(deployment, desired))
    return Plan(intents=tuple(intents), verdict=BlockedVerdict(blocked, desired))


def _network(observed: Observed, options: UnitOptions) -> tuple[Intent, ...]:
    """Return the intents before the Deployment: the NetworkPolicy must exist before any Pod does.

    Stock needs none: it serves no requests, and one policy closes its whole namespace.
    """
    unit = observed.unit
    if observed.is_stock:
        return ()
    secrets: tuple[Intent, ...] = ()
    if has_worker(unit, options):
        deployment = observed.own_deployment
        serves = deployment is not None and is_serving(deployment, observed.pods)
        secrets = (KeepSecret(template=observed.template, is_serving=serves),)
    selector, service = observed.selector, _without_service(observed)
    if is_served(unit, options):
        service = (KeepService(service_of(unit, options, selector)),)
    return (*secrets, KeepPolicy(policy_of(unit, options, selector)), *service)


def _without_service(observed: Observed) -> tuple[Intent, ...]:
    service = observed.service
    return (RemoveService(service),) if service and observed.owns(service) else ()


def _without_policy(observed: Observed) -> tuple[Intent, ...]:
    policy = observed.policy
    return (RemovePolicy(policy),) if policy and observed.owns(policy) else ()


def _desired(unit: GPUUnit, observed: Observed, options: UnitOptions) -> Child:
    """Return the desired Deployment; a suspended unit mounts only storages that it holds."""
    if unit.spec.suspended:
        unit = with_held_mounts(unit, observed.storages.get)
    return deployment_of(unit, options, observed.placement, observed.selector)


def conclude(
    plan: Plan, outcome: Outcome, observed: Observed, *, now: datetime
) -> tuple[Verdict | None, float | None]:
    """Return the verdict to report, if any, and after how many seconds to look again."""
    if isinstance(outcome, Refused):
        return outcome.verdict, REFUSED_SECONDS
    if isinstance(outcome, Overtaken):
        return None, outcome.again_seconds
    match plan.verdict:
        case RunningVerdict(mounts) if outcome.deployment is not None:
            verdict, seconds = _running(observed, outcome, outcome.deployment, now)
            return attrs.evolve(verdict, mounts=mounts), seconds
        case BlockedVerdict(blocked, desired):
            deployment, runs = outcome.deployment, observed.runs
            if deployment is None or not runs or _is_behind(deployment, desired):
                return waiting_verdict(blocked, runs=runs), CIRCLE_SECONDS if runs else None
            verdict, seconds = _running(observed, outcome, deployment, now)
            return running_with_fault(verdict, blocked), seconds
        case Verdict() as verdict:
            return verdict, plan.again_seconds
        case RunningVerdict() | None:
            return None, plan.again_seconds
        case _:
            assert_never(plan.verdict)


def _running(
    observed: Observed, written: Written, deployment: Deployment, now: datetime
) -> tuple[Verdict, float | None]:
    unit, pods, is_stock = observed.unit, observed.pods, observed.is_stock
    seconds = look_again_seconds(unit, deployment, pods, is_stock=is_stock, now=now)
    again = Result.earliest(seconds, written.secret_seconds).requeue_after_seconds
    return running_verdict(unit, deployment, pods, is_stock=is_stock, now=now), again


def _is_behind(deployment: Deployment, desired: Child) -> bool:
    return is_behind(desired, body_of(DEPLOYMENTS, deployment))
