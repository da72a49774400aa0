"""Stories of competition for stock: in a pool that shrinks, and between two units of one name."""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.metadata import Key
from tests.proofs.simulation.callers import Caller, DefiniteAnswer
from tests.proofs.simulation.checks.cluster_observer import STOCK, ClusterObserver
from tests.proofs.simulation.checks.unit_status import is_ready
from tests.proofs.simulation.stories.script import (
    ENVELOPES,
    RUSH,
    NamesakesStory,
    ShrinkingPoolStory,
)

UNITS: Final = "/gpu-units"
POOLS: Final = "/operator/stockpools"
LOOK_SECONDS: Final = 1.0
NO_STOCK: Final = "insufficient_capacity"


class StoryContext(Protocol):
    """The part of a StoryRunner that these stories need."""

    @property
    def observer(self) -> ClusterObserver: ...

    def caller(self, name: str) -> Caller: ...

    def unit(self, name: str) -> GPUUnit | None: ...

    def require(self, holds: object, what: str) -> None: ...

    def note(self, story: str, text: str) -> None: ...

    async def until(self, holds: Callable[[], object]) -> None: ...


class ShrinkingPoolStoryRun:
    def __init__(self, context: StoryContext, story: ShrinkingPoolStory) -> None:
        self._context = context
        self._story = story
        self._key = Key(STOCK, story.name)

    async def run(self) -> None:
        story = self._story
        await asyncio.sleep(story.begins_at)
        await self._make_pool()
        first, *others = story.units
        await self._make_unit(first, 0.0)
        await self._resize(story.replicas)
        await self._until_available(story.replicas)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._resize(1), name=f"shrink {story.name}")
            for name, pause in zip(others, story.pauses, strict=True):
                tasks.create_task(self._make_unit(name, pause), name=name)
        await self._until_available(1)
        self._context.note(story.name, "told")

    async def _make_pool(self) -> None:
        body = {
            "operationID": f"pool-{RUSH}",
            "name": self._story.name,
            "specName": RUSH,
            "replicas": 1,
            **ENVELOPES[RUSH],
        }
        answer = (await self._context.caller(self._story.name).call("POST", POOLS, body)).answer
        self._context.require(answer.status in (200, 202), f"{self._story.name}: {answer}")

    async def _resize(self, replicas: int) -> None:
        path = f"{POOLS}/{self._story.name}"
        body = {"replicas": replicas}
        answer = (await self._context.caller(f"{RUSH} {replicas}").call("PUT", path, body)).answer
        self._context.require(answer.status == 200, f"{self._story.name} to {replicas}: {answer}")

    async def _until_available(self, count: int) -> None:
        pools = self._context.observer.pools
        await self._context.until(lambda: pools[self._key].status.available == count)

    async def _make_unit(self, name: str, pause: float) -> None:
        await asyncio.sleep(pause)
        body = {"operationID": f"unit-{name}", "name": name, "specName": RUSH, "image": "a:1"}
        caller = self._context.caller(name)
        while True:
            answer = (await caller.call("POST", UNITS, body)).answer
            if answer.code != NO_STOCK:
                break
            await asyncio.sleep(LOOK_SECONDS)
        self._context.require(answer.status in (200, 201), f"unit {name}: {answer}")
        await self._context.until(lambda: is_ready(self._context.unit(name)))


async def make_namesakes(context: StoryContext, story: NamesakesStory) -> None:
    """Request one name in two operations. One gets it; the claim of the other is released."""
    await asyncio.sleep(story.begins_at)
    caller = context.caller(story.name)
    first, second = (
        {"operationID": operation, "name": story.name, "specName": "ample", "image": "a:1"}
        for operation in story.operations
    )
    while True:
        answers = await caller.call_both("POST", UNITS, (first, second), story.gap)
        if not any(each.answer.code == NO_STOCK for each in answers):
            break
        await asyncio.sleep(5.0)
    outcome = sorted(map(_outcome, answers))
    context.require(outcome == ["made", "name_taken"], f"{story.name}: {answers}")
    await context.until(lambda: is_ready(context.unit(story.name)))
    context.note(story.name, "one was made")


def _outcome(definite: DefiniteAnswer) -> str:
    return "made" if definite.answer.status in (200, 201) else definite.answer.code
