"""Rows of the console's lists: short, however long an object's texts are.

The page of an object reads the rest of it.
"""

from datetime import datetime
from typing import Final

import attrs

from gpuruntime.api.views.pools import pool_view
from gpuruntime.api.views.storages import storage_view
from gpuruntime.api.views.units import unit_view
from gpuruntime.models.kinds.functions import Serverless
from gpuruntime.models.kinds.pools import StockPool
from gpuruntime.models.kinds.storages import GPUStorage
from gpuruntime.models.kinds.units import GPUUnit, Timeline
from gpuruntime.models.views.units import Lifecycle
from gpuruntime.operations.lookup.counts import stock_state_of

# Characters of a message that a list has room for.
LONGEST: Final = 600


@attrs.frozen(kw_only=True, slots=False)
class UnitRow:
    """A unit. `function` is the one that it declares or works for; `stock` is a stock unit's
    state.
    """

    name: str
    tenant: str
    specName: str
    cpu: str
    memory: str
    gpu: int
    gpuProduct: str
    function: str
    isWorker: bool
    stock: str = ""
    phase: str
    reason: str
    message: str
    nodeName: str
    timeline: Timeline
    createdAt: datetime | None


@attrs.frozen(kw_only=True, slots=False)
class PoolRow:
    name: str
    specName: str
    cpu: str
    memory: str
    gpu: int
    gpuProduct: str
    replicas: int
    refill: str
    phase: str
    reason: str
    message: str
    available: int
    claimed: int
    progressing: int
    failed: int
    stale: int
    consumed: int
    createdAt: datetime | None


@attrs.frozen(kw_only=True, slots=False)
class StorageRow:
    """A storage; `filledFrom` is empty if it has no prepare."""

    name: str
    tenant: str
    size: str
    filledFrom: str
    prepare: str
    mountedBy: tuple[str, ...]
    phase: str
    reason: str
    message: str
    createdAt: datetime | None


def unit_row(unit: GPUUnit) -> UnitRow:
    view = unit_view(unit, Lifecycle.INSTANCE)
    function = view.serverless
    return UnitRow(
        name=view.name,
        tenant=view.tenant,
        specName=view.specName,
        cpu=view.cpu,
        memory=view.memory,
        gpu=view.gpu,
        gpuProduct=view.gpuProduct,
        function=function.requestID if function else "",
        isWorker=_is_worker(function),
        phase=view.phase,
        reason=view.reason,
        message=shortened(view.message),
        nodeName=view.nodeName,
        timeline=view.timeline,
        createdAt=view.createdAt,
    )


def stock_row(unit: GPUUnit) -> UnitRow:
    return attrs.evolve(unit_row(unit), stock=stock_state_of(unit))


def pool_row(pool: StockPool) -> PoolRow:
    view = pool_view(pool)
    return PoolRow(
        name=view.name,
        specName=view.specName,
        cpu=view.cpu,
        memory=view.memory,
        gpu=view.gpu,
        gpuProduct=view.gpuProduct,
        replicas=view.replicas,
        refill=view.refill,
        phase=view.phase,
        reason=view.reason,
        message=shortened(view.message),
        available=view.available,
        claimed=view.claimed,
        progressing=view.progressing,
        failed=view.failed,
        stale=view.stale,
        consumed=view.consumed,
        createdAt=view.createdAt,
    )


def storage_row(storage: GPUStorage) -> StorageRow:
    view = storage_view(storage)
    prepare = view.prepare
    return StorageRow(
        name=view.name,
        tenant=view.tenant,
        size=view.capacity or view.size,
        filledFrom=(prepare.fromImage or prepare.fromStorageName) if prepare else "",
        prepare=view.prepareStatus.phase,
        mountedBy=view.mountedBy,
        phase=view.phase,
        reason=view.reason,
        message=shortened(view.message),
        createdAt=view.createdAt,
    )


def shortened(message: str) -> str:
    return message if len(message) <= LONGEST else f"{message[: LONGEST - 1]}…"


def _is_worker(function: Serverless | None) -> bool:
    return function is not None and function.workerOf is not None
