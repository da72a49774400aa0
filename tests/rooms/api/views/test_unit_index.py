"""Pages of units, compared with plain filtering, sorting and cutting."""

import json
from random import Random

import attrs

from gpuruntime.api.views.unit_index import Filter, UnitIndex
from gpuruntime.informer.store import Store
from gpuruntime.informer.writer import Handler, Writer
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.phases import UnitPhase, phase_of
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitSpec, GPUUnitStatus
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import Key, ObjectMeta
from gpuruntime.models.views.units import Lifecycle
from gpuruntime.operations.lookup.scopes import tenant_of

SPECS, TENANTS = ("g1", "g2"), ("", "blue", "red")
PHASES = (None, UnitPhase.READY, UnitPhase.PROGRESSING, UnitPhase.FAILED)


class MemoryCache:
    """An informer's store and handlers, without the informer."""

    def __init__(self) -> None:
        self._handlers: list[Handler[GPUUnit]] = []
        self._writer = Writer(GPUUnit, {}, self._handlers)

    @property
    def store(self) -> Store[GPUUnit]:
        return self._writer.store

    def add_handler(self, handler: Handler[GPUUnit]) -> None:
        self._handlers.append(handler)

    def write_through(self, written: GPUUnit) -> bool:
        return self._writer.write_through(written)

    def remove(self, unit: GPUUnit) -> None:
        self._writer._remove(unit.metadata.key, int(unit.metadata.resourceVersion))


def random_unit(rng: Random, namespace: str, version: int) -> GPUUnit:
    tenant, reason = rng.choice(TENANTS), rng.choice(["", "InvalidSpec"])
    status = rng.choice(["True", "False"])
    return GPUUnit(
        metadata=ObjectMeta(
            name=f"u-{rng.randrange(30)}",
            namespace=namespace,
            resourceVersion=str(version),
            labels={labels.TENANT: tenant} if tenant else {},
        ),
        spec=GPUUnitSpec(specName=rng.choice(SPECS)),
        status=GPUUnitStatus(conditions=(Condition(type="Ready", status=status, reason=reason),)),
    )


def wanted_of(rng: Random) -> Filter:
    return Filter(
        lifecycle=rng.choice(list(Lifecycle)),
        phase=rng.choice(PHASES),
        spec_name=rng.choice(("", *SPECS)),
        tenants=rng.choice((None, *map(frozenset, ({"blue"}, {"blue", "red"}, {""}, set())))),
    )


def plainly(units: list[GPUUnit], wanted: Filter) -> list[tuple[str, str]]:
    places = {Lifecycle.INSTANCE: {"a"}, Lifecycle.STOCK: {"b"}, Lifecycle.ALL: {"a", "b"}}
    return sorted(
        (unit.metadata.name, unit.metadata.namespace)
        for unit in units
        if unit.metadata.namespace in places[wanted.lifecycle]
        and wanted.phase in (None, phase_of(unit.status.conditions))
        and wanted.spec_name in ("", unit.spec.specName)
        and (wanted.tenants is None or tenant_of(unit) in wanted.tenants - {""})
    )


def paged(index: UnitIndex, wanted: Filter, limit: int) -> list[tuple[str, str]]:
    seen: list[tuple[str, str]] = []
    after: Key | None = None
    while True:
        page = index.page(wanted, limit=limit, after=after)
        views = [json.loads(view) for view in page.views]
        assert len(views) <= limit
        seen += [(view["name"], view["namespace"]) for view in views]
        after = page.next
        if after is None:
            return seen


def test_pages_show_what_sorting_and_filtering_everything_would(rng: Random) -> None:
    caches = {"a": MemoryCache(), "b": MemoryCache()}
    index = UnitIndex(units=caches["a"], stock=caches["b"])
    for version in range(1, 1_500):
        cache = caches[namespace := rng.choice("ab")]
        unit = random_unit(rng, namespace, version)
        if rng.random() < 0.3 and cache.store.get(unit.metadata.key):
            cache.remove(unit)
        else:
            cache.write_through(unit)
        if version % 10 == 0:
            held = [held for each in caches.values() for held in each.store.values()]
            wanted = wanted_of(rng)
            assert paged(index, wanted, rng.randrange(1, 8)) == plainly(held, wanted)


def test_a_new_index_holds_the_units_of_its_caches() -> None:
    units, stock = MemoryCache(), MemoryCache()
    units.write_through(random_unit(Random(1), "a", 1))
    index = UnitIndex(units=units, stock=stock)
    assert len(paged(index, Filter(), 10)) == 1


def test_a_changed_unit_is_encoded_again() -> None:
    units, stock = MemoryCache(), MemoryCache()
    index = UnitIndex(units=units, stock=stock)
    unit = random_unit(Random(1), "a", 1)
    units.write_through(unit)
    (before,) = index.page(Filter(), limit=1).views
    metadata = attrs.evolve(unit.metadata, resourceVersion="2", generation=7)
    units.write_through(attrs.evolve(unit, metadata=metadata))
    (after,) = index.page(Filter(), limit=1).views
    assert json.loads(before)["generation"] == 0
    assert json.loads(after)["generation"] == 7
