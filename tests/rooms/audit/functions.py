"""A function in a sound snapshot: a template with two workers, as the product creates them."""

from collections.abc import Callable
from typing import Any

import attrs
import msgspec

from gpuruntime.audit.snapshot import Snapshot
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.functions import Serverless, WorkerOf, worker_name
from gpuruntime.models.kinds.units import GPUUnit, selector_of
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import OwnerReference
from gpuruntime.models.kubernetes.pods import Pod
from gpuruntime.models.kubernetes.workloads import Deployment
from gpuruntime.reconcilers.options import UnitOptions
from gpuruntime.reconcilers.unit.children import deployment_of
from gpuruntime.reconcilers.unit.pod_template import Placement
from tests.options import configured
from tests.rooms.audit.values import (
    LATER,
    MADE,
    active_unit,
    added,
    change,
    child_metadata,
    policy,
    ready,
    sound,
    status,
    with_metadata,
    with_notes,
    with_spec,
    with_status,
)

TEMPLATE = "echo"
FIRST, SECOND = (worker_name(TEMPLATE, number) for number in (1, 2))
FUNCTION = Serverless(requestID="f", minAvailableCount=2, maxWorkers=3, timeoutSeconds=30)
# Twice the function's timeout, and twice the slack.
DRAIN_SECONDS = 180


def template(name: str = TEMPLATE) -> GPUUnit:
    """Return a template as the API creates it: without stock, and so without quantities."""
    declared = status(readyReplicas=0, conditions=ready("FunctionDeclared"))
    unit = _without_source(active_unit(name, 0, operation=f"make {name}", started=False))
    spec = {"cpu": "", "memory": "", "gpu": 0, "image": "v1", "serverless": FUNCTION}
    made: GPUUnit = attrs.evolve(with_spec(unit, **spec), status=declared)
    return made


def worker(number: int, *, of: str = TEMPLATE) -> GPUUnit:
    name = worker_name(of, number)
    unit = _without_source(active_unit(name, 0, operation=f"make {name}", started=True))
    owner = WorkerOf(name=of, uid=f"uid-{of}")
    unit = with_spec(unit, image="v1", serverless=attrs.evolve(FUNCTION, workerOf=owner))
    controller = OwnerReference(kind="GPUUnit", name=of, uid=f"uid-{of}", controller=True)
    made: GPUUnit = with_metadata(unit, ownerReferences=(controller,))
    return made


def deployment(unit: GPUUnit) -> Deployment:
    made = deployment_of(unit, configured(UnitOptions), Placement(), selector_of(unit))
    spec = msgspec.Raw(msgspec.json.encode(made.body["spec"]))
    return Deployment(metadata=child_metadata(unit.metadata.name), spec=spec)


def with_pod_spec(name: str, edit: Callable[[Any], None]) -> Callable[[Snapshot], Snapshot]:
    """Return the Deployment of a unit, with its Pods' spec edited in place."""

    def how(held: Deployment) -> Deployment:
        spec: JsonObject = msgspec.json.decode(bytes(held.spec))
        edit(spec["template"]["spec"])  # type: ignore[index, call-overload]  # plain JSON
        return attrs.evolve(held, spec=msgspec.Raw(msgspec.json.encode(spec)))

    return lambda snapshot: change(snapshot, "deployments", f"unit-{name}", how)


def joined(snapshot: Snapshot, unit: GPUUnit) -> Snapshot:
    """Return the snapshot with a worker and its children added."""
    metadata = child_metadata(unit.metadata.name)
    for kind, value in (
        ("units", unit),
        ("deployments", deployment(unit)),
        ("policies", policy(unit.metadata.name)),
        ("pods", Pod(metadata=metadata)),
    ):
        snapshot = added(snapshot, kind, value)
    return snapshot


def serving() -> Snapshot:
    snapshot = added(sound(), "units", template())
    return joined(joined(snapshot, worker(1)), worker(2))


def draining(snapshot: Snapshot, name: str) -> Snapshot:
    marks: dict[str, str | None] = {labels.DRAINING: "2025-01-01T02:00:00Z"}
    return change(snapshot, "units", name, lambda unit: with_notes(unit, marks))


def failing(snapshot: Snapshot, name: str) -> Snapshot:
    reason = Condition(
        type="Ready", status="False", reason="PodStartupFailed", observedGeneration=1
    )
    told = {"phase": "Failed", "readyReplicas": 0, "conditions": (reason,)}
    return change(snapshot, "units", name, lambda unit: with_status(unit, **told))


def older(unit: GPUUnit) -> GPUUnit:
    assert MADE < LATER
    made: GPUUnit = with_metadata(unit, creationTimestamp=MADE)
    return made


def _without_source(unit: GPUUnit) -> GPUUnit:
    marks: dict[str, str | None] = {labels.SOURCE_STOCK: None, labels.SOURCE_STOCK_UID: None}
    made: GPUUnit = with_notes(unit, marks)
    return made
