"""An observer that checks the product's promises at every change that the server makes.

It reads only objects, never a process's memory. It remembers what has to hold over time, for
example that an operation starts only one unit.
"""

import zlib
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, Final

import attrs

from gpuruntime.audit.breach import AUDITED
from gpuruntime.embedded.apiserver.server import Server
from gpuruntime.embedded.objects.selection import Selection
from gpuruntime.embedded.objects.store import Collection
from gpuruntime.embedded.objects.versions import Change, Stored
from gpuruntime.embedded.objects.watches import Watch
from gpuruntime.models.encoding import codec
from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.envelopes import envelope_of
from gpuruntime.models.kinds.functions import Serverless
from gpuruntime.models.kinds.labels import ACCEPTED_AT, POOL_UID
from gpuruntime.models.kinds.pools import STOCK_POOLS, Refill, StockPool
from gpuruntime.models.kinds.storages import GPU_STORAGES, GPUStorage
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.pods import PODS
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS, Deployment
from tests.proofs.simulation.checks.continuous_audit import ContinuousAudit
from tests.proofs.simulation.checks.worker_drains import is_draining, is_last_to_serve
from tests.proofs.simulation.event_log import EventLog

STOCK: Final = "runtime-stock"
INSTANCE: Final = "runtime-instance"
# No promise depends on the number or order of these objects.
UNLOGGED: Final = frozenset({"Lease", "Event"})


class SynchronousWatch(Watch):
    """A watch that receives each change synchronously, in the step that makes it."""

    def __init__(self, on_change: Callable[[Change], None]) -> None:
        super().__init__(Selection(), 0)
        self._on_change = on_change

    def offer(self, change: Change) -> None:
        self._on_change(change)


@attrs.frozen(slots=True)
class ObjectCounts:
    """How often an object of this name was created and deleted."""

    created: int = 0
    deleted: int = 0

    @property
    def left(self) -> int:
        return self.created - self.deleted


