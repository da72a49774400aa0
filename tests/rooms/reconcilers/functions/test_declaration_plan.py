"""Verdicts on a unit that declares a function, case by case."""

import attrs
import pytest

from gpuruntime.models.kinds.functions import Serverless, ServerlessStatus
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitSpec, StorageMount
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.kubernetes.pods import Pod, PodStatus
from gpuruntime.reconcilers.functions.declaration_plan import NO_BROKER, template_verdict
from gpuruntime.reconcilers.options import UnitOptions
from gpuruntime.reconcilers.unit.observed import Observed
from gpuruntime.reconcilers.unit.plan import decide
from gpuruntime.reconcilers.unit.status import Verdict
from gpuruntime.strict.validation import unit_problems
from tests.options import configured

TAKEN = (
    "function echo belongs to unit elder, which is older: "
    "choose another requestID, or delete that unit"
)


def template(
    name: str = "demo", *, suspended: bool = False, told: ServerlessStatus | None = None
) -> GPUUnit:
    spec = GPUUnitSpec(specName="g", serverless=Serverless(requestID="echo"), suspended=suspended)
    unit = GPUUnit(metadata=ObjectMeta(name=name, uid=name, generation=3), spec=spec)
    return attrs.evolve(unit, status=attrs.evolve(unit.status, serverless=told))


def verdict(
    unit: GPUUnit,
    *,
    owner: GPUUnit | None = None,
    knows_broker: bool = True,
    pods: tuple[Pod, ...] = (),
) -> Verdict:
    return template_verdict(unit, owner=owner or unit, knows_broker=knows_broker, pods=pods)


def workers(of: Verdict) -> Condition:
    assert of.workers is not None
    return of.workers


@pytest.mark.parametrize(
    ("found", "reason", "words"),
    [
        (verdict(template()), "FunctionDeclared", "function echo takes invocations"),
        (
            verdict(template(), pods=(Pod(status=PodStatus(phase="Failed")),)),
            "FunctionDeclared",
            "function echo takes invocations",
        ),
        (
            verdict(template(), owner=template("elder"), knows_broker=False),
            "ServerlessConfigInvalid",
            TAKEN,
        ),
        (
            verdict(template(), pods=(Pod(),)),
            "DeploymentProgressing",
            "the template of a function: the Pod is still ending",
        ),
        (
            verdict(template(suspended=True), knows_broker=False),
            "ScaledToZero",
            "suspended: no worker runs, and invocations wait until their deadline",
        ),
        (
            verdict(template(), knows_broker=False),
            "QueueUnknown",
            NO_BROKER,
        ),
    ],
    ids=["declared", "ended Pod", "older declarer", "running Pod", "suspended", "no broker"],
)
def test_ready_says_whether_a_function_can_be_called(
    found: Verdict, reason: str, words: str
) -> None:
    assert (found.reason, found.message) == (reason, words)
    if reason != "FunctionDeclared":
        said = workers(found)
        assert (said.status, said.reason, said.message) == ("False", "NotDeclared", words)


@pytest.mark.parametrize(
    ("told", "status", "reason", "words"),
    [
        (None, "False", "NotScaledYet", "no activator has told yet"),
        (ServerlessStatus(), "True", "WorkersReady", "as many workers are ready as are needed"),
        (ServerlessStatus(desiredWorkers=2, readyWorkers=3), "True", "WorkersReady", "as many"),
        (
            ServerlessStatus(desiredWorkers=2, readyWorkers=1),
            "False",
            "WorkersMissing",
            "workers are on their way",
        ),
        (
            ServerlessStatus(desiredWorkers=1, readyWorkers=1, outdatedWorkers=1),
            "False",
            "WorkersOutdated",
            "workers of an earlier template serve",
        ),
        (
            ServerlessStatus(
                desiredWorkers=1,
                readyWorkers=1,
                outdatedWorkers=1,
                reason="worker_failed",
                message="worker fn-w-2: image bad: no such image",
            ),
            "False",
            "WorkersOutdated",
            "worker_failed: worker fn-w-2: image bad: no such image",
        ),
        (
            ServerlessStatus(desiredWorkers=2, readyWorkers=1, reason="insufficient_capacity"),
            "False",
            "WorkersMissing",
            "insufficient_capacity",
        ),
    ],
    ids=[
        "no status of an activator",
        "no workers needed",
        "more workers than needed",
        "workers missing",
        "successors on their way",
        "a successor fails",
        "workers missing with a reason",
    ],
)
def test_serverless_ready_says_whether_a_function_has_the_workers_it_needs(
    told: ServerlessStatus | None, status: str, reason: str, words: str
) -> None:
    said = workers(verdict(template(told=told)))
    assert (said.type, said.status, said.reason) == ("ServerlessReady", status, reason)
    assert said.message.startswith(words)
    assert said.observedGeneration == 3


def test_a_function_with_storages_has_one_worker_even_without_the_servers_rule() -> None:
    plain = template()
    mounts = (StorageMount(name="data", mountPath="/data"),)
    unit = attrs.evolve(plain, spec=attrs.evolve(plain.spec, storageMounts=mounts))
    found = decide(
        Observed(unit=unit, problems=unit_problems(unit)), configured(UnitOptions)
    ).verdict
    assert isinstance(found, Verdict)
    assert found.reason == "ServerlessConfigInvalid"
    assert found.message == (
        "spec.serverless.maxWorkers: must be 1 with storageMounts: "
        "one unit mounts a storage at a time"
    )
