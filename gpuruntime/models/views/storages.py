"""Storages as callers see them."""

from datetime import datetime
from typing import Annotated, TypeAlias

import attrs

from gpuruntime.models.definitions.schemas import Schema
from gpuruntime.models.kinds.phases import StoragePhase
from gpuruntime.models.kinds.storages import (
    Accessor,
    AccessorStatus,
    Holder,
    Prepare,
    PrepareStatus,
)
from gpuruntime.models.kubernetes.conditions import Condition

StoragePhaseText: TypeAlias = Annotated[str, Schema(enum=tuple(StoragePhase))]


@attrs.frozen(kw_only=True, slots=False)
class StorageView:
    """A storage: its wanted and its actual state; `phase` follows from `conditions`."""

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
