"""If a manager dies at any write of a storage's life, its successor finishes the work.

The fill of a storage fails and then succeeds; the storage is mounted, served, closed, released and
deleted. Each world covers a share of the writes; together the managers die at all of them. A
manager restarts at once and without leader election, which other suites cover.
"""

import re
import urllib.error
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import attrs
import pytest

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.storages import GPU_STORAGES
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.pods import PODS
from tests.proofs.crash.comparison import (
    Counts,
    State,
    counts_of,
    difference,
    removed_once,
    state_of,
)
from tests.proofs.crash.unit_story import StoryContext
from tests.proofs.crash.world import RestartedRole, World, crash_fault, in_parallel
from tests.proofs.real_cluster.proxy import Fault, Write

pytestmark = pytest.mark.cluster

LATE: Final = "late"
MOMENTS: Final = ("before", "after", LATE)
SHARES: Final = 3
# Longer than a new manager takes until it reconciles.
LATE_SECONDS: Final = 3.0
CONFLICT: Final = 409
# More processor than any node has: these Pods stay pending, and the story ends them itself.
HELPERS: Final = {"cpu": "600"}
NAME: Final = "story"
DIGEST: Final = re.compile(r"-[0-9a-f]{16}$")
# Each recovery has a random number in the name of its Job.
PREPARE: Final = re.compile(r"(storage-prepare-story)-[0-9a-f]{16}")
STORAGE: Final = {
    "operationID": NAME,
    "name": NAME,
    "size": "1Gi",
    "prepare": {"fromImage": "busybox:1.36", "command": ["fill"]},
}
MOUNTS: Final = [{"name": NAME, "mountPath": "/data"}]
UNIT: Final = {
    "apiVersion": GPU_UNITS.api_version,
    "kind": "GPUUnit",
    "metadata": {"name": "unit"},
    "spec": {"specName": "g1.1", "cpu": "1", "memory": "1Gi", "storageMounts": MOUNTS},
}

Document = dict[str, Any]


@attrs.define
class Deaths:
    """The writes at which successive managers die, each known by its text and its occurrence."""

    world: str
    deadly: frozenset[str]
    fault: Fault | None = None
    seen: list[str] = attrs.field(factory=list)
    _counts: Counter[str] = attrs.field(factory=Counter)

    def script(self, write: Write) -> Fault | None:
        what = PREPARE.sub(r"\1", str(write).replace(f"{self.world}-", "world-"))
        self._counts[what] += 1
        known = f"{what} #{self._counts[what]}"
        self.seen.append(known)
        return self.fault if known in self.deadly else None


@attrs.frozen
class StepsRun:
    """A storage's life: the state after each step, the managers' writes, and the crashes."""

    world: World
    ends: dict[str, State]
    deaths: Deaths
    breaches: list[str]

    @property
    def writes(self) -> list[str]:
        return self.deaths.seen


@attrs.frozen
class Runs:
    undisturbed: StepsRun
    disturbed: dict[str, StepsRun]
    counts: dict[str, Counts]


def run_all(context: StoryContext) -> Runs:
    undisturbed = run_steps(context, "vol", [], "", {})
    stories = {
        f"{moment}-{share}": partial(
            run_steps,
            context,
            f"vol-{moment}-{share}",
            undisturbed.writes[share::SHARES],
            moment,
            undisturbed.ends,
        )
        for moment in MOMENTS
        for share in range(SHARES)
    }
    done = in_parallel(stories)
    worlds = [each.world for each in (undisturbed, *done.values())]
    return Runs(undisturbed, done, counts_of(context.plane, worlds))


@pytest.mark.parametrize("moment", MOMENTS)
def test_managers_died_at_every_write(runs: Runs, moment: str) -> None:
    """Require a crash at the first occurrence of every write; later patches may be merged."""
    runs_with_writes = [runs.disturbed[f"{moment}-{share}"] for share in range(SHARES)]
    died_at = {
        each for one in runs_with_writes for each in one.writes if each in one.deaths.deadly
    }
    first = {each for each in runs.undisturbed.writes if each.endswith(" #1")}
    assert first <= died_at
    assert len(died_at) > len(first)


