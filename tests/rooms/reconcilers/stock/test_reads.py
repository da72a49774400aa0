"""Stock units and pools are woken by what their observations read."""

import asyncio
from datetime import UTC, datetime
from random import Random
from typing import Any, Final

import attrs
import pytest

from gpuruntime.concurrency.leadership import Leadership
from gpuruntime.embedded.apiserver.in_process_transport import InProcessTransport
from gpuruntime.informer.informer import Informer
from gpuruntime.kube.client import Client
from gpuruntime.meter import NullMeter
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.pools import StockPool, StockPoolSpec, StockPoolStatus
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitSpec, GPUUnitStatus, Timeline
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import Key, ObjectMeta
from gpuruntime.reconcilers.caches import Caches
from gpuruntime.reconcilers.informers import Informers, ReconcilerContext
from gpuruntime.reconcilers.stock.observation import StockObserver
from gpuruntime.reconcilers.stock.pool_observation import PoolObserver
from gpuruntime.reconcilers.stock.reads import POOL_READS, STOCK_READS
from gpuruntime.reconcilers.stock.seeding import Seeder
from gpuruntime.reconcilers.triggers import Triggers
from gpuruntime.workqueue.queue import WorkQueue
from tests.rooms.operations.cluster import INSTANCE, STOCK, Cluster, clock
from tests.rooms.reconcilers.noted_cache import NotedCache
from tests.rooms.reconcilers.world import OPTIONS, SETTLED

pytestmark = pytest.mark.looptime

MOMENT: Final = datetime(2026, 1, 1, tzinfo=UTC)
UNIT, POOL = Key(STOCK, "p-1"), Key(STOCK, "p")
SPEC: Final = GPUUnitSpec(specName="g1")
READY: Final = Condition(type="Ready", status="True", reason="DeploymentReady")
CLAIM: Final[dict[str, Any]] = {
    labels.CLAIMED_BY: f"{INSTANCE}/u",
    labels.OPERATION_ID: "op",
    labels.CLAIM_ATTEMPT: "a",
}


class Scene:
    """A leader whose caches hold the objects; nothing runs."""

    def __init__(self, *objects: Any) -> None:
        self._client = Client(InProcessTransport(Cluster().server))
        self._informers = Informers(
            ReconcilerContext(
                client=self._client,
                options=OPTIONS,
                retention_seconds=60.0,
                term=lambda: SETTLED,
                now=clock,
                rng=Random(3),
                meter=NullMeter(),
            )
        )
        leadership = Leadership()
        self._triggers = Triggers(
            self._informers, leadership, stock_namespace=STOCK, meter=NullMeter()
        )
        for each in objects:
            self.put(each)
        leadership.begin()
        self.reads: set[str] = set()
        self._caches = self._noting(self._informers.caches())

    def put(self, value: Any) -> None:
        is_stock = value.metadata.namespace == STOCK
        units = self._informers.stock if is_stock else self._informers.units
        informer: Informer[Any] = units if isinstance(value, GPUUnit) else self._informers.pools
        assert informer.write_through(value)

    async def woken(self) -> set[Key]:
        """Return the keys of stock and pools that are enqueued within a second."""
        await asyncio.sleep(1)
        return {*await drained(self._triggers.stock), *await drained(self._triggers.pools)}

    async def stock(self) -> object:
        observer = StockObserver(self._client, self._caches)
        stock = observer.cached(UNIT)
        return None if stock is None else await observer.observe(stock)

    async def pool(self) -> object:
        seeder = Seeder(self._client, self._informers.stock, OPTIONS.pod_defaults)
        observer = PoolObserver(self._caches, seeder=seeder, term=lambda: SETTLED)
        pool = observer.cached(POOL)
        return None if pool is None else observer.observe(pool)

    def _noting(self, caches: Caches) -> Caches:
        noted: dict[str, Any] = {
            name: NotedCache(getattr(caches, name), name, self.reads)
            for name in ("stock", "units", "pools")
        }
        return attrs.evolve(caches, **noted)


async def drained(queue: WorkQueue[Key]) -> set[Key]:
    found = set[Key]()
    while True:
        try:
            key = await asyncio.wait_for(queue.get(), 0.01)
        except TimeoutError:
            return found
        queue.done(key)
        found.add(key)


