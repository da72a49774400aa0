"""If the api dies at any write of a request, the same request can finish the work.

The requests create, change and delete a pool, a storage, a unit and a secret. In each
world the api dies at the first try of every write, except those of the claim, which test_claims
covers. The caller repeats the request until it is answered.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import attrs
import pytest

from gpuruntime.models.kinds.pools import STOCK_POOLS
from gpuruntime.models.kinds.storages import GPU_STORAGES
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.network import NETWORK_POLICIES, SERVICES
from gpuruntime.models.kubernetes.volumes import VOLUME_CLAIMS
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from tests.proofs.crash.comparison import (
    Counts,
    State,
    counts_of,
    difference,
    removed_once,
    state_of,
)
from tests.proofs.crash.unit_story import ENVELOPE, StoryContext, order
from tests.proofs.crash.world import RestartedRole, World, crash_fault, in_parallel
from tests.proofs.real_cluster.proxy import Fault, Script, Write, nothing

pytestmark = pytest.mark.cluster

LATE: Final = "late"
MOMENTS: Final = ("before", "after", LATE)
# Longer than a new api takes until it serves.
LATE_SECONDS: Final = 3.0
EXPECTED_STATUSES: Final = frozenset({200, 201, 202, 204, 404, 429, 503, 504})
POOL: Final = {
    "operationID": "pool",
    "name": "pool",
    "specName": "g1.1",
    "replicas": 1,
    **ENVELOPE,
}
STORAGE: Final = {"operationID": "volume", "name": "volume", "size": "1Gi"}
UNIT: Final = order("unit")
SECRET: Final = {"name": "hub", "data": {"token": "old", "gone": "x"}}
# The step with the claim and the creation of the unit, in which the api does not die.
UNDISTURBED: Final = "started"

Document = dict[str, Any]


@attrs.frozen
class Step:
    """A request, named after its result, and the condition that shows its end."""

    name: str
    method: str
    path: str
    is_over: Callable[[], bool]
    body: Document | None = None


@attrs.frozen
class StepsRun:
    """A run of all steps, with the api's writes by step and those at which it died."""

    world: World
    ends: dict[str, State]
    writes: dict[str, list[str]]
    deaths: dict[str, list[str]]
    breaches: list[str]


@attrs.frozen
class Runs:
    undisturbed: StepsRun
    disturbed: dict[str, StepsRun]
    counts: dict[str, Counts]


def run_all(context: StoryContext) -> Runs:
    undisturbed = run_steps(context, "rq", "", {})
    stories = {
        moment: partial(run_steps, context, f"rq-{moment}", moment, undisturbed.ends)
        for moment in MOMENTS
    }
    done = in_parallel(stories)
    worlds = [each.world for each in (undisturbed, *done.values())]
    return Runs(undisturbed, done, counts_of(context.plane, worlds))


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_api_died_at_every_write(runs: Runs, moment: str) -> None:
    expected = {**runs.undisturbed.writes, UNDISTURBED: []}
    assert all(writes for step, writes in expected.items() if step != UNDISTURBED)
    deaths = runs.disturbed[moment].deaths
    missed = {step: {*writes} - {*deaths.get(step, ())} for step, writes in expected.items()}
    assert not any(missed.values()), missed


@pytest.mark.parametrize("moment", MOMENTS)
def test_each_request_ends_as_in_an_undisturbed_run(runs: Runs, moment: str) -> None:
    ends = runs.disturbed[moment].ends
    wrong = [
        f"{step}:\n{difference(end, ends.get(step))}"
        for step, end in runs.undisturbed.ends.items()
        if ends.get(step) != end
    ]
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("moment", MOMENTS)
def test_everything_was_created_and_deleted_exactly_as_often(runs: Runs, moment: str) -> None:
    expected = runs.counts[runs.undisturbed.world.name]
    found = runs.counts[runs.disturbed[moment].world.name]
    assert (removed_once(found) if moment == LATE else found) == expected


@pytest.mark.parametrize("moment", MOMENTS)
def test_callers_receive_only_expected_statuses(runs: Runs, moment: str) -> None:
    assert {*runs.disturbed[moment].world.answers} <= EXPECTED_STATUSES


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_audit_finds_nothing(runs: Runs, moment: str) -> None:
    assert not runs.undisturbed.breaches
    assert not runs.disturbed[moment].breaches


def run_steps(context: StoryContext, name: str, moment: str, ends: dict[str, State]) -> StepsRun:
    """Run the steps until one ends differently from `ends`."""
    world = context.make(name)
    world.manager()
    api = world.api()
    fault = crash_fault(api, moment, late_seconds=LATE_SECONDS) if moment else None
    seen: dict[str, State] = {}
    writes: dict[str, list[str]] = {}
    deaths: dict[str, list[str]] = {}
    for step in steps(world):
        world.wait_until_serving(api)
        before = len(api.proxy.writes)
        died = deaths[step.name] = list[str]()
        is_meant = fault is not None and step.name != UNDISTURBED
        api.proxy.script = first_try_of_each(world, fault, died) if is_meant else nothing
        seen[step.name] = _send_and_wait(world, api, step, ends.get(step.name))
        writes[step.name] = [_text_of(world, each) for each in api.proxy.writes[before:]]
        if seen[step.name] != ends.get(step.name, seen[step.name]):
            break
    breaches = world.breaches()
    world.close()
    return StepsRun(world, seen, writes, deaths, breaches)