def test_each_step_ends_as_in_an_undisturbed_run(runs: Runs) -> None:
    ends = runs.undisturbed.ends
    wrong = [
        f"{name}, {step}:\n{difference(end, each.ends.get(step))}"
        for name, each in runs.disturbed.items()
        for step, end in ends.items()
        if each.ends.get(step) != end
    ]
    assert not wrong, "\n\n".join(wrong)


def test_everything_was_created_and_deleted_exactly_as_often(runs: Runs) -> None:
    expected = normalized(runs.counts[runs.undisturbed.world.name])
    wrong: list[str] = []
    for name, each in runs.disturbed.items():
        found = normalized(runs.counts[each.world.name])
        if name.startswith(LATE):
            found = removed_once(found)
        wrong += (
            f"{name}: {' '.join(key)}: {expected[key]} became {found[key]}"
            for key in sorted(found - expected | expected - found)
        )
    assert not wrong, "\n".join(wrong)


def test_the_audit_finds_nothing(runs: Runs) -> None:
    runs_with_writes = {"undisturbed": runs.undisturbed, **runs.disturbed}
    assert not {name: each.breaches for name, each in runs_with_writes.items() if each.breaches}


def run_steps(
    context: StoryContext,
    name: str,
    deadly_writes: Iterable[str],
    moment: str,
    ends: Mapping[str, State],
) -> StepsRun:
    """Run the steps until one ends differently from `ends`."""
    world = context.make(name)
    manager, api = world.manager_without_election(helpers=HELPERS), world.api()
    fault = crash_fault(manager, moment, late_seconds=LATE_SECONDS) if moment else None
    deaths = Deaths(name, frozenset(deadly_writes), fault)
    manager.proxy.script = deaths.script
    seen: dict[str, State] = {}
    for step, ask, is_over in steps(world, api):
        ask()
        seen[step] = _until_equal(world, is_over, ends.get(step))
        if seen[step] != ends.get(step, seen[step]):
            break
    breaches = world.breaches()
    world.close()
    return StepsRun(world, seen, deaths, breaches)


def steps(
    world: World, api: RestartedRole
) -> Iterator[tuple[str, Callable[[], None], Callable[[], bool]]]:
    """Yield each step's result by name, its request, and the condition that shows its end."""
    storage, unit = f"/gpu-storages/{NAME}", "/gpu-units/unit"
    ask = partial(_ask, world, api)

    def fill(words: str) -> None:
        world.until(lambda: _ended(world, words), bool)

    def fail() -> None:
        ask("POST", "/gpu-storages", STORAGE)
        fill("no space left")

    def recover() -> None:
        ask("POST", f"{storage}/recover")
        fill("")

    def mount() -> None:
        path = GPU_UNITS.path(namespace=world.installation.instance)
        world.plane.request("POST", path, UNIT)

    yield "failed", fail, lambda: _phase(world) == "Failed"
    yield "filled", recover, lambda: _phase(world) == "Ready"
    yield "mounted", mount, lambda: _mounted(world) and _is_ready(world)

    def serve() -> None:
        ask("PUT", storage, {"accessor": {"enabled": True}})
        world.until(lambda: _placed(world), bool)

    yield "served", serve, lambda: _is_served(world)
    yield "closed", partial(ask, "PUT", storage, {"accessor": None}), lambda: _is_current(world)
    bare = {"storageMounts": None}
    yield (
        "given back",
        partial(ask, "PUT", unit, bare),
        lambda: not _mounted(world) and _is_ready(world),
    )
    yield "alone", partial(ask, "DELETE", unit), lambda: not _left(world, "/unit")
    yield "gone", partial(ask, "DELETE", storage), lambda: not _left(world, NAME)


