"""Caches that the use cases read; they may lag, and follow informers and our own writes."""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from typing import Final, Protocol, TypeAlias, TypeVar

import attrs

from gpuruntime.audit.snapshot import Snapshot
from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.pools import StockPool
from gpuruntime.models.kinds.storages import GPUStorage
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.metadata import Key, KubernetesObject

ObjectT = TypeVar("ObjectT", bound=KubernetesObject)
ReadT_co = TypeVar("ReadT_co", bound=KubernetesObject, covariant=True)

# A handler receives the key, the object before and the object now, each None if there is none.
Handler: TypeAlias = Callable[[Key, ObjectT | None, ObjectT | None], None]

FREE: Final = "free"
OPERATION: Final = "operation"
SPEC: Final = "spec"
SOURCE_UID: Final = "source-uid"
FUNCTION: Final = "function"
POOL: Final = "pool"
STORAGE: Final = "storage"
WORKER_OF: Final = "worker-of"


class Store(Protocol[ReadT_co]):
    """The objects of a cache. A view of them is valid until the reader's next await."""

    def get(self, key: Key) -> ReadT_co | None: ...

    def by_index(self, name: str, value: Hashable) -> Collection[ReadT_co]:
        """Return the objects under the value, in the order in which they came under it."""
        ...

    def values(self) -> Collection[ReadT_co]: ...

    def __len__(self) -> int: ...


class Cache(Protocol[ObjectT]):
    """The part of an informer that the use cases need."""

    @property
    def store(self) -> Store[ObjectT]: ...

    def add_handler(self, handler: Handler[ObjectT]) -> None:
        """Add a handler; call this before the informer runs."""
        ...

    def write_through(self, written: ObjectT) -> bool:
        """Take in the answer of our own write, unless a newer version is known."""
        ...


@attrs.frozen(kw_only=True, slots=True)
class Caches:
    """The caches of a process. `stock` and `units` hold units of different namespaces."""

    stock: Cache[GPUUnit]
    units: Cache[GPUUnit]
    pools: Cache[StockPool]
    storages: Cache[GPUStorage]

    def snapshot(self) -> Snapshot:
        """Return a snapshot for the audit in a process without children and tombstones."""
        return Snapshot(
            stock=tuple(self.stock.store.values()),
            units=tuple(self.units.store.values()),
            pools=tuple(self.pools.store.values()),
            storages=tuple(self.storages.store.values()),
        )


def _by_operation(value: KubernetesObject) -> Iterator[str]:
    if operation := provenance.operation_of(value):
        yield operation


def _if_free(stock: GPUUnit) -> Iterator[str]:
    """Index free stock by specName, and by specName and image, which claims prefer."""
    if provenance.is_free(stock):
        yield stock.spec.specName
        yield free_with(stock.spec.specName, stock.spec.image)


def _by_spec(value: GPUUnit | StockPool) -> Iterator[str]:
    yield value.spec.specName


def _by_pool(stock: GPUUnit) -> Iterator[str]:
    if pool := stock.metadata.labels.get(labels.POOL):
        yield pool


def _by_source_uid(unit: GPUUnit) -> Iterator[str]:
    if uid := provenance.source_uid_of(unit):
        yield uid


def _by_function(unit: GPUUnit) -> Iterator[str]:
    """Index a function by the unit that declares it, not by its workers."""
    if unit.spec.serverless and unit.spec.is_function_template:
        yield unit.spec.serverless.requestID


def _by_storage(unit: GPUUnit) -> Iterator[str]:
    for mount in unit.spec.storageMounts:
        yield mount.name


def _by_template(unit: GPUUnit) -> Iterator[str]:
    """Index a worker by the uid of the template that it was created from."""
    if unit.spec.serverless and unit.spec.serverless.workerOf:
        yield unit.spec.serverless.workerOf.uid


def free_with(spec_name: str, image: str) -> str:
    return f"{spec_name} {image}"


UnitIndexes: TypeAlias = Mapping[str, Callable[[GPUUnit], Iterable[str]]]
PoolIndexes: TypeAlias = Mapping[str, Callable[[StockPool], Iterable[str]]]
StorageIndexes: TypeAlias = Mapping[str, Callable[[GPUStorage], Iterable[str]]]

# The indexes that the informers of these caches need.
STOCK_INDEXES: Final[UnitIndexes] = {
    FREE: _if_free,
    OPERATION: _by_operation,
    SPEC: _by_spec,
    POOL: _by_pool,
}
UNIT_INDEXES: Final[UnitIndexes] = {
    OPERATION: _by_operation,
    SOURCE_UID: _by_source_uid,
    FUNCTION: _by_function,
    STORAGE: _by_storage,
    WORKER_OF: _by_template,
}
POOL_INDEXES: Final[PoolIndexes] = {
    OPERATION: _by_operation,
    SPEC: _by_spec,
}
STORAGE_INDEXES: Final[StorageIndexes] = {OPERATION: _by_operation}