def steps(world: World) -> Iterator[Step]:
    pools, storages, units = "/operator/stockpools", "/gpu-storages", "/gpu-units"
    pool, volume, unit = f"{pools}/pool", f"{storages}/volume", f"{units}/unit"
    stocked = partial(_is_stocked, world)
    in_phase = partial(_is_in_phase, world)
    yield Step("stocked", "POST", pools, stocked, POOL)
    yield Step("stored", "POST", storages, partial(_is_stored, world), STORAGE)
    yield Step("started", "POST", units, lambda: in_phase("Ready") and stocked(), UNIT)
    image = {"image": "python:3.13"}
    yield Step("changed", "PUT", unit, lambda: in_phase("Ready"), image)
    suspended = {"suspended": True}
    yield Step("suspended", "PUT", unit, lambda: in_phase("Suspended"), suspended)
    yield Step("grown", "PUT", pool, stocked, {"replicas": 2})
    served = {"accessor": {"enabled": True}}
    yield Step("served", "PUT", volume, partial(_is_stored, world), served)
    yield Step("deleted", "DELETE", unit, lambda: not _of(world, GPU_UNITS))
    yield Step("emptied", "DELETE", volume, lambda: not _of(world, GPU_STORAGES))
    yield Step("dissolved", "DELETE", pool, lambda: not _of(world, STOCK_POOLS))
    secrets = f"/api/v1/namespaces/{world.installation.instance}/secrets"
    yield Step("kept", "POST", "/secrets", lambda: bool(world.items(secrets)), SECRET)
    renewed = {**SECRET, "data": {"token": "new"}}
    yield Step("renewed", "POST", "/secrets", lambda: bool(world.items(secrets)), renewed)
    yield Step("forgotten", "DELETE", "/secrets/hub", lambda: not world.items(secrets))


def first_try_of_each(world: World, fault: Fault | None, died: list[str]) -> Script:
    def script(write: Write) -> Fault | None:
        known = _text_of(world, write)
        if known in died:
            return None
        died.append(known)
        return fault

    return script


def _send_and_wait(world: World, api: RestartedRole, step: Step, end: State | None) -> State:
    answer = world.retry_until_definite(api, step.method, step.path, step.body)
    # A repeated deletion that finds nothing was done by the first request.
    assert answer.status in {200, 201, 202, 204} or (step.method, answer.status) == (
        "DELETE",
        404,
    ), answer

    def is_over() -> bool:
        return step.is_over() and not _is_left_behind(world)

    if end is not None:
        return world.until_equal(is_over, lambda: state_of(world), end)
    return world.until_stable(is_over, lambda: state_of(world))


def _text_of(world: World, write: Write) -> str:
    return str(write).replace(f"{world.name}-", "world-")


def _is_stocked(world: World) -> bool:
    """Return whether each pool is full, and its status recorded and current."""
    found = _of(world, STOCK_POOLS)
    return bool(found) and all(
        _is_full(pool["spec"]["replicas"], pool.get("status", {}))
        and pool["status"]["observedGeneration"] == pool["metadata"]["generation"]
        for pool in found
    )


def _is_full(replicas: int, status: Document) -> bool:
    recorded = status.get("seeded", 0) - status.get("consumed", 0)
    return recorded == status.get("available") == replicas and not status["claimed"]


def _is_stored(world: World) -> bool:
    return all(_is_current(each, "Ready") for each in _of(world, GPU_STORAGES))


def _is_left_behind(world: World) -> bool:
    """Return whether Kubernetes' garbage collector still has to delete an object without owner."""
    places = (world.installation.stock, world.installation.instance)
    owners = [
        each["metadata"]["uid"]
        for resource in (GPU_UNITS, GPU_STORAGES)
        for place in places
        for each in world.items(resource.path(namespace=place))
    ]
    owned = [
        owner["uid"]
        for resource in (DEPLOYMENTS, SERVICES, NETWORK_POLICIES, VOLUME_CLAIMS)
        for place in places
        for each in world.items(resource.path(namespace=place))
        for owner in each["metadata"].get("ownerReferences", ())
    ]
    return not {*owned} <= {*owners}


def _is_in_phase(world: World, phase: str) -> bool:
    return all(_is_current(each, phase) for each in _of(world, GPU_UNITS))


def _is_current(item: Document, phase: str) -> bool:
    status = item.get("status", {})
    is_new = status.get("observedGeneration") == item["metadata"]["generation"]
    return is_new and bool(status["phase"] == phase)


def _of(world: World, resource: Any) -> list[Document]:
    """Return the pools of the stock namespace, or the objects of callers."""
    installation = world.installation
    of_stock = resource is STOCK_POOLS
    return world.items(
        resource.path(namespace=installation.stock if of_stock else installation.instance)
    )
