"""Compare the end of a disturbed run with the end of the same script undisturbed.

Each story has the same result. Every unit has the same spec and phase, except units that compete
for scarce stock. Every pool without competition has the same size and stock. Stock that a
deleted unit released counts as used.

A unit that remains has as many created and deleted children in both runs. If an earlier unit had
its name, a create for that one may still be in flight, and what it makes is deleted at once.

A deleted unit leaves nothing behind. It may be deleted before it has children. A create still in
flight may then create it again; that unit never starts and is deleted. A storage is filled by the
same number of Jobs.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from gpuruntime.models.kinds.storages import GPU_STORAGES
from gpuruntime.models.kinds.units import CHILD_PREFIX, GPU_UNITS
from gpuruntime.models.kubernetes.volumes import JOBS
from tests.proofs.simulation.checks.cluster_observer import INSTANCE, ObjectCounts
from tests.proofs.simulation.run import Outcome
from tests.proofs.simulation.stories.script import SCARCE, Script, script_of

CHILDREN: Final = ("Deployment", "Service", "NetworkPolicy", "PersistentVolumeClaim")
OWNERS: Final = (GPU_UNITS.kind, GPU_STORAGES.kind)


def differences(outcome: Outcome, reference: Outcome) -> Iterator[str]:
    script = script_of(outcome.seed)
    rivals = racing_names(script)
    remade = frozenset(f"{INSTANCE}/{CHILD_PREFIX}{each.name}" for each in script.remade)
    for name in sorted({*outcome.state, *reference.state}):
        was, there = outcome.state.get(name), reference.state.get(name)
        if was != there and not _is_racing(name, rivals):
            yield f"{name} ends as {was}, undisturbed as {there}"
    for story in sorted({*outcome.results, *reference.results}):
        was, there = outcome.results.get(story), reference.results.get(story)
        if was != there and SCARCE not in story:
            yield f"story {story} has the result {was}, undisturbed {there}"
    yield from _counts(outcome.object_counts, reference.object_counts, rivals, remade)
    yield from _prepares(outcome.object_counts, reference.object_counts)


def racing_names(script: Script) -> frozenset[str]:
    """Return the names of units whose results depend on the timing of the run."""
    scarce = {each.unit_name for each in script.units if each.spec_name == SCARCE}
    makers = {name for each in script.functions for name in (each.name, each.successor)}
    workers = {f"{name}-w-" for name in makers}
    contests = {name for each in script.contests for name in each.names}
    return frozenset({*scarce, *workers, *contests})


def _is_racing(name: str, rivals: frozenset[str]) -> bool:
    return any(rival in name for rival in rivals)


def _counts(
    made: Mapping[tuple[str, str], ObjectCounts],
    reference: Mapping[tuple[str, str], ObjectCounts],
    rivals: frozenset[str],
    remade: frozenset[str],
) -> Iterator[str]:
    for kind, path in sorted({*made, *reference}):
        is_ours = kind in (*CHILDREN, *OWNERS) and path.startswith(f"{INSTANCE}/")
        if not is_ours or _is_racing(path, rivals):
            continue
        is_, was = (each.get((kind, path), ObjectCounts()) for each in (made, reference))
        is_counted = kind in CHILDREN and is_.left and path not in remade
        if is_.left != was.left or (is_counted and is_ != was):
            yield f"{kind} {path}: {is_}, undisturbed {was}"


def _prepares(
    made: Mapping[tuple[str, str], ObjectCounts], reference: Mapping[tuple[str, str], ObjectCounts]
) -> Iterator[str]:
    is_, was = (_runs(each) for each in (made, reference))
    for name in sorted({*is_, *was}):
        if is_[name] != was[name]:
            yield f"{name}: {is_[name]} Jobs were created, undisturbed {was[name]}"


def _runs(made: Mapping[tuple[str, str], ObjectCounts]) -> Counter[str]:
    """Return the number of Jobs of each storage; the suffix of a Job's name is random."""
    runs: Counter[str] = Counter()
    for (kind, path), each in made.items():
        if kind == JOBS.kind:
            runs[path.rpartition("-")[0]] += each.created
    return runs
