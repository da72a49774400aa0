"""What callers see of units, pools and storages: the answers of the API, as both sides read them.

The models of answers have no slots, so that their members are sent in the order of their fields.
Words of which later versions may have more are text, so that an older caller can read them.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, TypeAlias

import attrs

from gpuruntime.models.definitions.schemas import Schema
from gpuruntime.models.kinds.functions import Serverless
from gpuruntime.models.kinds.phases import PoolPhase, StoragePhase, UnitPhase
from gpuruntime.models.kinds.storages import (
    Accessor,
    AccessorStatus,
    Holder,
    Prepare,
    PrepareStatus,
)
from gpuruntime.models.kinds.templates import Template
from gpuruntime.models.kinds.units import Access, StorageMount, Timeline
from gpuruntime.models.kubernetes.conditions import Condition


class Lifecycle(StrEnum):
    """Units that serve somebody, units that wait in stock, or both."""

    INSTANCE = "instance"
    STOCK = "stock"
    ALL = "all"


LifecycleText: TypeAlias = Annotated[str, Schema(enum=tuple(Lifecycle))]
UnitPhaseText: TypeAlias = Annotated[str, Schema(enum=tuple(UnitPhase))]
PoolPhaseText: TypeAlias = Annotated[str, Schema(enum=tuple(PoolPhase))]
StoragePhaseText: TypeAlias = Annotated[str, Schema(enum=tuple(StoragePhase))]


@attrs.frozen(kw_only=True, slots=False)
class SourceStock:
    """The stock unit whose envelope the unit took over."""

    name: str
    namespace: str
    uid: str


@attrs.frozen(kw_only=True, slots=False)
class UnitView:
    """A unit as it is wished for and as it is; `phase` follows from `conditions`."""

    name: str
    namespace: str
    lifecycle: LifecycleText
    tenant: str
    specName: str
    image: str
    cpu: str
    memory: str
    gpu: int
    gpuProduct: str
    template: Template
    access: Access
    storageMounts: tuple[StorageMount, ...]
    serverless: Serverless | None
    suspended: bool
    phase: UnitPhaseText
    reason: str
    message: str
    conditions: tuple[Condition, ...]
    readyReplicas: int
    generation: int
    observedGeneration: int
    nodeName: str
    serviceName: str
    accessURL: str
    operationID: str
    sourceStock: SourceStock | None
    timeline: Timeline
    createdAt: datetime | None


@attrs.frozen(kw_only=True, slots=False)
class PoolView:
    """A pool as it is wished for, and how its stock stands."""

    name: str
    namespace: str
    operationID: str
    specName: str
    cpu: str
    memory: str
    gpu: int
    gpuProduct: str
    replicas: int
    refill: str
    image: str
    template: Template
    phase: PoolPhaseText
    reason: str
    message: str
    conditions: tuple[Condition, ...]
    available: int
    claimed: int
    progressing: int
    failed: int
    seeded: int
    consumed: int
    generation: int
    observedGeneration: int
    createdAt: datetime | None


@attrs.frozen(kw_only=True, slots=False)
class StorageView:
    """A storage as it is wished for and as it is; `phase` follows from `conditions`."""

    name: str
    namespace: str
    tenant: str
    operationID: str
    size: str
    storageClassName: str
    prepare: Prepare | None
    accessor: Accessor
    phase: StoragePhaseText
    reason: str
    message: str
    conditions: tuple[Condition, ...]
    claimName: str
    capacity: str
    holder: Holder | None
    mountedBy: tuple[str, ...]
    prepareStatus: PrepareStatus
    accessorStatus: AccessorStatus
    generation: int
    observedGeneration: int
    createdAt: datetime | None


@attrs.frozen(kw_only=True, slots=False)
class EventView:
    """`objectKind` and `objectName` tell what it is about: the unit, or a Pod of it."""

    type: str
    reason: str
    message: str
    objectKind: str
    objectName: str
    component: str
    count: int
    firstSeenAt: datetime | None
    lastSeenAt: datetime | None


@attrs.frozen(kw_only=True, slots=False)
class ErrorDetail:
    """One field at fault: its path in the body, or the name of a parameter or header."""

    field: str
    message: str


@attrs.frozen(kw_only=True, slots=False)
class ErrorView:
    """`code` is what to branch on; the message is for people."""

    code: str
    message: str
    details: tuple[ErrorDetail, ...] = ()


@attrs.frozen(kw_only=True, slots=False)
class ErrorBody:
    error: ErrorView
