"""If a manager dies at any write of a unit's life, its successor finishes the work.

In each world the stories of several units run one after the other. The manager dies at the first
write of the first story, at the second write of the second one, and so on.
"""

from functools import partial
from itertools import count
from typing import Final

import attrs
import pytest

from tests.proofs.crash.comparison import Counts, State, counts_of, difference
from tests.proofs.crash.unit_story import StoryContext, leftovers, normalized, run_story, seed
from tests.proofs.crash.world import World, crash_fault, in_parallel
from tests.proofs.real_cluster.proxy import nothing, nth

pytestmark = pytest.mark.cluster

MOMENTS: Final = ("before", "after", "late")
# The writes of each moment are distributed over this many worlds.
SHARES: Final = 3
# The last story of a world has no crash, and a story may have one write more than expected.
SPARE: Final = 5


@attrs.frozen
class Series:
    """The stories of one world, by the number of the write at which the manager died."""

    world: World
    kills: int
    stories: dict[int, dict[str, State]]
    breaches: list[str]


@attrs.frozen
class Runs:
    series: dict[str, Series]
    counts: dict[str, Counts]


def run_all(context: StoryContext) -> Runs:
    stories = {
        f"{moment}-{share}": partial(run_series, context, f"un-{moment}-{share}", moment, share)
        for moment in MOMENTS
        for share in range(SHARES)
    }
    done = in_parallel(stories)
    return Runs(done, counts_of(context.plane, [each.world for each in done.values()]))


def test_the_manager_died_at_every_write(runs: Runs, context: StoryContext) -> None:
    for moment in MOMENTS:
        kills = sum(runs.series[f"{moment}-{share}"].kills for share in range(SHARES))
        # The pool's status is written at most once a second, so that a write of it may be missing.
        assert kills >= context.undisturbed.manager_writes - 2, moment


def test_each_step_ends_as_in_an_undisturbed_run(runs: Runs, context: StoryContext) -> None:
    ends = context.undisturbed.ends
    wrong = [
        f"{name}, write {number}, {step}:\n{difference(ends[step], seen)}"
        for name, series in runs.series.items()
        for number, story in series.stories.items()
        for step, seen in story.items()
        if seen != ends[step]
    ]
    assert not wrong, "\n\n".join(wrong)


def test_everything_was_created_and_deleted_exactly_as_often(
    runs: Runs, context: StoryContext
) -> None:
    wrong = {}
    for name, series in runs.series.items():
        story_count = len(series.stories)
        expected = {key: times * story_count for key, times in context.undisturbed.counts.items()}
        found = dict(normalized(runs.counts[series.world.name]))
        if found != expected:
            wrong[name] = {
                key: (expected.get(key), found.get(key))
                for key in {*expected, *found}
                if expected.get(key) != found.get(key)
            }
    assert not wrong


def test_the_audit_finds_nothing(runs: Runs) -> None:
    assert not {name: each.breaches for name, each in runs.series.items() if each.breaches}


def run_series(context: StoryContext, name: str, moment: str, share: int) -> Series:
    """Run stories until one has no write of its number, so that no manager died in it."""
    undisturbed, world = context.undisturbed, context.make(name)
    manager, api = world.manager(), world.api()
    seed(world, api, replicas=undisturbed.manager_writes // SHARES + SPARE)
    stories: dict[int, dict[str, State]] = {}
    for number in count(share + 1, SHARES):
        kills = manager.kills
        manager.proxy.script = nth(number, crash_fault(manager, moment))
        stories[number] = run_story(world, api, number, undisturbed.ends)
        manager.proxy.script = nothing
        if manager.kills == kills or stories[number] != undisturbed.ends:
            break
    if stories[number] == undisturbed.ends:
        world.until(lambda: leftovers(world), lambda left: not left)
    breaches = world.breaches()
    world.close()
    return Series(world, manager.kills, stories, breaches)
