"""The plan of a unit, row by row: the writes in their order, the verdict, the next look."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import attrs
import pytest

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.functions import Serverless, WorkerOf
from gpuruntime.models.kinds.reasons import MountReason, UnitReason
from gpuruntime.models.kinds.storages import GPUStorage, GPUStorageSpec
from gpuruntime.models.kinds.templates import Port, Template
from gpuruntime.models.kinds.tombstones import DeletedObject, Tombstone
from gpuruntime.models.kinds.units import (
    GPUUnit,
    GPUUnitSpec,
    StorageMount,
    child_key,
)
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import ObjectMeta, OwnerReference
from gpuruntime.models.kubernetes.network import NetworkPolicy, Service
from gpuruntime.models.kubernetes.pods import Pod, PodStatus
from gpuruntime.models.kubernetes.workloads import Deployment, DeploymentStatus
from gpuruntime.reconcilers.options import SidecarOptions, UnitOptions
from gpuruntime.reconcilers.storage.mount_plan import Blocked, Mountable, Takes
from gpuruntime.reconcilers.unit.intents import (
    BlockedVerdict,
    ClaimStock,
    Intent,
    KeepDeployment,
    KeepSecret,
    Outcome,
    Overtaken,
    Plan,
    Refused,
    RunningVerdict,
    Written,
)
from gpuruntime.reconcilers.unit.observed import FirstStart, Observed
from gpuruntime.reconcilers.unit.plan import conclude, decide
from gpuruntime.reconcilers.unit.start_plan import Candidate
from gpuruntime.reconcilers.unit.status import Verdict
from gpuruntime.strict.validation import unit_problems
from tests.options import configured

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
OPTIONS = configured(UnitOptions, sidecar=configured(SidecarOptions, broker_url="nats://broker"))
INSTANCE, STOCK = OPTIONS.instance_namespace, OPTIONS.stock_namespace
PORTS = Template(ports=(Port(name="http", port=80),))
FUNCTION = Serverless(requestID="f")
WORKER = Serverless(requestID="f", workerOf=WorkerOf(name="f", uid="uid-f"))
MOUNTS = (StorageMount(name="data", mountPath="/data"),)
HELD = Blocked(reason=MountReason.STORAGE_HELD, message="storage data is held by unit b")
STORAGE = GPUStorage(metadata=ObjectMeta(name="data"), spec=GPUStorageSpec(size="1Gi"))
NETWORK = ("KeepPolicy", "KeepService")


def unit(name: str = "a", *, namespace: str = INSTANCE, age: int = 0, **spec: Any) -> GPUUnit:
    marks = {
        labels.OPERATION_ID: "op",
        labels.SOURCE_STOCK: f"{STOCK}/p-1",
        labels.SOURCE_STOCK_UID: "uid-p-1",
    }
    return GPUUnit(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=f"uid-{name}",
            creationTimestamp=NOW - timedelta(seconds=age),
            annotations=marks,
        ),
        spec=GPUUnitSpec(specName="g1", image="i", **spec),
    )


def child(kind: Any, *, owner: str = "a", **more: Any) -> Any:
    owners = (OwnerReference(kind="GPUUnit", name=owner, uid=f"uid-{owner}", controller=True),)
    key = child_key(unit())
    metadata = ObjectMeta(name=key.name, namespace=key.namespace, ownerReferences=owners)
    return kind(metadata=metadata, **more)


def foreign(held: Any) -> Any:
    """Return the object with an owner that is no unit."""
    owners = (OwnerReference(kind="Thing", name="t", uid="uid-t", controller=True),)
    return attrs.evolve(held, metadata=attrs.evolve(held.metadata, ownerReferences=owners))


def deployment(*, owner: str = "a", replicas: int = 1, ready: bool = True) -> Deployment:
    status = DeploymentStatus(
        replicas=replicas,
        updatedReplicas=replicas,
        readyReplicas=int(ready),
        availableReplicas=int(ready),
    )
    found: Deployment = child(Deployment, owner=owner, status=status)
    return found


def pod(*, age: int = 0) -> Pod:
    created = NOW - timedelta(seconds=age)
    ready = Condition(type="Ready", status="True")
    status = PodStatus(phase="Running", conditions=(ready,))
    return Pod(metadata=ObjectMeta(name="pod", creationTimestamp=created), status=status)


def started(**seen: Any) -> Observed:
    """Return a unit with all children and a Pod, changed by what is given."""
    children = {
        "deployment": deployment(),
        "service": child(Service),
        "policy": child(NetworkPolicy),
        "pods": (pod(),),
    }
    return Observed(**{"unit": unit(template=PORTS), **children, **seen})


def stopping(**seen: Any) -> Observed:
    """Return a started unit that was changed to declare a function."""
    return started(unit=unit(serverless=FUNCTION), **seen)


def first(*, spec: Any = None, start: Any = None, **seen: Any) -> Observed:
    """Return a unit without children whose stock is held for it, changed by what is given."""
    own = unit(template=PORTS, **(spec or {}))
    held = stock_of(f"{INSTANCE}/a")
    return Observed(unit=own, first_start=FirstStart(**{"stock": held, **(start or {})}), **seen)


def stock_of(claimant: str) -> GPUUnit:
    marks = {labels.OPERATION_ID: "op", labels.CLAIMED_BY: claimant}
    metadata = ObjectMeta(name="p-1", namespace=STOCK, uid="uid-p-1", annotations=marks)
    return GPUUnit(metadata=metadata, spec=GPUUnitSpec(specName="g1"))


def invalid() -> Observed:
    own = unit(cpu="-1")
    return started(unit=own, problems=unit_problems(own))


def rival(**start: Any) -> dict[str, Any]:
    """Return a first start beside a younger unit of the operation."""
    younger = Candidate(unit=unit("b", age=-9), has_started=False)
    return {"rivals": (younger,), **start}


def tombstone() -> Tombstone:
    deleted = DeletedObject(
        kind="GPUUnit", namespace=INSTANCE, name="a", uid="uid-other", requestHash="h"
    )
    return Tombstone(operation_id="op", expires_at=NOW, buried=(deleted,))


def words(intents: tuple[Intent, ...]) -> tuple[str, ...]:
    return tuple(type(each).__name__ for each in intents)


RUNS, WAITS_FOR_STORAGE = "by its Deployment", "by its storages"
Row: TypeAlias = tuple[str, Callable[[], Observed], tuple[str, ...], str, float | None]

ROWS: tuple[Row, ...] = (
    ("invalid: write nothing but the status", invalid, (), UnitReason.INVALID_SPEC, None),
    # Whether it may start.
    (
        "first start: network first, Deployment last",
        first,
        (*NETWORK, "KeepDeployment"),
        RUNS,
        None,
    ),
    (
        "beside an older unit of the operation: lose",
        lambda: first(start={"rivals": (Candidate(unit=unit("b", age=9), has_started=False),)}),
        (),
        UnitReason.OPERATION_CONFLICT,
        None,
    ),
    (
        "beside a younger one that a lost request may start: wait for its end",
        lambda: first(start=rival(unsettled_seconds=40.0)),
        (),
        UnitReason.DEPLOYMENT_PROGRESSING,
        40.0,
    ),
    (
        "beside a younger one that cannot start: start",
        lambda: first(start=rival()),
        (*NETWORK, "KeepDeployment"),
        RUNS,
        None,
    ),
    (
        "of an operation that has ended: delete the unit, report nothing",
        lambda: first(start={"tombstone": tombstone()}),
        ("DeleteUnit",),
        "",
        None,
    ),
    (
        "stock claimed for another unit: claim other stock",
        lambda: first(start={"stock": stock_of(f"{INSTANCE}/b")}),
        ("ClaimStock",),
        UnitReason.CLAIM_LOST,
        30.0,
    ),
    (
        "stock is gone: claim other stock",
        lambda: first(start={"stock": None}),
        ("ClaimStock",),
        UnitReason.CLAIM_LOST,
        30.0,
    ),
    # Children of other owners.
    (
        "an earlier unit's Deployment is left: wait until it is collected",
        lambda: first(deployment=deployment(owner="b")),
        (),
        UnitReason.DEPLOYMENT_PROGRESSING,
        15.0,
    ),
    (
        "an earlier unit's Service is left: wait until it is collected",
        lambda: first(service=child(Service, owner="b")),
        (),
        UnitReason.DEPLOYMENT_PROGRESSING,
        15.0,
    ),
    (
        "another owner's Deployment: write no child",
        lambda: first(deployment=foreign(deployment())),
        (),
        UnitReason.DEPLOYMENT_SYNC_FAILED,
        15.0,
    ),
    (
        "another owner's Service: keep the others, and let its refusal be found",
        lambda: first(service=foreign(child(Service))),
        (*NETWORK, "KeepDeployment"),
        RUNS,
        None,
    ),
    (
        "lacks a child because it is gone itself: do nothing",
        lambda: started(deployment=None, is_gone=True),
        (),
        "",
        None,
    ),
    # Running.
    ("started: keep all children", started, (*NETWORK, "KeepDeployment"), RUNS, None),
    (
        "its last port is gone: remove the Service",
        lambda: started(unit=unit()),
        ("KeepPolicy", "RemoveService", "KeepDeployment"),
        RUNS,
        None,
    ),
    (
        "suspended: keep all children",
        lambda: started(unit=unit(suspended=True, template=PORTS)),
        (*NETWORK, "KeepDeployment"),
        RUNS,
        None,
    ),
    (
        "stock: keep the Deployment only",
        lambda: Observed(unit=unit(namespace=STOCK), is_stock=True),
        ("KeepDeployment",),
        RUNS,
        None,
    ),
    (
        "worker: keep its Secret before all children",
        lambda: started(unit=unit(serverless=WORKER), service=None),
        ("KeepSecret", "KeepPolicy", "KeepDeployment"),
        RUNS,
        None,
    ),
    # Storages.
    (
        "its storages are free: take them before it starts",
        lambda: first(spec={"storageMounts": MOUNTS}, mounts=Takes((STORAGE,))),
        ("TakeStorages", *NETWORK, "KeepDeployment"),
        RUNS,
        None,
    ),
    (
        "its storages are free, an earlier unit's policy is left: take them, then wait",
        lambda: first(mounts=Takes((STORAGE,)), policy=child(NetworkPolicy, owner="b")),
        ("TakeStorages",),
        UnitReason.DEPLOYMENT_PROGRESSING,
        15.0,
    ),
    (
        "it holds its storages: keep all children",
        lambda: started(mounts=Mountable()),
        (*NETWORK, "KeepDeployment"),
        RUNS,
        None,
    ),
    (
        "first start, a storage is held: wait",
        lambda: first(mounts=HELD),
        (),
        WAITS_FOR_STORAGE,
        None,
    ),
    (
        "running, a storage is held: hold the Deployment",
        lambda: started(mounts=HELD),
        (*NETWORK, "HoldDeployment"),
        WAITS_FOR_STORAGE,
        None,
    ),
    (
        "without a Pod, a storage is held: hold the Deployment alone",
        lambda: started(mounts=HELD, deployment=deployment(replicas=0), pods=()),
        ("HoldDeployment",),
        WAITS_FOR_STORAGE,
        None,
    ),
    (
        "running, in a wait cycle that it ends: scale to zero",
        lambda: started(mounts=attrs.evolve(HELD, makes_way=True)),
        (*NETWORK, "KeepDeployment"),
        WAITS_FOR_STORAGE,
        None,
    ),
    (
        "running, a storage is held, the unit is gone: do nothing",
        lambda: started(mounts=HELD, policy=None, is_gone=True),
        (),
        "",
        None,
    ),
    # Declaring a function.
    (
        "declares a function: write no child",
        lambda: Observed(unit=unit(serverless=FUNCTION)),
        (),
        UnitReason.FUNCTION_DECLARED,
        None,
    ),
    (
        "declares a function, still runs: remove all but the policy",
        stopping,
        ("RemoveDeployment", "RemoveService"),
        UnitReason.DEPLOYMENT_PROGRESSING,
        None,
    ),
    (
        "declares a function, a Pod is left: keep the policy",
        lambda: stopping(deployment=None, service=None),
        (),
        UnitReason.DEPLOYMENT_PROGRESSING,
        None,
    ),
    (
        "declares a function, a Pod is left that no cache has: keep the policy",
        lambda: stopping(deployment=None, service=None, pods=(), has_unseen_pods=True),
        (),
        UnitReason.FUNCTION_DECLARED,
        None,
    ),
    (
        "declares a function, no Pod is left: remove the policy",
        lambda: stopping(deployment=None, service=None, pods=()),
        ("RemovePolicy",),
        UnitReason.FUNCTION_DECLARED,
        None,
    ),
)


@pytest.mark.parametrize(
    ("observed", "intents", "reason", "again_seconds"),
    [row[1:] for row in ROWS],
    ids=[row[0] for row in ROWS],
)
def test_a_unit_is_planned_by_what_was_observed(
    observed: Callable[[], Observed],
    intents: tuple[str, ...],
    reason: str,
    again_seconds: float | None,
) -> None:
    plan = decide(observed(), OPTIONS)
    assert (words(plan.intents), reason_of(plan), plan.again_seconds) == (
        intents,
        reason,
        again_seconds,
    )


def reason_of(plan: Plan) -> str:
    match plan.verdict:
        case Verdict(reason=reason):
            return reason
        case RunningVerdict():
            return RUNS
        case BlockedVerdict():
            return WAITS_FOR_STORAGE
        case None:
            return ""


@pytest.mark.parametrize(
    ("seen", "replicas"),
    [
        (started(), 1),
        (started(unit=unit(suspended=True)), 0),
        (started(mounts=attrs.evolve(HELD, makes_way=True)), 0),
    ],
    ids=["running", "suspended", "makes way for another unit"],
)
def test_the_deployment_has_a_pod_unless_the_unit_has_to_stop(
    seen: Observed, replicas: int
) -> None:
    (body,) = [
        each.child.body
        for each in decide(seen, OPTIONS).intents
        if isinstance(each, KeepDeployment)
    ]
    spec: Any = body["spec"]
    assert spec["replicas"] == replicas


@pytest.mark.parametrize(
    ("seen", "is_serving"),
    [
        ({}, True),
        ({"deployment": deployment(ready=False)}, False),
        ({"deployment": None, "pods": ()}, False),
    ],
    ids=["ready", "not ready", "without a Deployment"],
)
def test_a_worker_outlives_a_failure_of_its_secret_while_it_serves(
    seen: Any, is_serving: bool
) -> None:
    worker = started(**{"unit": unit(serverless=WORKER), "service": None, **seen})
    assert decide(worker, OPTIONS).intents[0] == KeepSecret(template=None, is_serving=is_serving)


def test_the_stock_that_a_unit_may_take_again_is_claimed_first() -> None:
    own = (stock_of(f"{INSTANCE}/a"),)
    seen = first(start={"stock": None, "own_stock": own})
    assert decide(seen, OPTIONS).intents == (ClaimStock(own),)


def written(*, deployment: Deployment | None = None, secret: float | None = None) -> Written:
    return Written(deployment=deployment, secret_seconds=secret)


REFUSAL = Verdict(reason=UnitReason.SERVICE_SYNC_FAILED, message="no")
After: TypeAlias = tuple[str, Observed, Outcome, str, float | None]
AFTER: tuple[After, ...] = (
    ("a child was refused: report it", started(), Refused(REFUSAL), "ServiceSyncFailed", 15.0),
    ("the unit has changed: report nothing", started(), Overtaken(None), "", None),
    ("a storage is no longer free: again at once", started(), Overtaken(0.0), "", 0.0),
    ("ready", started(), written(deployment=deployment()), "DeploymentReady", None),
    (
        "not ready yet",
        started(pods=()),
        written(deployment=deployment(ready=False)),
        "DeploymentProgressing",
        None,
    ),
    (
        "ready, with a Secret to renew",
        started(),
        written(deployment=deployment(), secret=9.0),
        "DeploymentReady",
        9.0,
    ),
    (
        "waits for a storage, and runs as before: look for a wait cycle",
        started(mounts=HELD),
        written(deployment=deployment()),
        "StorageNotReady",
        15.0,
    ),
    (
        "waits for a storage without a Pod",
        started(mounts=HELD, deployment=None, pods=()),
        written(),
        "StorageNotReady",
        None,
    ),
)


@pytest.mark.parametrize(
    ("observed", "outcome", "reason", "again_seconds"),
    [row[1:] for row in AFTER],
    ids=[row[0] for row in AFTER],
)
def test_the_report_follows_from_the_outcome_of_the_plan(
    observed: Observed, outcome: Outcome, reason: str, again_seconds: float | None
) -> None:
    plan = decide(observed, OPTIONS)
    verdict, seconds = conclude(plan, outcome, observed, now=NOW)
    assert (verdict.reason if verdict else "", seconds) == (reason, again_seconds)
