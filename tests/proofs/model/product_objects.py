"""Values of the model as objects of the product, so that both can decide about the same case."""

from datetime import UTC, datetime, timedelta
from typing import Final

import attrs

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.pools import Refill, StockPool, StockPoolSpec, StockPoolStatus
from gpuruntime.models.kinds.reasons import UnitReason
from gpuruntime.models.kinds.tombstones import DeletedObject, Tombstone
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitSpec, GPUUnitStatus, Timeline
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import Key, ObjectMeta
from gpuruntime.operations.claim.plan import ClaimRequest
from tests.proofs.model.state import NAMES, Mark, Order, Scope, Stock, Unit

BEGUN: Final = datetime(2025, 1, 1, tzinfo=UTC)
READY: Final = Condition(type="Ready", status="True", observedGeneration=1)
SPEC: Final = GPUUnitSpec(specName="g1")


def key_of(name: int) -> Key:
    return Key("instance", NAMES[name])


def unit_of(unit: Unit, name: int) -> GPUUnit:
    """Return the unit. In one second the later name has the smaller uid, as in the model."""
    lost = Condition(type="Ready", status="False", reason=UnitReason.OPERATION_CONFLICT)
    return GPUUnit(
        metadata=ObjectMeta(
            name=NAMES[name],
            namespace="instance",
            uid=_unit_uid(name, unit.uid),
            creationTimestamp=BEGUN + timedelta(seconds=unit.rank),
            annotations={
                labels.OPERATION_ID: unit.operation,
                labels.REQUEST_HASH: unit.body,
                labels.SOURCE_STOCK: f"stock/p-{unit.source // 10}",
                labels.SOURCE_STOCK_UID: str(unit.source),
            },
        ),
        spec=SPEC,
        status=GPUUnitStatus(
            conditions=(lost,) if unit.has_lost else (),
            timeline=Timeline(createdAt=BEGUN if unit.has_started else None),
        ),
    )


def stock_of(stock: Stock, ordinal: int) -> GPUUnit:
    """Return the stock unit; `ordinal` counts from 1."""
    marks = _marks(stock.mark) if stock.mark else {}
    return GPUUnit(
        metadata=ObjectMeta(
            name=f"p-{ordinal}",
            namespace="stock",
            uid=str(stock.uid),
            generation=1 if stock.is_current else 2,
            resourceVersion=str(stock.version),
            labels={labels.POOL: "p"},
            annotations={labels.POOL_UID: "pool", **marks},
        ),
        spec=attrs.evolve(SPEC, image="old") if stock.is_stale else SPEC,
        status=GPUUnitStatus(conditions=(READY,)),
    )


def pool_of(scope: Scope, seeded: int) -> StockPool:
    refill = Refill.ALWAYS if scope.is_refilled else Refill.NEVER
    return StockPool(
        metadata=ObjectMeta(name="p", namespace="stock", uid="pool"),
        spec=StockPoolSpec(specName="g1", replicas=scope.replicas, refill=refill),
        status=StockPoolStatus(seeded=seeded),
    )


def tombstone_of(operation: str, name: int, uid: int) -> Tombstone:
    buried = DeletedObject(
        kind="GPUUnit",
        namespace="instance",
        name=NAMES[name],
        uid=_unit_uid(name, uid),
        requestHash="",
    )
    return Tombstone(operation_id=operation, expires_at=BEGUN, buried=(buried,))


def claim_request_of(order: Order) -> ClaimRequest:
    return ClaimRequest(
        operation_id=order.operation,
        request_hash=order.body,
        claimant=key_of(order.name),
        spec_name="g1",
    )


def _marks(mark: Mark) -> dict[str, str]:
    return {
        labels.CLAIMED_BY: str(key_of(mark.name)),
        labels.OPERATION_ID: mark.operation,
        labels.REQUEST_HASH: mark.body,
    }


def _unit_uid(name: int, uid: int) -> str:
    return f"{9 - name}-{uid}"