class ClusterObserver:
    def __init__(
        self,
        server: Server,
        event_log: EventLog,
        breach: Callable[[str], None],
        now: Callable[[], float],
    ) -> None:
        self.units: dict[Key, GPUUnit] = {}
        self.stock: dict[Key, GPUUnit] = {}
        self.pools: dict[Key, StockPool] = {}
        self.storages: dict[Key, GPUStorage] = {}
        self.object_counts: defaultdict[tuple[str, str], ObjectCounts] = defaultdict(ObjectCounts)
        # All unit names that each operation has had.
        self.names_of: defaultdict[str, set[str]] = defaultdict(set)
        # The last moment at which each specName had no free stock unit.
        self.last_short: dict[str, float] = {}
        self.last_write = 0.0
        self._now = now
        self._event_log = event_log
        self._breach = breach
        # The uids of all stock that units have named.
        self._named_stock: set[str] = set()
        self._started: dict[str, str] = {}
        self._start_of_stock: dict[str, str] = {}
        self._start_of_operation: dict[str, str] = {}
        # By pool, the operations that released stock after a unit had named it.
        self._releasers: defaultdict[str, set[str]] = defaultdict(set)
        self._consumers: set[str] = set()
        self._ordinals: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._most_replicas: Counter[str] = Counter()
        self._listeners: dict[str, Callable[[Key, Any, Any], None]] = {
            GPU_UNITS.kind: self._on_unit,
            STOCK_POOLS.kind: self._on_pool,
            GPU_STORAGES.kind: self._on_storage,
            DEPLOYMENTS.kind: self._on_deployment,
            PODS.kind: self._on_pod,
        }
        # Called for every change of a Pod, in the step that makes it.
        self.pod_listeners: list[Callable[[Key, Any, Any], None]] = []
        self._models: dict[str, type[Any]] = {each.kind: each.type for each in AUDITED}
        self.continuous_audit = ContinuousAudit(STOCK, breach)
        for collection in {
            id(each): each for each in map(server.store.collection, server.registry)
        }.values():
            self._listen(collection)

    def free(self, spec_name: str) -> list[GPUUnit]:
        """Return the stock that a claim could take: unclaimed, and named by no unit."""
        named = {provenance.source_uid_of(unit) for unit in self.units.values()}
        return [
            each
            for each in self.stock.values()
            if each.spec.specName == spec_name
            and provenance.is_free(each)
            and each.metadata.uid not in named
        ]

    def functions(self) -> dict[str, GPUUnit]:
        """Return the units that declare functions, by the function's name."""
        return {
            each.spec.serverless.requestID: each
            for each in self.units.values()
            if each.spec.serverless and each.spec.is_function_template
        }

    def function_of(self, unit: str) -> Serverless | None:
        """Return the function that a worker unit serves, or None for any other unit."""
        found = self.units.get(Key(INSTANCE, unit))
        return found.spec.serverless if found and found.spec.is_function_worker else None

    def was_short(self, spec_name: str, since: float) -> bool:
        """Return whether nothing was free at some moment since then."""
        return not self.free(spec_name) or self.last_short.get(spec_name, -1.0) >= since

    def released_count(self, pool: str) -> int:
        """Return the number of operations that released the pool's stock and never consumed any.

        Their unit was deleted before it consumed its stock. The loser of a contest releases stock
        too, but its operation consumes another stock unit.
        """
        return len(self._releasers[pool] - self._consumers)

    def ordinals(self, pool_uid: str) -> Counter[str]:
        return self._ordinals[pool_uid]

    def _listen(self, collection: Collection) -> None:
        kind = collection.kind.kind
        collection.watches.add(SynchronousWatch(lambda change: self._on_change(kind, change)))

    def _on_change(self, kind: str, change: Change) -> None:
        before, after = change.before, change.after
        if kind not in UNLOGGED:
            self.last_write = self._now()
            verb = "changed" if before and after else "created" if after else "deleted"
            digest = zlib.crc32(after.body) if after else 0
            self._event_log.write(
                "server", f"{change.version} {kind} {change.path} {verb} {digest:08x}"
            )
            made = self.object_counts[kind, change.path]
            self.object_counts[kind, change.path] = ObjectCounts(
                made.created + (before is None), made.deleted + (after is None)
            )
        if kind in self._models:
            self._read(kind, change)

    def _read(self, kind: str, change: Change) -> None:
        some = change.after or change.before
        assert some is not None
        key, model = Key(some.namespace, some.name), self._models[kind]
        new = _value(change.after, model)
        self.continuous_audit.note(kind, key, new)
        listener = self._listeners.get(kind)
        if listener:
            listener(key, _value(change.before, model), new)

    def _on_unit(self, key: Key, old: GPUUnit | None, new: GPUUnit | None) -> None:
        held = self.stock if key.namespace == STOCK else self.units
        short_before = {each for each in self._specs() if not self.free(each)}
        if new is None:
            held.pop(key, None)
        else:
            held[key] = new
        if key.namespace == STOCK:
            self._on_stock(key, old, new)
        else:
            self._on_active(key, old, new)
        for spec_name in self._specs() | short_before:
            if spec_name in short_before or not self.free(spec_name):
                self.last_short[spec_name] = self._now()

    def _specs(self) -> set[str]:
        return {each.spec.specName for each in self.stock.values()}

    def _on_active(self, key: Key, old: GPUUnit | None, new: GPUUnit | None) -> None:
        if new is None:
            return
        operation = provenance.operation_of(new)
        self._named_stock.add(provenance.source_uid_of(new))
        is_template = new.spec.is_function_template
        if old is None and ACCEPTED_AT in new.metadata.annotations and not is_template:
            self._check_claim(new)
        if old is None and operation:
            self.names_of[operation].add(key.name)
        if new.status.timeline.createdAt is not None:
            self._start(new)
        is_drained = old is not None and is_draining(new) and not is_draining(old)
        if old is not None and is_drained and is_last_to_serve(old, self.units.values()):
            self._breach(f"worker {key}: drained although no other was ever ready")
        if new.status.observedGeneration > new.metadata.generation:
            self._breach(f"unit {key}: observedGeneration is ahead of generation")

    def _on_stock(self, key: Key, old: GPUUnit | None, new: GPUUnit | None) -> None:
        if old is None and new is not None:
            self._on_new_stock(key, new)
        elif new is None and old is not None:
            self._on_stock_gone(key, old)
        elif old is not None and new is not None:
            self._on_stock_changed(key, old, new)

    def _on_new_stock(self, key: Key, new: GPUUnit) -> None:
        pool_uid = new.metadata.annotations.get(POOL_UID, "")
        made = self._ordinals[pool_uid]
        made[key.name] += 1
        if made[key.name] > 1:
            self._breach(f"stock {key}: its ordinal was created twice")
        pool = next((each for each in self.pools.values() if each.metadata.uid == pool_uid), None)
        if pool is None:
            return
        if pool.spec.refill == Refill.NEVER and len(made) > self._most_replicas[pool_uid]:
            self._breach(f"pool {pool.metadata.name}: created {len(made)} units in all")

    def _on_stock_gone(self, key: Key, old: GPUUnit) -> None:
        if not provenance.is_claimed(old):
            return
        self._consumers.add(provenance.operation_of(old))
        if old.metadata.uid not in self._start_of_stock:
            self._breach(f"stock {key}: deleted although its claimant never started")

    def _on_stock_changed(self, key: Key, old: GPUUnit, new: GPUUnit) -> None:
        before, after = (
            provenance.operation_of(each) if provenance.is_claimed(each) else ""
            for each in (old, new)
        )
        if before and _runs(old) != _runs(new):
            self._breach(f"stock {key}: changed although it is claimed for {before}")
        if after and not before and old.status.observedGeneration != old.metadata.generation:
            self._breach(f"stock {key}: claimed by {after} before it ran its present spec")
        if before and after and before != after:
            self._breach(f"stock {key}: the claim of {before} was overwritten by {after}")
        claimant = provenance.claimant_of(old)
        unit = self.units.get(claimant) if claimant else None
        if before and not after and unit is not None and _uses(unit, old):
            self._breach(f"stock {key}: freed although unit {claimant} uses it")
        if before and not after and old.metadata.uid in self._named_stock:
            self._releasers[key.name.rpartition("-")[0]].add(before)

    def _on_pool(self, key: Key, old: StockPool | None, new: StockPool | None) -> None:
        if new is None:
            self.pools.pop(key, None)
            return
        self.pools[key] = new
        uid = new.metadata.uid
        self._most_replicas[uid] = max(self._most_replicas[uid], new.spec.replicas)
        if old is not None and old.metadata.uid == uid and new.status.seeded < old.status.seeded:
            self._breach(f"pool {key}: seeded decreased")

    def _on_storage(self, key: Key, _: GPUStorage | None, new: GPUStorage | None) -> None:
        if new is None:
            self.storages.pop(key, None)
        else:
            self.storages[key] = new

    def _on_pod(self, key: Key, old: Any, new: Any) -> None:
        for on_change in self.pod_listeners:
            on_change(key, old, new)

    def _on_deployment(self, key: Key, old: Deployment | None, new: Deployment | None) -> None:
        if old is not None or new is None or key.namespace != INSTANCE:
            return
        owner = new.metadata.controller_owner
        unit = self.units.get(Key(INSTANCE, owner.name)) if owner else None
        if unit is None or owner is None or unit.metadata.uid != owner.uid:
            return
        self._check_stock(unit)
        self._start(unit)

    def _check_claim(self, unit: GPUUnit) -> None:
        """Check that a new unit's stock is held for it, unless its operation had a unit before."""
        source = provenance.source_of(unit)
        stock = self.stock.get(source) if source else None
        is_held = stock is not None and _is_held(stock, unit)
        if not is_held and not self.names_of[provenance.operation_of(unit)]:
            name = unit.metadata.name
            self._breach(f"unit {name}: created after the claim on its stock {source} had ended")

    def _check_stock(self, unit: GPUUnit) -> None:
        """Check at a unit's first start that its stock exists and is held for it."""
        source, name = provenance.source_of(unit), unit.metadata.name
        if source is None or unit.metadata.uid in self._started:
            return
        stock = self.stock.get(source)
        if stock is None or stock.metadata.uid != provenance.source_uid_of(unit):
            self._breach(f"unit {name}: started without its stock {source}")
            return
        if not _is_held(stock, unit):
            self._breach(f"unit {name}: started on stock {source} that is not held for it")
        if envelope_of(stock.spec) != envelope_of(unit.spec):
            self._breach(f"unit {name}: has another envelope than its stock {source}")

    def _start(self, unit: GPUUnit) -> None:
        uid, name = unit.metadata.uid, unit.metadata.name
        if uid in self._started:
            return
        self._started[uid] = name
        operation, source = provenance.operation_of(unit), provenance.source_uid_of(unit)
        if operation and self._start_of_operation.setdefault(operation, uid) != uid:
            self._breach(f"operation {operation}: a second unit started, {name}")
        other = self._start_of_stock.get(source, uid)
        if (
            source
            and other != uid
            and any(each.metadata.uid == other for each in self.units.values())
        ):
            self._breach(f"stock uid {source}: a second unit started on it, {name}")
        self._start_of_stock[source] = uid


def _runs(stock: GPUUnit) -> object:
    return (stock.spec.image, stock.spec.template)


def _is_held(stock: GPUUnit, unit: GPUUnit) -> bool:
    """Return whether the stock is claimed by the unit's operation for the unit's name."""
    return (
        stock.metadata.uid == provenance.source_uid_of(unit)
        and provenance.claimant_of(stock) == unit.metadata.key
        and provenance.operation_of(stock) == provenance.operation_of(unit)
    )


def _uses(unit: GPUUnit, stock: GPUUnit) -> bool:
    return (
        not provenance.is_terminating(unit)
        and provenance.operation_of(unit) == provenance.operation_of(stock)
        and provenance.source_uid_of(unit) == stock.metadata.uid
    )


def _value(stored: Stored | None, model: type[Any]) -> Any:
    return codec.decode(stored.body, model) if stored else None