def meta(name: str, namespace: str = STOCK, version: int = 1, **more: Any) -> ObjectMeta:
    given = {"uid": f"uid-{name}", **more}
    return ObjectMeta(name=name, namespace=namespace, resourceVersion=str(version), **given)


def stock(*, version: int = 1, is_ready: bool = False, **marks: Any) -> GPUUnit:
    annotations = {labels.POOL_UID: "uid-p", **marks}
    return GPUUnit(
        metadata=meta("p-1", version=version, labels={labels.POOL: "p"}, annotations=annotations),
        spec=SPEC,
        status=GPUUnitStatus(phase="Ready", conditions=(READY,)) if is_ready else GPUUnitStatus(),
    )


def failed(words: str, version: int = 1, *, reason: str = "PodStartupFailed") -> GPUUnit:
    condition = Condition(type="Ready", status="False", reason=reason, message=words)
    return attrs.evolve(stock(version=version), status=GPUUnitStatus(conditions=(condition,)))


def changed_by_hand() -> GPUUnit:
    held = stock(version=2)
    metadata = attrs.evolve(held.metadata, generation=2)
    return attrs.evolve(held, metadata=metadata, spec=attrs.evolve(SPEC, image="another"))


def claimed(version: int = 1) -> GPUUnit:
    return stock(version=version, **CLAIM)


def pool(*, version: int = 1, seeded: int = 0, generation: int = 1) -> StockPool:
    return StockPool(
        metadata=meta("p", version=version, generation=generation),
        spec=StockPoolSpec(specName="g1", replicas=generation),
        status=StockPoolStatus(seeded=seeded),
    )


def claimant(*, version: int = 1, has_begun: bool = False) -> GPUUnit:
    marks = {
        labels.OPERATION_ID: "op",
        labels.SOURCE_STOCK: str(UNIT),
        labels.SOURCE_STOCK_UID: "uid-p-1",
    }
    timeline = Timeline(createdAt=MOMENT if has_begun else None)
    return GPUUnit(
        metadata=meta("u", INSTANCE, version, annotations=marks),
        spec=SPEC,
        status=GPUUnitStatus(timeline=timeline),
    )


STOCK_CHANGES: Final = {
    "its claim": ((stock(), pool()), claimed(2)),
    "the start of its claimant": (
        (claimed(), pool(), claimant()),
        claimant(version=2, has_begun=True),
    ),
    "the record of its ordinal": ((claimed(), pool()), pool(version=2, seeded=1)),
}
POOL_CHANGES: Final = {
    "its spec": ((pool(),), pool(version=2, generation=2)),
    "a new unit of it": ((pool(),), stock(is_ready=True)),
    "the readiness of its unit": ((pool(), stock()), stock(version=2, is_ready=True)),
    "another failure of its failed unit": ((pool(), failed("no such image")), failed("no key", 2)),
    "what the scheduler says of its unit": (
        (pool(), failed("no node", reason="PodUnschedulable")),
        failed("no GPU", 2, reason="PodUnschedulable"),
    ),
    "the spec of its unit": ((pool(), stock()), changed_by_hand()),
    "a claim on its unit": ((pool(), stock()), claimed(2)),
}


@pytest.mark.parametrize(("before", "change"), STOCK_CHANGES.values(), ids=STOCK_CHANGES)
async def test_a_stock_unit_is_woken_by(before: tuple[Any, ...], change: Any) -> None:
    scene = Scene(*before)
    await scene.woken()
    seen = await scene.stock()
    scene.put(change)
    assert await scene.stock() != seen
    assert UNIT in await scene.woken()


@pytest.mark.parametrize(("before", "change"), POOL_CHANGES.values(), ids=POOL_CHANGES)
async def test_a_pool_is_woken_by(before: tuple[Any, ...], change: Any) -> None:
    scene = Scene(*before)
    await scene.woken()
    seen = await scene.pool()
    scene.put(change)
    assert await scene.pool() != seen
    assert POOL in await scene.woken()


async def test_every_cache_that_is_read_about_stock_is_declared() -> None:
    scene = Scene(claimed(), pool(), claimant())
    await scene.stock()
    assert scene.reads == set(STOCK_READS)


async def test_every_cache_that_is_read_about_a_pool_is_declared() -> None:
    scene = Scene(claimed(), pool(), claimant())
    await scene.pool()
    assert scene.reads == set(POOL_READS)
