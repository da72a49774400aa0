"""Bodies of the objects that the use cases write."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import attrs

from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.encoding.members import compact, shared
from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.functions import Serverless
from gpuruntime.models.kinds.pools import STOCK_POOLS, Refill, StockPool, StockPoolSpec
from gpuruntime.models.kinds.storages import GPUStorage
from gpuruntime.models.kinds.units import ENVELOPE, GPU_UNITS, GPUUnit, GPUUnitSpec
from gpuruntime.models.kubernetes.metadata import Key, OwnerReference
from gpuruntime.models.kubernetes.names import label_value_of
from gpuruntime.models.kubernetes.resources import Resource
from gpuruntime.models.kubernetes.timestamps import rfc3339_micro
from gpuruntime.models.requests.pools import CreatePool, SeedStock
from gpuruntime.models.requests.units import CreateUnit
from gpuruntime.operations.hashing import derived_name, request_hash
from gpuruntime.operations.lookup.scopes import EVERYTHING, Scope
from gpuruntime.operations.storage_identity import uid_marks

# This annotation has the kind of request that created a pool, which is the type of its job.
OPERATION_TYPE: Final = f"{labels.GROUP}/operation-type"
SEED_STOCK_UNITS: Final = "seed_stock_units"
CREATE_STOCK_POOL: Final = "create_stock_pool"


@attrs.frozen(kw_only=True, slots=True)
class UnitOrder:
    """An accepted request for a unit."""

    request: CreateUnit
    request_hash: str
    key: Key
    accepted_at: datetime
    # Whose storages the unit may mount.
    scope: Scope = EVERYTHING
    # For a worker, the uids of storages that are recorded on the unit that declares its function.
    storage_uids: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def is_callers(self) -> bool:
        """Return whether a caller asked for the unit; the platform asks for workers."""
        return self.request.serverless is None or self.request.serverless.workerOf is None

    @property
    def takes_stock(self) -> bool:
        """Return whether the unit takes stock; one that declares a function is only a template."""
        return self.request.serverless is None or self.request.serverless.workerOf is not None


def unit_order(
    request: CreateUnit,
    namespace: str,
    accepted_at: datetime,
    scope: Scope = EVERYTHING,
    storage_uids: Mapping[str, str] | None = None,
) -> UnitOrder:
    return UnitOrder(
        request=request,
        request_hash=request_hash(request),
        key=Key(namespace, request.name or derived_name(request.operationID)),
        accepted_at=accepted_at,
        scope=scope,
        storage_uids=storage_uids or {},
    )


def active_unit(
    order: UnitOrder, stock: GPUUnit | None, storage_uids: Mapping[str, str]
) -> JsonObject:
    """Return the unit with its stock's envelope, the caller's part, and the sources of both."""
    request = order.request
    envelope = {name: getattr(stock.spec, name) for name in ENVELOPE} if stock else {}
    spec = GPUUnitSpec(**{**envelope, **shared(request, GPUUnitSpec)})
    tenant = {labels.TENANT: request.tenant} if request.tenant else {}
    metadata: JsonObject = {
        "name": order.key.name,
        "namespace": order.key.namespace,
        "labels": {
            labels.APP_NAME: labels.UNIT_APP,
            labels.MANAGED_BY: labels.MANAGER,
            labels.UNIT: order.key.name,
            labels.SPEC: request.specName,
            **tenant,
            **function_marks(spec),
        },
        "annotations": {
            labels.OPERATION_ID: request.operationID,
            labels.REQUEST_HASH: order.request_hash,
            labels.ACCEPTED_AT: rfc3339_micro(order.accepted_at),
            **(provenance.source_marks(stock) if stock else {}),
            **uid_marks(storage_uids),
        },
        **_ownership(request.serverless),
    }
    return body_of(GPU_UNITS, metadata, compact(spec))


def _ownership(function: Serverless | None) -> JsonObject:
    """Return the owner reference that deletes a worker together with its function's unit."""
    if function is None or function.workerOf is None:
        return {}
    owner = OwnerReference(
        apiVersion=GPU_UNITS.api_version,
        kind=GPU_UNITS.kind,
        name=function.workerOf.name,
        uid=function.workerOf.uid,
        controller=True,
    )
    return {"ownerReferences": [codec.to_json(owner)]}


def function_marks(spec: GPUUnitSpec) -> dict[str, str]:
    """Return the label by which a live list finds the template of a function."""
    if spec.serverless is None or not spec.is_function_template:
        return {}
    return {labels.FUNCTION: label_value_of(spec.serverless.requestID)}


@attrs.frozen(kw_only=True, slots=True)
class PoolOrder:
    """An accepted request for a pool, in either form."""

    request: SeedStock | CreatePool
    request_hash: str
    key: Key

    @property
    def operation_id(self) -> str:
        return self.request.operationID


def pool_order(request: SeedStock | CreatePool, namespace: str) -> PoolOrder:
    return PoolOrder(
        request=request,
        request_hash=request_hash(request),
        key=Key(namespace, request.name or derived_name(request.operationID)),
    )


def new_pool(order: PoolOrder) -> JsonObject:
    request, key = order.request, order.key
    once = {"refill": Refill.NEVER} if isinstance(request, SeedStock) else {}
    spec = StockPoolSpec(**{**shared(request, StockPoolSpec), **once})
    metadata: JsonObject = {
        "name": key.name,
        "namespace": key.namespace,
        "labels": {
            labels.MANAGED_BY: labels.MANAGER,
            labels.POOL: key.name,
            labels.SPEC: request.specName,
        },
        "annotations": {
            labels.OPERATION_ID: request.operationID,
            labels.REQUEST_HASH: order.request_hash,
            OPERATION_TYPE: operation_type(request),
        },
    }
    return body_of(STOCK_POOLS, metadata, compact(spec))


def operation_type(request: SeedStock | CreatePool) -> str:
    return SEED_STOCK_UNITS if isinstance(request, SeedStock) else CREATE_STOCK_POOL


def operation_type_of(pool: StockPool) -> str:
    return pool.metadata.annotations.get(OPERATION_TYPE, "")


def replacement(resource: Resource[Any], value: GPUUnit | StockPool | GPUStorage) -> JsonObject:
    """Return the body of a PUT, guarded by the value's version and without the status."""
    return body_of(resource, codec.to_json(value.metadata), compact(value.spec))


def body_of(resource: Resource[Any], metadata: JsonObject, spec: JsonObject) -> JsonObject:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata,
        "spec": spec,
    }
