"""A steady state causes no write and no list, even under a new leader or another version."""

import asyncio
import json
from operator import not_
from typing import Any

import attrs
import pytest

from gpuruntime.models.kinds.labels import APPLIED
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.network import SERVICES
from gpuruntime.models.kubernetes.pods import PODS
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from gpuruntime.reconcilers.options import PodDefaults, UnitOptions
from tests.eventually import equals
from tests.options import configured
from tests.rooms.operations.cluster import INSTANCE
from tests.rooms.reconcilers.world import (
    OPTIONS,
    World,
    becomes,
    living,
    managing,
    phase_of,
    until,
)

pytestmark = pytest.mark.looptime

# The template code of another version, in which every Pod comes out differently.
NEWER = configured(
    UnitOptions,
    template_revision=OPTIONS.template_revision + 1,
    is_restricted=True,
    pod_defaults=configured(PodDefaults, node_selector={"zone": "a"}),
)


async def served(world: World, count: int) -> list[str]:
    """Start that many units with Services, and return their names; no leader runs afterwards."""
    names = [f"u{number}" for number in range(count)]
    async with living(world), managing(world):
        for name in names:
            world.add_unit(name, template={"ports": [{"name": "http", "port": 80}]})
        await until(lambda: all(phase_of(each) == "Ready" for each in world.units))
        await asyncio.sleep(5)
    return names


def versions(world: World) -> dict[str, str]:
    """Return the versions of all objects that a write could change."""
    return {
        f"{resource.plural}/{each['metadata']['name']}": each["metadata"]["resourceVersion"]
        for resource in (GPU_UNITS, DEPLOYMENTS, SERVICES, PODS)
        for each in world.objects(resource, INSTANCE)
    }


async def test_two_hundred_steady_units_cause_no_write_and_no_list_in_a_minute() -> None:
    world = World()
    await served(world, 200)
    before = versions(world)
    async with managing(world) as manager:
        await asyncio.sleep(5)
        assert manager.reconciles("unit") == 200
        assert manager.transport.written() == []
        manager.transport.sent.clear()
        await asyncio.sleep(60)
        assert manager.transport.sent == []
        assert manager.reconciles("unit") == 200
    assert versions(world) == before


async def test_another_version_of_the_template_restarts_nothing_until_a_spec_changes() -> None:
    world = World()
    names = await served(world, 20)
    before = versions(world)
    async with living(world):
        async with managing(world, options=NEWER) as manager:
            await asyncio.sleep(30)
            assert manager.reconciles("unit") == 20
            assert versions(world) == before
            world.change(names[0], image="changed")
            await until(lambda: zone_of(world, names[0]), equals("a"))
            await becomes(world, names[0], "Ready")
            await asyncio.sleep(5)
            assert changed(world, before) == {names[0]}
        rolled = versions(world)
        async with managing(world):
            await asyncio.sleep(30)
            assert versions(world) == rolled
            world.change(names[0], image="again")
            await until(lambda: zone_of(world, names[0]), not_)


def zone_of(world: World, unit: str) -> str:
    selector = world.deployment(unit)["spec"]["template"]["spec"].get("nodeSelector", {})
    zone: str = selector.get("zone", "")
    return zone


def changed(world: World, before: dict[str, str]) -> set[str]:
    """Return the units with an object that has changed."""
    after = versions(world)
    keys = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    names = {key.partition("/")[2].removeprefix("unit-") for key in keys}
    return {name.partition("-")[0] for name in names}


async def test_after_a_rollback_children_of_an_unknown_rule_stay_until_a_spec_changes() -> None:
    world = World()
    first, second = await served(world, 2)
    for name in (first, second):
        applied = applied_to(world, name)
        applied["inputs"] = "9:of-a-newer-rule"
        path = DEPLOYMENTS.path(namespace=INSTANCE, name=f"unit-{name}")
        marks = {APPLIED: json.dumps(applied)}
        world.call("PATCH", path, {"metadata": {"annotations": marks}})
    async with living(world):
        await asyncio.sleep(1)
    before = versions(world)
    async with living(world), managing(world):
        await asyncio.sleep(30)
        assert versions(world) == before
        world.change(first, image="changed")
        await until(lambda: "changed" in repr(world.deployment(first)["spec"]))
        await becomes(world, first, "Ready")
        assert applied_to(world, first)["inputs"].startswith("1:")
        assert changed(world, before) == {first}


def applied_to(world: World, unit: str) -> dict[str, Any]:
    """Return what the annotation of the unit's Deployment records."""
    applied: dict[str, Any] = json.loads(
        world.deployment(unit)["metadata"]["annotations"][APPLIED]
    )
    return applied


async def test_new_defaults_of_an_operator_reach_units_at_their_next_change() -> None:
    world = World()
    (name,) = await served(world, 1)
    options = attrs.evolve(
        OPTIONS, pod_defaults=configured(PodDefaults, node_selector={"zone": "a"})
    )
    async with living(world), managing(world, options=options):
        await asyncio.sleep(5)
        assert not zone_of(world, name)
        world.change(name, suspended=True)
        await becomes(world, name, "Suspended")
        world.change(name, suspended=False)
        await becomes(world, name, "Ready")
        assert zone_of(world, name) == "a"
