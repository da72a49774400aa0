"""Units as values, for decisions that need no cluster."""

from datetime import UTC, datetime, timedelta

from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitSpec, GPUUnitStatus
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import Key, ObjectMeta
from gpuruntime.models.kubernetes.timestamps import rfc3339_micro
from gpuruntime.operations.claim.plan import ClaimRequest

MOMENT = datetime(2025, 1, 1, tzinfo=UTC)
READY = (Condition(type="Ready", status="True", reason="DeploymentReady"),)
CLAIMANT = Key("runtime-instance", "demo")


def claim_request(**members: object) -> ClaimRequest:
    known = {
        "operation_id": "one",
        "request_hash": "h1",
        "claimant": CLAIMANT,
        "spec_name": "g1.1",
        "image": "python",
    }
    return ClaimRequest(**(known | members))  # type: ignore[arg-type]  # a test's shorthand


def stock(
    name: str = "p-1",
    *,
    age: int = 0,
    image: str = "",
    is_ready: bool = True,
    is_going: bool = False,
    memory: str = "16Gi",
    annotations: dict[str, str] | None = None,
) -> GPUUnit:
    """Return a stock unit that is `age` seconds older than the time of all tests."""
    return GPUUnit(
        metadata=ObjectMeta(
            name=name,
            namespace="runtime-stock",
            uid=f"uid-{name}",
            resourceVersion="1",
            creationTimestamp=MOMENT - timedelta(seconds=age),
            deletionTimestamp=MOMENT if is_going else None,
            labels={labels.POOL: name.rpartition("-")[0]},
            annotations=annotations or {},
        ),
        spec=GPUUnitSpec(specName="g1.1", image=image, memory=memory),
        status=GPUUnitStatus(conditions=READY if is_ready else ()),
    )


def claimed(
    name: str = "p-1",
    *,
    operation: str = "one",
    request_hash: str = "h1",
    attempt: str = "a.1",
    at: datetime = MOMENT,
) -> GPUUnit:
    marks = (str(CLAIMANT), attempt, operation, request_hash, rfc3339_micro(at))
    return stock(name, annotations=dict(zip(provenance.CLAIM_MARKS, marks, strict=True)))


def active(
    *,
    operation: str = "one",
    request_hash: str = "h1",
    source_uid: str = "uid-p-1",
    is_going: bool = False,
) -> GPUUnit:
    return GPUUnit(
        metadata=ObjectMeta(
            name=CLAIMANT.name,
            namespace=CLAIMANT.namespace,
            uid="uid-demo",
            deletionTimestamp=MOMENT if is_going else None,
            annotations={
                labels.OPERATION_ID: operation,
                labels.REQUEST_HASH: request_hash,
                labels.SOURCE_STOCK_UID: source_uid,
            },
        ),
        spec=GPUUnitSpec(specName="g1.1"),
    )
