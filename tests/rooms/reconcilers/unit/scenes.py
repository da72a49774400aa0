"""Units with the objects around them, in the states that a unit may be in."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import attrs

from gpuruntime.models.encoding import codec
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.functions import Serverless, WorkerOf
from gpuruntime.models.kinds.storages import GPUStorage, GPUStorageSpec, GPUStorageStatus, Holder
from gpuruntime.models.kinds.templates import Port, Template
from gpuruntime.models.kinds.units import (
    GPUUnit,
    GPUUnitSpec,
    GPUUnitStatus,
    StorageMount,
    Timeline,
    selector_of,
)
from gpuruntime.models.kubernetes.cluster import PriorityClass
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.kubernetes.network import NetworkPolicy, Service
from gpuruntime.models.kubernetes.pods import (
    ContainerState,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
    Running,
    Terminated,
    Waiting,
)
from gpuruntime.models.kubernetes.workloads import Deployment, DeploymentStatus
from gpuruntime.reconcilers.children.drift import Child
from gpuruntime.reconcilers.options import SidecarOptions, UnitOptions
from gpuruntime.reconcilers.unit.children import deployment_of, is_served, policy_of, service_of
from gpuruntime.reconcilers.unit.pod_template import Placement
from tests.options import configured
from tests.rooms.operations.cluster import INSTANCE, STOCK

NOW: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)
CREATED: Final = NOW - timedelta(hours=1)
OPTIONS: Final = configured(
    UnitOptions, sidecar=configured(SidecarOptions, broker_url="nats://broker")
)
STARTED: Final = GPUUnitStatus(timeline=Timeline(createdAt=CREATED))
PORTS: Final = Template(ports=(Port(name="http", port=80),))


def meta(name: str, *, namespace: str = INSTANCE, **more: Any) -> ObjectMeta:
    given = {"uid": f"uid-{name}", "creationTimestamp": CREATED, "generation": 1, **more}
    return ObjectMeta(name=name, namespace=namespace, **given)


def unit(
    name: str = "a",
    *,
    namespace: str = INSTANCE,
    status: GPUUnitStatus = STARTED,
    marks: Any = None,
    **spec: Any,
) -> GPUUnit:
    return GPUUnit(
        metadata=meta(name, namespace=namespace, annotations=marks or {}),
        spec=GPUUnitSpec(specName="g1", image="i", **spec),
        status=status,
    )


def rollout(*, ready: int = 0, replicas: int = 1, **more: Any) -> DeploymentStatus:
    given = {"observedGeneration": 1, "replicas": replicas, "updatedReplicas": replicas, **more}
    return DeploymentStatus(readyReplicas=ready, **given)


def children(
    of: GPUUnit, status: DeploymentStatus | None = None, *, generation: int = 1
) -> tuple[Any, ...]:
    """Return the children as the reconciler creates them; the Deployment is ready by default."""
    selector = selector_of(of)
    deployed = live(deployment_of(of, OPTIONS, Placement(), selector), Deployment)
    metadata = attrs.evolve(deployed.metadata, generation=generation)
    deployed = attrs.evolve(deployed, metadata=metadata, status=status or rollout(ready=1))
    if of.metadata.namespace == STOCK:
        return (deployed,)
    is_open = is_served(of, OPTIONS)
    served = (live(service_of(of, OPTIONS, selector), Service),) if is_open else ()
    return (deployed, live(policy_of(of, OPTIONS, selector), NetworkPolicy), *served)


def live(child: Child, model: type[Any]) -> Any:
    created = codec.decode(codec.encode(child.annotated()), model)
    metadata = attrs.evolve(created.metadata, uid=f"uid-{model.__name__}", creationTimestamp=NOW)
    return attrs.evolve(created, metadata=metadata)


def pod(of: GPUUnit, *, phase: str = "Running", age: int = 0, **container: Any) -> Pod:
    """Return a Pod of the unit with one container, which is ready unless something is given."""
    running = ContainerState(running=Running(startedAt=CREATED))
    given = {"ready": not container, "state": running, **container}
    ready = Condition(type="Ready", status=str(given["ready"]), lastTransitionTime=CREATED)
    scheduled = Condition(type="PodScheduled", status="True", lastTransitionTime=CREATED)
    return Pod(
        metadata=meta(
            "pod",
            namespace=of.metadata.namespace,
            labels=selector_of(of),
            creationTimestamp=CREATED - timedelta(seconds=age),
        ),
        spec=PodSpec(nodeName="node-1"),
        status=PodStatus(
            phase=phase,
            conditions=(scheduled, ready),
            containerStatuses=(ContainerStatus(name="runtime", **given),),
        ),
    )


def unschedulable(of: GPUUnit) -> Pod:
    refused = Condition(
        type="PodScheduled", status="False", reason="Unschedulable", lastTransitionTime=CREATED
    )
    waiting = PodStatus(phase="Pending", conditions=(refused,))
    return attrs.evolve(pod(of), spec=PodSpec(), status=waiting)


def storage(*, holder: str, name: str = "s") -> GPUStorage:
    ready = Condition(type="Ready", status="True", reason="VolumeReady")
    status = GPUStorageStatus(holder=Holder(name=holder, uid=f"uid-{holder}"), conditions=(ready,))
    return GPUStorage(metadata=meta(name), spec=GPUStorageSpec(size="1Gi"), status=status)


def claimed(stock: str, name: str = "a", *, age: int = 0, **spec: Any) -> GPUUnit:
    marks = {
        labels.OPERATION_ID: "op",
        labels.SOURCE_STOCK: f"{STOCK}/{stock}",
        labels.SOURCE_STOCK_UID: f"uid-{stock}",
    }
    own = unit(name, status=GPUUnitStatus(), marks=marks, **spec)
    created = CREATED - timedelta(seconds=age)
    return attrs.evolve(own, metadata=attrs.evolve(own.metadata, creationTimestamp=created))


def held_stock(unit_name: str = "a") -> GPUUnit:
    marks = {labels.OPERATION_ID: "op", labels.CLAIMED_BY: f"{INSTANCE}/{unit_name}"}
    return unit("p-1", namespace=STOCK, marks=marks)


RUNNING: Final = unit(template=PORTS)
SUSPENDED: Final = unit(template=PORTS, suspended=True)
MOUNTING: Final = unit(storageMounts=(StorageMount(name="s", mountPath="/s"),))
OTHER: Final = attrs.evolve(MOUNTING, metadata=meta("b"))
TEMPLATE: Final = unit("f", serverless=Serverless(requestID="f"))
ELDER: Final = attrs.evolve(
    TEMPLATE, metadata=meta("e", creationTimestamp=CREATED - timedelta(days=1))
)
WORKER: Final = unit(
    serverless=Serverless(requestID="f", workerOf=WorkerOf(name="f", uid="uid-f"))
)
NEW: Final = unit(template=PORTS, status=GPUUnitStatus())
CLAIMED: Final = claimed("p-1", template=PORTS)
CONSUMER: Final = attrs.evolve(CLAIMED, status=STARTED)
PRIORITY: Final = PriorityClass(metadata=meta(OPTIONS.instance_priority, namespace=""))
IN_STOCK: Final = unit("p-1", namespace=STOCK)
CRASH: Final = ContainerState(terminated=Terminated(exitCode=3, reason="Error", message="no"))
LOOP: Final[dict[str, Any]] = {
    "ready": False,
    "restartCount": 2,
    "state": ContainerState(waiting=Waiting(reason="CrashLoopBackOff", message="back-off")),
    "lastState": CRASH,
}
PULLING: Final[dict[str, Any]] = {
    "ready": False,
    "state": ContainerState(waiting=Waiting(reason="ContainerCreating")),
}
QUOTA: Final = Condition(type="ReplicaFailure", status="True", message="over quota")

SCENES: Final[dict[str, tuple[Any, ...]]] = {
    "a ready unit": (RUNNING, *children(RUNNING), pod(RUNNING), PRIORITY),
    "a ready unit beside its stock": (CONSUMER, *children(CONSUMER), pod(CONSUMER), held_stock()),
    "a unit whose Pod starts": (
        RUNNING,
        *children(RUNNING, rollout()),
        pod(RUNNING, phase="Pending", **PULLING),
    ),
    "a unit whose container listens on another port": (
        RUNNING,
        *children(RUNNING, rollout()),
        pod(RUNNING, ready=False),
    ),
    "a unit without a Pod yet": (RUNNING, *children(RUNNING, rollout(replicas=0))),
    "a unit over its quota": (
        RUNNING,
        *children(RUNNING, rollout(replicas=0, conditions=(QUOTA,))),
    ),
    "a unit that no node takes": (RUNNING, *children(RUNNING, rollout()), unschedulable(RUNNING)),
    "a resumed unit that no node takes before its Deployment is rolled out": (
        RUNNING,
        *children(RUNNING, rollout(), generation=3),
        unschedulable(RUNNING),
    ),
    "a ready unit that crashed": (
        RUNNING,
        *children(RUNNING),
        pod(RUNNING, ready=True, restartCount=1, lastState=CRASH),
    ),
    "a unit in a crash loop": (RUNNING, *children(RUNNING, rollout()), pod(RUNNING, **LOOP)),
    "a unit in a crash loop before its new template is rolled out": (
        RUNNING,
        *children(RUNNING, rollout(), generation=2),
        pod(RUNNING, **LOOP),
    ),
    "a unit whose Pod has failed": (
        RUNNING,
        *children(RUNNING, rollout()),
        pod(RUNNING, phase="Failed", ready=False),
    ),
    "a suspended unit": (SUSPENDED, *children(SUSPENDED, rollout(replicas=0)), pod(SUSPENDED)),
    "a new unit": (NEW,),
    "a new unit and a Pod of an earlier one": (NEW, pod(NEW, age=9)),
    "a unit that has lost its stock": (CLAIMED, held_stock("b")),
    "a unit beside an older rival": (CLAIMED, claimed("p-2", "b", age=9), held_stock()),
    "a unit that holds its storage": (
        MOUNTING,
        *children(MOUNTING),
        pod(MOUNTING),
        storage(holder="a"),
    ),
    "a unit that waits for its storage": (
        MOUNTING,
        *children(MOUNTING, rollout(replicas=0)),
        storage(holder="b"),
        OTHER,
    ),
    "a running unit that waits for a storage": (
        MOUNTING,
        *children(MOUNTING),
        pod(MOUNTING),
        storage(holder="b"),
        OTHER,
    ),
    "a worker": (WORKER, *children(WORKER), pod(WORKER), TEMPLATE),
    "a template": (TEMPLATE, unit("g", serverless=Serverless(requestID="f"))),
    "a template of a function that an older one owns": (TEMPLATE, ELDER),
    "a template whose Pod still runs": (TEMPLATE, *children(TEMPLATE), pod(TEMPLATE)),
    "a stock unit": (IN_STOCK, *children(IN_STOCK), pod(IN_STOCK)),
}
