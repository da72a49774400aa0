"""Stock units and pools are woken by what their observations read."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

import attrs
import pytest

from gpuruntime.meter import NullMeter
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.pools import StockPool, StockPoolSpec, StockPoolStatus
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitSpec, GPUUnitStatus, Timeline
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import Key, ObjectMeta
from gpuruntime.reconcilers.stock.observation import StockObserver
from gpuruntime.reconcilers.stock.plan import Observed as StockObserved
from gpuruntime.reconcilers.stock.plan import decide as decide_stock
from gpuruntime.reconcilers.stock.pool_observation import PoolObserver
from gpuruntime.reconcilers.stock.pool_pass_plan import (
    FINALIZER,
    ChangeUnits,
    Intent,
    PoolOptions,
    RemoveUnits,
    status_of,
)
from gpuruntime.reconcilers.stock.pool_pass_plan import Observed as PoolObserved
from gpuruntime.reconcilers.stock.pool_pass_plan import decide as decide_pool
from gpuruntime.reconcilers.stock.pool_plan import ORIGIN
from gpuruntime.reconcilers.stock.reads import POOL_READS, STOCK_READS
from gpuruntime.reconcilers.stock.seeding import Seeder
from gpuruntime.reconcilers.triggers import Triggers
from tests.rooms.operations.cluster import INSTANCE, STOCK
from tests.rooms.reconcilers.every_member import Change, Effects, asleep, changes_of
from tests.rooms.reconcilers.filled_caches import FilledCaches, by_cache, drained
from tests.rooms.reconcilers.world import OPTIONS, SETTLED

pytestmark = pytest.mark.looptime

MOMENT: Final = datetime(2026, 1, 1, tzinfo=UTC)
UNIT, POOL = Key(STOCK, "p-1"), Key(STOCK, "p")
SPEC: Final = GPUUnitSpec(specName="g1")
READY: Final = Condition(type="Ready", status="True", reason="DeploymentReady")
POOL_OPTIONS: Final = PoolOptions(defaults=OPTIONS.pod_defaults, retention=timedelta(hours=1))
CLAIM: Final[dict[str, Any]] = {
    labels.CLAIMED_BY: f"{INSTANCE}/u",
    labels.OPERATION_ID: "op",
    labels.CLAIM_ATTEMPT: "a",
}


class Scene:
    """Stock and its pool in the caches of a leader; `key` names what is reconciled."""

    def __init__(self, *objects: Any, key: Key = UNIT) -> None:
        self._key = key
        filled = FilledCaches(options=OPTIONS, now=MOMENT)
        self._triggers = Triggers(
            filled.informers, filled.leadership, stock_namespace=STOCK, meter=NullMeter()
        )
        filled.lead(objects)
        self.put, self.remove, self.reads = filled.put, filled.remove, filled.reads
        caches = filled.noted
        self._stock = StockObserver(filled.client, caches)
        seeder = Seeder(filled.client, filled.informers.stock, OPTIONS.pod_defaults)
        self._pool = PoolObserver(caches, seeder=seeder, term=lambda: SETTLED)

    async def woken(self) -> set[Key]:
        """Return the keys of stock and pools that are enqueued within a second."""
        await asyncio.sleep(1)
        return await drained(self._triggers.stock, self._triggers.pools)

    async def observe(self) -> StockObserved | PoolObserved | None:
        if self._key == POOL:
            pool = self._pool.cached(POOL)
            return None if pool is None else self._pool.observe(pool)
        stock = self._stock.cached(UNIT)
        return None if stock is None else await self._stock.observe(stock)

    async def rest(self, value: Any) -> Any:
        """Give a pool the status that follows from the scene, and return it."""
        seen = await self.observe()
        if isinstance(seen, PoolObserved):
            value = attrs.evolve(value, status=status_of(seen, now=MOMENT))
            self.put(value)
            await self.woken()
        return value

    async def effects(self) -> Effects | None:
        match await self.observe():
            case None:
                return None
            case StockObserved() as seen:
                plan = decide_stock(seen)
                return Effects(plan.intents, plan.again_seconds)
            case PoolObserved() as seen:
                pooled = decide_pool(seen, POOL_OPTIONS, now=MOMENT)
                status = status_of(seen, pooled.refusal, now=MOMENT)
                writes = tuple(map(written, pooled.intents))
                return Effects((writes, status), pooled.again_seconds)


def written(intent: Intent) -> object:
    """Return what the intent writes; of units that it changes or deletes, their keys count."""
    match intent:
        case ChangeUnits(units) | RemoveUnits(units):
            return type(intent), {each.metadata.key for each in units}
        case _:
            return intent


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


def kept_pool(**spec: Any) -> StockPool:
    """Return a pool of one unit that has been created."""
    return StockPool(
        metadata=meta("p", finalizers=(FINALIZER,), annotations={ORIGIN: "uid-p"}, generation=1),
        spec=StockPoolSpec(specName="g1", replicas=1, **spec),
        status=StockPoolStatus(seeded=1),
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
    await is_woken_by(change, Scene(*before), UNIT)


@pytest.mark.parametrize(("before", "change"), POOL_CHANGES.values(), ids=POOL_CHANGES)
async def test_a_pool_is_woken_by(before: tuple[Any, ...], change: Any) -> None:
    await is_woken_by(change, Scene(*before, key=POOL), POOL)


async def is_woken_by(change: Any, scene: Scene, key: Key) -> None:
    await scene.woken()
    seen = await scene.observe()
    scene.put(change)
    assert await scene.observe() != seen
    assert key in await scene.woken()


STOCK_SCENES: Final = {
    "free stock": (stock(is_ready=True), pool(seeded=1)),
    "stock that is claimed for a unit that will start": (claimed(), pool(seeded=1), claimant()),
}
POOL_SCENES: Final = {
    "a pool with all its stock": (kept_pool(), stock(is_ready=True)),
    "a pool whose stock fails": (kept_pool(), failed("no such image")),
    "a pool whose stock no node takes": (
        kept_pool(),
        failed("no node", reason="PodUnschedulable"),
    ),
    "a pool whose stock is claimed": (kept_pool(refill="Never"), claimed(), claimant()),
    "a pool whose stock was taken": (kept_pool(refill="Never"), claimant(has_begun=True)),
    "a pool whose specName has another envelope": (
        kept_pool(cpu="2"),
        attrs.evolve(kept_pool(cpu="4"), metadata=meta("elder", creationTimestamp=MOMENT)),
    ),
}


@pytest.mark.parametrize("objects", STOCK_SCENES.values(), ids=STOCK_SCENES)
async def test_no_change_that_matters_to_stock_leaves_it_asleep(objects: tuple[Any, ...]) -> None:
    missed, mattered = await asleep_of(UNIT, objects, STOCK_READS)
    assert missed == []
    assert mattered


@pytest.mark.parametrize("objects", POOL_SCENES.values(), ids=POOL_SCENES)
async def test_no_change_that_matters_to_a_pool_leaves_it_asleep(
    objects: tuple[Any, ...],
) -> None:
    missed, mattered = await asleep_of(POOL, objects, POOL_READS)
    assert missed == []
    assert mattered


async def asleep_of(
    key: Key, objects: tuple[Any, ...], reads: Mapping[str, str]
) -> tuple[list[str], Counter[str]]:
    """Change all that wakes by the table, around a pool or stock that has come to rest."""
    scene = Scene(*objects, key=key)
    await scene.woken()
    rested = await scene.rest(objects[0])
    varied = by_cache(rested, *objects[1:])
    waking = [each for each in varied if not reads[each[0]].startswith("none: ")]
    return await asleep(scene, key, waking, partial(changes, key=key))


def changes(of: Any, key: Key) -> Iterator[Change]:
    """Yield what may happen to an object; only the reconciler writes the status of its own."""
    is_own = of.metadata.key == key
    return changes_of(of, is_deletable=not is_own, kept=(".status",) if is_own else ())


@pytest.mark.parametrize(
    ("key", "scenes", "reads"),
    [(UNIT, STOCK_SCENES, STOCK_READS), (POOL, POOL_SCENES, POOL_READS)],
    ids=["stock", "a pool"],
)
async def test_a_change_in_each_cache_that_wakes_matters(
    key: Key, scenes: Mapping[str, tuple[Any, ...]], reads: Mapping[str, str]
) -> None:
    mattered = Counter[str]()
    for objects in scenes.values():
        mattered += (await asleep_of(key, objects, reads))[1]
    assert set(mattered) == {name for name, why in reads.items() if not why.startswith("none: ")}


@pytest.mark.parametrize(
    ("key", "reads"), [(UNIT, STOCK_READS), (POOL, POOL_READS)], ids=["stock", "a pool"]
)
async def test_every_cache_that_is_read_is_declared(key: Key, reads: Mapping[str, str]) -> None:
    scene = Scene(claimed(), pool(), claimant(), key=key)
    await scene.observe()
    assert scene.reads == set(reads)