def normalized(counts: Counts) -> Counts:
    """Return the counts without the digest that identifies one run of a prepare."""
    found: Counts = Counter()
    for (verb, kind, name), count in counts.items():
        found[verb, kind, DIGEST.sub("", name)] += count
    return found


def _ask(world: World, api: RestartedRole, method: str, path: str, body: object = None) -> None:
    """Repeat a request until it is answered; all of these answers are successes."""
    answer = world.retry_until_definite(api, method, path, body)
    assert answer.status in {200, 201, 204}, answer


def _ended(world: World, words: str) -> bool:
    """End the pending Pod that fills the storage; `words`, if any, are its error."""
    path = PODS.path(namespace=world.installation.instance)
    for pod in world.items(path):
        is_filling = labels.PREPARE in pod["metadata"]["labels"]
        if is_filling and pod["status"]["phase"] == "Pending":
            return _end(world, f"{path}/{pod['metadata']['name']}", words)
    return False


def _end(world: World, path: str, words: str) -> bool:
    terminated = {"exitCode": int(bool(words)), "reason": "Error", "message": words}
    container = {
        "name": "prepare",
        "image": "busybox:1.36",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"terminated": terminated},
    }
    pod = world.plane.request("GET", path)
    phase = "Failed" if words else "Succeeded"
    pod["status"] |= {"phase": phase, "containerStatuses": [container]}
    return _was_first(world, "PUT", f"{path}/status", pod)


def _placed(world: World) -> bool:
    """Bind the pending Pod of the file server to the unit's node."""
    unit = _named(world, GPU_UNITS, "unit")
    path = PODS.path(namespace=world.installation.instance)
    for pod in world.items(path):
        is_accessor = labels.ACCESSOR in pod["metadata"]["labels"]
        if unit is not None and is_accessor and "nodeName" not in pod["spec"]:
            name = pod["metadata"]["name"]
            target = {"apiVersion": "v1", "kind": "Node", "name": unit["status"]["nodeName"]}
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}}
            return _was_first(world, "POST", f"{path}/{name}/binding", {**body, "target": target})
    return False


def _was_first(world: World, method: str, path: str, body: Document) -> bool:
    """Send a write, or return False if the scheduler's write was first; the caller polls again."""
    try:
        world.plane.request(method, path, body)
    except urllib.error.HTTPError as error:
        with error:
            if error.code != CONFLICT:
                raise
        return False
    return True


def _until_equal(world: World, is_over: Callable[[], bool], end: State | None) -> State:
    if end is not None:
        return world.until_equal(is_over, lambda: _state(world), end)
    return world.until_stable(is_over, lambda: _state(world))


def _state(world: World) -> State:
    installation = world.installation
    return state_of(world, [installation.instance, installation.system])


def _left(world: World, text: str) -> list[str]:
    """Return the keys that contain this text, of the objects that still exist."""
    return [key for key in state_of(world, [world.installation.instance]) if text in key]


def _phase(world: World) -> str:
    storage = _named(world, GPU_STORAGES, NAME)
    return str((storage or {}).get("status", {}).get("phase"))


def _mounted(world: World) -> bool:
    storage = _named(world, GPU_STORAGES, NAME)
    return bool(storage and storage["status"].get("holder"))


def _is_ready(world: World) -> bool:
    unit = _named(world, GPU_UNITS, "unit")
    return unit is not None and unit.get("status", {}).get("phase") == "Ready"


def _is_current(world: World) -> bool:
    storage = _named(world, GPU_STORAGES, NAME)
    status = (storage or {}).get("status", {})
    return storage is not None and (
        status.get("observedGeneration") == storage["metadata"]["generation"]
    )


def _is_served(world: World) -> bool:
    storage = _named(world, GPU_STORAGES, NAME)
    return bool(storage and storage["status"].get("accessor", {}).get("phase") == "Ready")


def _named(world: World, resource: Any, name: str) -> Document | None:
    items = world.items(resource.path(namespace=world.installation.instance))
    return next((each for each in items if each["metadata"]["name"] == name), None)
