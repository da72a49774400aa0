"""The story of one unit: claimed, started, changed, suspended, resumed and deleted.

Each step is requested through the API, and ends when the cluster shows the same as in an
undisturbed run. What Kubernetes' garbage collector deletes is checked at the end of a world.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.units import GPU_UNITS
from tests.proofs.crash.comparison import Counts, State, state_of
from tests.proofs.crash.world import MakeWorld, RestartedRole, World
from tests.proofs.real_cluster.controlplane import ControlPlane

Document = dict[str, Any]

ENVELOPE: Final = {"cpu": "1", "memory": "1Gi", "gpu": 1}
PORTS: Final = {"ports": [{"name": "http", "port": 8080}]}
# Parts of names that differ from story to story, and their replacements in the counts.
NAMES: Final = (
    (re.compile(r"story-\d+"), "story"),
    (re.compile(r"op-[0-9a-f]+(-\d+)?$"), "stock"),
    (re.compile(r"^operation-[0-9a-f]+$"), "tombstone"),
)


@attrs.frozen
class Undisturbed:
    """The undisturbed story: the state after each step, and what was created and deleted."""

    ends: dict[str, State]
    counts: Counts
    manager_writes: int


@attrs.frozen
class StoryContext:
    """The control plane, factory of worlds and undisturbed story that all suites share."""

    plane: ControlPlane
    make: MakeWorld
    undisturbed: Undisturbed


def seed(world: World, api: RestartedRole, replicas: int) -> None:
    """Seed stock and return when all units are ready and recorded."""
    body = {"operationID": "seed", "specName": "g1.1", "replicas": replicas, **ENVELOPE}
    answer = world.retry_until_definite(api, "POST", "/operator/stock-units", body)
    assert answer.status in {200, 202}, answer
    world.until(
        lambda: world.retry_until_definite(api, "GET", "/operator/jobs/seed").data,
        lambda job: job["ready"] == replicas and job["status"] == "succeeded",
    )


def order(name: str) -> Document:
    return {
        "operationID": name,
        "name": name,
        "specName": "g1.1",
        "image": "python:3.12",
        "template": PORTS,
        "access": {"primaryPort": "http"},
    }


def run_story(
    world: World, api: RestartedRole, number: int, ends: Mapping[str, State] = {}
) -> dict[str, State]:
    """Run one story and return the state after each step.

    With `ends` each step waits until it shows the same state. The first step that does not is the
    last.
    """
    name = f"story-{number:03}"
    path = f"/gpu-units/{name}"
    requests = (("started", "POST", "/gpu-units", order(name), "Ready"), *_changes(path))
    seen: dict[str, State] = {}
    for step, method, where, body, phase in requests:
        answer = world.retry_until_definite(api, method, where, body)
        assert answer.status in {200, 201}, answer
        seen[step] = _until_equal(world, name, phase, ends.get(step))
        if seen[step] != ends.get(step, seen[step]):
            return seen
    answer = world.retry_until_definite(api, "DELETE", path)
    # A repeated deletion that finds nothing was done by the first request.
    assert answer.status in {204, 404}, answer
    return seen


def _changes(path: str) -> Iterator[tuple[str, str, str, Document, str]]:
    template = {**PORTS, "args": ["-V"]}
    yield "changed", "PUT", path, {"image": "python:3.13", "template": template}, "Ready"
    yield "suspended", "PUT", path, {"suspended": True}, "Suspended"
    yield "resumed", "PUT", path, {"suspended": False}, "Ready"


def normalized(counts: Counts) -> Counts:
    """Return the counts under the same names for every story, without the creation of stock."""
    found: Counts = Counter()
    for (verb, kind, name), count in counts.items():
        common = name
        for pattern, text in NAMES:
            common = pattern.sub(text, common)
        if verb == "delete" or not common.endswith("stock"):
            found[verb, kind, common] += count
    return found


def leftovers(world: World) -> State:
    """Return the objects of all stories that still exist."""
    there = state_of(world, [world.installation.instance])
    return {key: each for key, each in there.items() if "story-" in key}


def _until_equal(world: World, name: str, phase: str, end: State | None) -> State:
    def may_be_over() -> bool:
        return _is_over(world, name, phase)

    if end is None:
        world.until(may_be_over, bool)
        return _state(world, name)
    return world.until_equal(may_be_over, lambda: _state(world, name), end)


def _is_over(world: World, name: str, phase: str) -> bool:
    """Return whether the status shows the phase for the current spec, and the claim has ended."""
    installation = world.installation
    units = world.items(GPU_UNITS.path(namespace=installation.instance))
    unit = next((each for each in units if each["metadata"]["name"] == name), None)
    if unit is None or unit.get("status", {}).get("phase") != phase:
        return False
    stock = world.items(GPU_UNITS.path(namespace=installation.stock))
    claimed = [each for each in stock if _notes(each).get(labels.OPERATION_ID) == name]
    return not claimed and (unit["status"]["observedGeneration"] == unit["metadata"]["generation"])


def _state(world: World, name: str) -> State:
    instance = world.installation.instance
    units = world.items(GPU_UNITS.path(namespace=instance))
    sources = [_notes(unit)[labels.SOURCE_STOCK] for unit in units if _name(unit) == name]
    names = {name: "<story>", **dict.fromkeys(sources, "<stock>")}
    there = state_of(world, [instance], names)
    return {key: each for key, each in there.items() if "<story>" in key}


def _name(item: Document) -> str:
    return str(item["metadata"]["name"])


def _notes(item: Document) -> dict[str, str]:
    notes: dict[str, str] = item["metadata"].get("annotations", {})
    return notes
